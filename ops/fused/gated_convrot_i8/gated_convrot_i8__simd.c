#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/quantize_target.h"
#include "ops/fused/gated_convrot_i8/gated_convrot_i8.h"
#include "ops/fused/linear_i8_swiglu_convrot_i8/linear_i8_swiglu_convrot_i8.h"
#include "ops/fused/swiglu/swiglu_row.h"
#include "ops/linear_i8/linear_i8_rows_target.h"

enum { GATE, X, N_OPERANDS };

enum { PRODUCT_GATE = 1, PRODUCT_UP = 3 };  // weights of graft.linear_i8_swiglu_convrot_i8.v1

typedef struct arguments {
  quantize_target to;
  graft_loops loops;
  int32_t gating;
  float scale, bias;
  const char *gate, *x;  // gate: x where there is none
} arguments;

static inline __attribute__((always_inline)) vec gated(const arguments *a, const int32_t gating, vec gate, vec x) {
  if (gating == GRAFT_GATING_SILU) return swiglu_of(gate, x);
  if (gating == GRAFT_GATING_SIGMOID) return vec_sigmoid(gate) * x;
  return gating == GRAFT_GATING_PRODUCT ? gate * x : vec_madd(x, vec_all(a->scale), vec_all(a->bias));
}

// |gating| is a constant once inlined.
static inline __attribute__((always_inline)) void make(const arguments *a, const int32_t gating, const float *gate,
                                                       const float *x, int64_t n, float *y) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(y + i, gated(a, gating, vec_load(gate + i), vec_load(x + i)));
  if (i < n) vec_store_n(y + i, gated(a, gating, vec_load_n(gate + i, n - i), vec_load_n(x + i, n - i)), n - i);
}

static void make_piece(const arguments *a, const float *gate, const float *x, int64_t n, float *y) {
  switch (a->gating) {
    case GRAFT_GATING_SILU: make(a, GRAFT_GATING_SILU, gate, x, n, y); break;
    case GRAFT_GATING_SIGMOID: make(a, GRAFT_GATING_SIGMOID, gate, x, n, y); break;
    case GRAFT_GATING_PRODUCT: make(a, GRAFT_GATING_PRODUCT, gate, x, n, y); break;
    default: make(a, GRAFT_GATING_SCALE, gate, x, n, y); break;
  }
}

static void quantize(const arguments *a, int64_t i, float *y) {
  const graft_quantize_row row = quantize_target_row(&a->to, i, y, GRAFT_DTYPE_F32, y);
  int64_t offsets[N_OPERANDS];
  int32_t most = 0;
  graft_loops_find_row(&a->loops, i, offsets);
  const float *gate = (const float *)(const void *)(a->gate + offsets[GATE]);
  const float *x = (const float *)(const void *)(a->x + offsets[X]);
  for (int64_t first = 0, end; first < row.n; first = end) {
    end = quantize_target_piece_end(&a->to, first);
    make_piece(a, gate + first, x + first, end - first, y + first);
    most = quantize_target_rotate(&row, first, end, most);
  }
  GRAFT_TARGETED(graft_quantize_core).round(&row, most);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  float *y = quantize_target_scratch(&a->to, worker);
  const int64_t end = quantize_target_given(&a->to, item);
  for (int64_t row = item * a->to.rows_per_item; row < end; ++row) quantize(a, row, y);
  quantize_target_finish(&a->to, item);
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *gate = node->inputs[GATE] ? node->inputs[GATE] : node->inputs[X];
  const graft_tensor_desc *const operands[N_OPERANDS] = {[GATE] = gate, [X] = node->inputs[X]};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype dtype = node->inputs[X]->dtype;
  if (dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", dtype->name);
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "the result is not contiguous");
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  out_prepared->workspace_bytes = quantize_workspace_bytes(node, node->inputs[X]);
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_gated_convrot_i8_attrs *attrs = args->node->attrs;
  arguments a = {
      .to = {.group = attrs->quantize.group, .has_bf16_grid = attrs->quantize.grid == GRAFT_QUANTIZE_BF16},
      .gating = attrs->gating,
      .scale = (float)attrs->scale,
      .bias = (float)attrs->bias,
      .gate = args->inputs[GATE] ? args->inputs[GATE] : args->inputs[X],
      .x = args->inputs[X],
  };
  plan_walk(args->node, &a.loops);
  const graft_cpu_task task = {.run = run, .args_bytes = sizeof a};
  return quantize_target_encode(encoder, args, &a.loops, &a.to, task);
}

// Gate and x are products of the same rows, made piece by piece of a few rows at a time.
typedef struct product_arguments {
  quantize_target to;
  graft_gemm_i8 gate, up;
  char *scratch;  // one part for each worker
  size_t y_stride, tile_bytes, scratch_bytes;
} product_arguments;

// Parts of a worker's scratch: rows to be quantised, a piece of both products, and what a product wants.
static void place_scratch(const quantize_target *to, const graft_gemm_i8 *g, product_arguments *a) {
  const int64_t few = graft_gemm_i8_few_rows(g->core);
  a->y_stride = (size_t)graft_quantize_scratch_floats(g->n);
  a->tile_bytes = (size_t)(few * quantize_target_piece(to)) * sizeof(float);
  a->scratch_bytes = (size_t)few * a->y_stride * sizeof(float) + 2 * a->tile_bytes;
  a->scratch_bytes = (a->scratch_bytes + 63) & ~(size_t)63;
  a->scratch_bytes += graft_gemm_i8_few_scratch_bytes(g->core, g->k);
}

