#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/quantize_target.h"
#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8.h"
#include "ops/fused/rms_norm_modulate/rms_norm_modulate_row.h"
#include "ops/rms_norm/rms_norm_row.h"

enum { X, WEIGHT, SCALE, SHIFT };                   // of the node
enum { FROM, SCALE_ROWS, SHIFT_ROWS, N_OPERANDS };  // of the walk

enum { FETCH_ELEMENTS = 1 << 19 };  // of x, from which asking for the next row pays

typedef struct arguments {
  quantize_target to;
  graft_loops loops;
  const char *x;
  const char *weight, *scale, *shift;  // NULL: none
  bool is_factor;
  graft_dtype_code weight_type;
  double eps;
  bool fetches;  // x is so large that it comes from far away
} arguments;

static void multiply_row(float *y, const float *factor, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(y + i, vec_load(y + i) * vec_load(factor + i));
  if (i < n) vec_store_n(y + i, vec_load_n(y + i, n - i) * vec_load_n(factor + i, n - i), n - i);
}

static void shift_row(float *y, const float *shift, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(y + i, vec_load(y + i) + vec_load(shift + i));
  if (i < n) vec_store_n(y + i, vec_load_n(y + i, n - i) + vec_load_n(shift + i, n - i), n - i);
}

static void make_row(const arguments *a, int64_t row, float *y) {
  int64_t offsets[N_OPERANDS];
  graft_loops_find_row(&a->loops, row, offsets);
  const float *x = (const float *)(const void *)(a->x + offsets[FROM]);
  const float *scale = a->scale ? (const float *)(const void *)(a->scale + offsets[SCALE_ROWS]) : NULL;
  if (scale && !a->is_factor) {
    const rms_norm_modulate_row r = {.x = x,
                                     .scale = scale,
                                     .y = y,
                                     .n = a->to.k,
                                     .eps = a->eps,
                                     .weight = a->weight,
                                     .weight_type = a->weight_type};
    rms_norm_modulate_make_row(&r);
  } else {
    const rms_norm_row r = {
        .x = x, .y = y, .n = a->to.k, .eps = a->eps, .weight = a->weight, .weight_type = a->weight_type};
    rms_norm_make_row(&r);
    if (scale) multiply_row(y, scale, a->to.k);
  }
  if (a->shift) shift_row(y, (const float *)(const void *)(a->shift + offsets[SHIFT_ROWS]), a->to.k);
}

static const float *next_row(const arguments *a, int64_t row) {
  int64_t offsets[N_OPERANDS];
  graft_loops_find_row(&a->loops, row + 1, offsets);
  return (const float *)(const void *)(a->x + offsets[FROM]);
}

// A row is quantised where it was made, while it is in the nearest cache and the next one's input is on its way.
static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  float *y = quantize_target_scratch(&a->to, worker);
  const int64_t end = quantize_target_given(&a->to, item);
  for (int64_t i = item * a->to.rows_per_item; i < end; ++i) {
    graft_quantize_row row = quantize_target_row(&a->to, i, y, GRAFT_DTYPE_F32, y);
    make_row(a, i, y);
    if (a->fetches && i + 1 < a->to.m) row.ahead = next_row(a, i);
    GRAFT_TARGETED(graft_quantize_core).row(&row);
  }
  quantize_target_finish(&a->to, item);
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *x = node->inputs[X], *scale = node->inputs[SCALE], *shift = node->inputs[SHIFT];
  const graft_tensor_desc *const operands[N_OPERANDS] = {
      [FROM] = x, [SCALE_ROWS] = scale ? scale : x, [SHIFT_ROWS] = shift ? shift : x};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *scale = node->inputs[SCALE], *shift = node->inputs[SHIFT];
  if (shift && shift->dtype != GRAFT_F32) return graft_refuse(why, "the shift is %s, not f32", shift->dtype->name);
  if (x->dtype != GRAFT_F32 || (scale && scale->dtype != GRAFT_F32)) {
    return graft_refuse(why, "x is %s and the scale %s, not f32", x->dtype->name, scale ? scale->dtype->name : "none");
  }
  if (!rms_takes_weight(node->inputs[WEIGHT])) {
    return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  }
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "the result is not contiguous");
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_rms_norm_convrot_i8_attrs *attrs = node->attrs;
  arguments a = {
      .to = {.group = attrs->quantize.group, .has_bf16_grid = attrs->quantize.grid == GRAFT_QUANTIZE_BF16},
      .x = args->inputs[X],
      .weight = args->inputs[WEIGHT],
      .scale = args->inputs[SCALE],
      .shift = args->inputs[SHIFT],
      .is_factor = attrs->is_factor,
      .weight_type = node->inputs[WEIGHT] ? node->inputs[WEIGHT]->dtype->code : GRAFT_DTYPE_F32,
      .eps = attrs->eps,
  };
  plan_walk(node, &a.loops);
  a.fetches = graft_tensor_desc_elements(node->inputs[X]) >= FETCH_ELEMENTS;
  const graft_cpu_task task = {.run = run, .args_bytes = sizeof a};
  return quantize_target_encode(encoder, args, &a.loops, &a.to, task);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(rms_norm_convrot_i8_f32_rows),
    .op = "graft.rms_norm_convrot_i8.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .prepare = quantize_prepare,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_rms_norm_convrot_i8);
const graft_extension GRAFT_TARGETED(graft_extension_rms_norm_convrot_i8) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(rms_norm_convrot_i8),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
