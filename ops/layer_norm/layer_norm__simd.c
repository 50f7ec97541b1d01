#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/moments.h"
#include "ops/common/cpu/target.h"
#include "ops/layer_norm/layer_norm.h"

enum { X, WEIGHT, BIAS, SCALE, SHIFT };  // of the node; the last two of graft.layer_norm_modulate.v1 only
enum { TO, FROM, SCALE_ROWS, SHIFT_ROWS, N_OPERANDS };  // of the walk

// A weight or bias: one element for each of a row's, or none.
typedef struct per_channel {
  const char *data;  // NULL: none
  graft_dtype_code type;
  int64_t step;  // bytes between elements
} per_channel;

typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  per_channel weight, bias;
  const char *scale, *shift;  // NULL: none
  double eps;
} arguments;

typedef struct row {
  const float *x, *scale, *shift;
  float *y;
} row;

static inline vec transform(vec x, moments_scaling s) {
  return moments_distance(x, s) * vec_all(s.factor);
}

static inline vec load_channels(const per_channel *p, int64_t i, int64_t n) {
  const char *address = p->data + i * p->step;
  return n < LANES ? vec_load_typed_n(address, p->type, n) : vec_load_typed(address, p->type);
}

static inline vec apply_channels(const arguments *a, vec v, int64_t i, int64_t n) {
  if (a->weight.data) v *= load_channels(&a->weight, i, n);
  if (a->bias.data) v += load_channels(&a->bias, i, n);
  return v;
}

static inline vec load_floats(const float *p, int64_t n) {
  return n < LANES ? vec_load_n(p, n) : vec_load(p);
}

// The |n| ≤ LANES elements from |i| on. |is_modulated| is known where this is inlined.
static inline __attribute__((always_inline)) vec finish(const arguments *a, row r, moments_scaling scaling, int64_t i,
                                                        int64_t n, bool is_modulated) {
  const vec v = apply_channels(a, transform(load_floats(r.x + i, n), scaling), i, n);
  if (!is_modulated) return v;
  const vec scale = load_floats(r.scale + i, n) + 1;
  return r.shift ? vec_madd(v, scale, load_floats(r.shift + i, n)) : v * scale;
}

static inline __attribute__((always_inline)) void normalise(const arguments *a, row r, bool is_modulated) {
  const int64_t n = a->loops.row_length;
  const moments_scaling scaling = moments_normalise(moments_measure(r.x, n), a->eps);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(r.y + i, finish(a, r, scaling, i, LANES, is_modulated));
  if (i < n) vec_store_n(r.y + i, finish(a, r, scaling, i, n - i, is_modulated), n - i);
}

static const float *floats_at(const char *base, int64_t offset) {
  return base ? (const float *)(const void *)(base + offset) : NULL;
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t i = part.first_row; i < part.end_row; ++i) {
    int64_t offsets[N_OPERANDS] = {0};
    graft_loops_find_row(&a->loops, i, offsets);
    const row r = {.x = floats_at(a->x, offsets[FROM]),
                   .scale = floats_at(a->scale, offsets[SCALE_ROWS]),
                   .shift = floats_at(a->shift, offsets[SHIFT_ROWS]),
                   .y = (float *)(void *)(a->y + offsets[TO])};
    if (a->scale) {
      normalise(a, r, true);
    } else {
      normalise(a, r, false);
    }
  }
}

static bool is_plain(const graft_tensor_desc *desc) {
  if (!desc) return true;
  if (desc->dtype != GRAFT_F32 && desc->dtype != GRAFT_F16 && desc->dtype != GRAFT_BF16) return false;
  return graft_tensor_desc_is_contiguous(desc);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *y = node->outputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!graft_tensor_desc_is_dense_from(x, x->rank - 1) || !graft_tensor_desc_is_dense_from(y, y->rank - 1)) {
    return graft_refuse(why, "rows are not contiguous");
  }
  if (!is_plain(node->inputs[WEIGHT]) || !is_plain(node->inputs[BIAS])) {
    return graft_refuse(why, "weight or bias is not contiguous f32, f16 or bf16");
  }
  return true;
}

// Without a shift the scale takes its place in the walk.
static void plan_walk(const graft_node_info *node, bool is_modulated, graft_loops *loops) {
  const graft_tensor_desc *operands[N_OPERANDS] = {[TO] = node->outputs[0], [FROM] = node->inputs[X]};
  if (is_modulated) {
    operands[SCALE_ROWS] = node->inputs[SCALE];
    operands[SHIFT_ROWS] = node->inputs[SHIFT] ? node->inputs[SHIFT] : node->inputs[SCALE];
  }
  graft_loops_init(loops, operands, is_modulated ? N_OPERANDS : SCALE_ROWS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports_modulated(const graft_node_info *node, graft_reason *why) {
  if (!supports(node, why)) return false;
  const graft_tensor_desc *scale = node->inputs[SCALE], *shift = node->inputs[SHIFT];
  if (scale->dtype != GRAFT_F32 || (shift && shift->dtype != GRAFT_F32)) {
    return graft_refuse(why, "scale or shift is not f32");
  }
  graft_loops loops;
  plan_walk(node, true, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static per_channel find_channels(const graft_encode_args *args, uint32_t input) {
  const graft_tensor_desc *desc = args->node->inputs[input];
  if (!desc) return (per_channel){0};
  return (per_channel){.data = args->inputs[input], .type = desc->dtype->code, .step = desc->dtype->block_bytes};
}

static graft_status encode_rows(graft_encoder *encoder, const graft_encode_args *args, bool is_modulated) {
  const graft_layer_norm_attrs *attrs = args->node->attrs;
  arguments a = {.x = args->inputs[X],
                 .y = args->outputs[0],
                 .weight = find_channels(args, WEIGHT),
                 .bias = find_channels(args, BIAS),
                 .scale = is_modulated ? args->inputs[SCALE] : NULL,
                 .shift = is_modulated ? args->inputs[SHIFT] : NULL,
                 .eps = attrs->eps};
  plan_walk(args->node, is_modulated, &a.loops);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_rows(encoder, args, false);
}

static graft_status encode_modulated(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_rows(encoder, args, true);
}

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .requires = GRAFT_TARGET_REQUIRES, .in_place_inputs = 1u << X

static const graft_kernel_def kernels[] = {
    {KERNEL(layer_norm_f32_rows, "graft.layer_norm.v1"), .supports = supports, .encode = encode},
    {KERNEL(layer_norm_modulate_f32_rows, "graft.layer_norm_modulate.v1"), .supports = supports_modulated,
     .encode = encode_modulated},
};

extern const graft_extension GRAFT_TARGETED(graft_extension_layer_norm);
const graft_extension GRAFT_TARGETED(graft_extension_layer_norm) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(layer_norm),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