typedef struct few_rows {
  int64_t first, n;
  float *y, *gate, *up;  // up lies like gate
  void *scratch;
  int32_t most[GRAFT_GEMM_I8_MOST_FEW_ROWS];
} few_rows;

// Elements |first| … |end| - 1 of the rows.
static void make_pieces(const product_arguments *a, few_rows *r, int64_t first, int64_t end) {
  const int64_t stride = quantize_target_piece(&a->to);
  linear_i8_rows_part part = {.first = r->first,
                              .n = r->n,
                              .column = first,
                              .end = end,
                              .out = r->gate,
                              .row_stride = stride,
                              .has_a = first > 0};
  linear_i8_rows_run(&a->gate, &part, r->scratch);
  part.out = r->up;
  part.has_a = true;
  linear_i8_rows_run(&a->up, &part, r->scratch);
  for (int64_t i = 0; i < r->n; ++i) {
    float *y = r->y + (size_t)i * a->y_stride;
    const graft_quantize_row row = quantize_target_row(&a->to, r->first + i, y, GRAFT_DTYPE_F32, y);
    swiglu_row((const char *)(r->gate + i * stride), (const char *)(r->up + i * stride), (char *)(y + first),
               GRAFT_DTYPE_F32, end - first, false);
    r->most[i] = quantize_target_rotate(&row, first, end, r->most[i]);
  }
}

static void run_products(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const product_arguments *a = args;
  char *scratch = a->scratch + (size_t)worker->index * a->scratch_bytes;
  few_rows r = {.first = item * a->to.rows_per_item, .y = (float *)(void *)scratch};
  r.n = quantize_target_given(&a->to, item) - r.first;
  scratch += (size_t)a->to.rows_per_item * a->y_stride * sizeof(float);
  r.gate = (float *)(void *)scratch;
  r.up = (float *)(void *)(scratch + a->tile_bytes);
  r.scratch = (void *)(((uintptr_t)scratch + 2 * a->tile_bytes + 63) & ~(uintptr_t)63);
  for (int64_t first = 0, end; r.n > 0 && first < a->to.k; first = end) {
    end = quantize_target_piece_end(&a->to, first);
    make_pieces(a, &r, first, end);
  }
  for (int64_t i = 0; i < r.n; ++i) {
    float *y = r.y + (size_t)i * a->y_stride;
    const graft_quantize_row row = quantize_target_row(&a->to, r.first + i, y, GRAFT_DTYPE_F32, y);
    GRAFT_TARGETED(graft_quantize_core).round(&row, r.most[i]);
  }
  quantize_target_finish(&a->to, item);
}

static bool supports_products(const graft_node_info *node, graft_reason *why) {
  if (!linear_i8_rows_supports(node, PRODUCT_GATE, why) || !linear_i8_rows_supports(node, PRODUCT_UP, why))
    return false;
  return graft_tensor_desc_is_contiguous(node->outputs[0]) || graft_refuse(why, "the result is not contiguous");
}

static bool prefers_products(const graft_node_info *node, graft_reason *why) {
  return linear_i8_rows_are_near(node, PRODUCT_GATE, 2 * graft_tensor_desc_elements(node->inputs[PRODUCT_GATE]), why);
}

static quantize_target describe_products(const graft_node_info *node, product_arguments *a) {
  const graft_linear_i8_swiglu_convrot_i8_attrs *attrs = node->attrs;
  const graft_gemm_i8 g = linear_i8_rows_describe(node, PRODUCT_GATE);
  const quantize_target to = {
      .m = g.m, .k = g.n, .group = attrs->quantize.group, .has_bf16_grid = attrs->quantize.grid == GRAFT_QUANTIZE_BF16};
  place_scratch(&to, &g, a);
  return to;
}

static graft_status prepare_products(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  product_arguments a;
  describe_products(node, &a);
  linear_i8_rows_prepare(node, PRODUCT_GATE, out_prepared);
  linear_i8_rows_prepare(node, PRODUCT_UP, out_prepared);
  out_prepared->workspace_bytes = (size_t)graft_cpu_describe(node->device)->n_threads * a.scratch_bytes;
  return GRAFT_OK;
}

static graft_status encode_products(graft_encoder *encoder, const graft_encode_args *args) {
  product_arguments a = {.gate = linear_i8_rows_place(args, PRODUCT_GATE),
                         .up = linear_i8_rows_place(args, PRODUCT_UP),
                         .scratch = args->workspace};
  a.to = describe_products(args->node, &a);
  quantize_target_place(&a.to, args, GRAFT_DTYPE_F32);
  quantize_target_split(&a.to, graft_gemm_i8_few_rows(a.gate.core));
  const graft_cpu_task task = {.run = run_products, .args = &a, .args_bytes = sizeof a, .n_items = a.to.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(gated_convrot_i8_f32_rows),
        .op = "graft.gated_convrot_i8.v1",
        .backend = "cpu",
        .required_features = GRAFT_TARGET_REQUIRES,
        .supports = supports,
        .prepare = prepare,
        .encode = encode,
    },
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(linear_i8_swiglu_convrot_i8_rows),
        .op = "graft.linear_i8_swiglu_convrot_i8.v1",
        .backend = "cpu",
        .required_features = LINEAR_I8_ROWS_REQUIRES,
        .supports = supports_products,
        .preferred = prefers_products,
        .prepare = prepare_products,
        .pack = linear_i8_rows_pack,
        .encode = encode_products,
    },
};

extern const graft_extension GRAFT_TARGETED(graft_extension_gated_convrot_i8);
const graft_extension GRAFT_TARGETED(graft_extension_gated_convrot_i8) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(gated_convrot_i8),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
