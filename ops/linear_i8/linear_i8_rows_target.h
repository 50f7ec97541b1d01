// linear_i8_rows_target.h — for kernels of the operators of linear_i8_rows.h: a few rows of the product are computed as
// a whole and handed on while they are in the nearest caches. For files that are compiled once per target.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_ROWS_TARGET_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_ROWS_TARGET_H

#include "graft/cpu.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/weight_i8.h"
#include "ops/linear_i8/linear_i8_rows.h"

#if defined(__AVX512F__)
enum { LINEAR_I8_ROWS_REQUIRES = GRAFT_TARGET_REQUIRES | GRAFT_CPU_AVX512_VNNI };
#else
enum { LINEAR_I8_ROWS_REQUIRES = GRAFT_TARGET_REQUIRES };
#endif

static inline graft_weight_i8 linear_i8_rows_weight(const graft_node_info *node, uint32_t weight) {
  const graft_linear_i8_rows_attrs *attrs = node->attrs;
  const uint64_t features = graft_cpu_describe(node->device)->features;
  return (graft_weight_i8){.core = graft_gemm_i8_core_for(&GRAFT_TARGETED(graft_gemm_i8_core), features),
                           .quantize = &GRAFT_TARGETED(graft_quantize_core),
                           .desc = node->inputs[weight],
                           .group = attrs->linear.group,
                           .has_bf16_grid = attrs->linear.grid == GRAFT_QUANTIZE_BF16};
}

// The product with the weight that is input |weight|; everything but addresses.
static inline graft_gemm_i8 linear_i8_rows_describe(const graft_node_info *node, uint32_t weight) {
  const graft_linear_i8_rows_attrs *attrs = node->attrs;
  const graft_tensor_desc *w = node->inputs[weight], *scale = node->inputs[weight + 1];
  return (graft_gemm_i8){
      .core = linear_i8_rows_weight(node, weight).core,
      .m = attrs->linear.packed_rows,
      .n = w->shape[0],
      .k = w->shape[1],
      .a_stride = w->shape[1],
      .scales = {.x_step = 1, .w_step = w->dtype->is_float || (scale && graft_tensor_desc_elements(scale) != 1)},
      .out = {.type = GRAFT_DTYPE_F32},
  };
}

static inline bool linear_i8_rows_supports(const graft_node_info *node, uint32_t weight, graft_reason *why) {
  const graft_linear_i8_rows_attrs *attrs = node->attrs;
  const graft_tensor_desc *w = node->inputs[weight], *scale = node->inputs[weight + 1];
  if (attrs->linear.order != GRAFT_LINEAR_I8_PLAIN) return graft_refuse(why, "the order is not the plain one");
  if (attrs->linear.y_dtype && attrs->linear.y_dtype != GRAFT_F32) return graft_refuse(why, "the product is not f32");
  if (!graft_tensor_desc_is_contiguous(node->inputs[0])) return graft_refuse(why, "the packed x is not contiguous");
  if (!(node->constant_inputs & 1u << weight) || graft_tensor_desc_elements(w) == 0) {
    return graft_refuse(why, "a weight is not constant, or is empty");
  }
  if (w->dtype != GRAFT_I8 && !graft_gemm_takes(w->dtype)) return graft_refuse(why, "a weight is %s", w->dtype->name);
  if (!graft_gemm_has_dense_rows(w)) return graft_refuse(why, "rows of a weight are not contiguous");
  return !scale || (scale->dtype == GRAFT_F32 && graft_tensor_desc_is_contiguous(scale)) ||
         graft_refuse(why, "scales of a weight are not contiguous f32");
}

static inline void linear_i8_rows_prepare(const graft_node_info *node, uint32_t weight, graft_prepared *out_prepared) {
  const graft_weight_i8 w = linear_i8_rows_weight(node, weight);
  graft_weight_i8_prepare(&w, weight, &out_prepared->packed[out_prepared->n_packed++]);
}

// As graft_kernel_def.pack.
static inline graft_status linear_i8_rows_pack(const graft_node_info *node, void *state, uint32_t input,
                                               const void *source, void *packed) {
  (void)state;
  const graft_weight_i8 w = linear_i8_rows_weight(node, input);
  return graft_weight_i8_pack(&w, source, packed);
}

// Points the product at its operands.
static inline graft_gemm_i8 linear_i8_rows_place(const graft_encode_args *args, uint32_t weight) {
  const graft_node_info *node = args->node;
  graft_gemm_i8 g = linear_i8_rows_describe(node, weight);
  g.a = args->inputs[0];
  g.b = args->inputs[weight];
  g.scales.x = (const float *)(const void *)(g.a + node->inputs[0]->shape[0] * g.k);
  g.scales.w = args->inputs[weight + 1];
  if (node->inputs[weight]->dtype == GRAFT_I8) return g;
  const graft_weight_i8 w = linear_i8_rows_weight(node, weight);
  g.scales.w = graft_weight_i8_scales(&w, g.b);
  return g;
}

// Rows |first| and following of a product, at most graft_gemm_i8_few_rows of them, and columns |column| … |end| - 1.
typedef struct linear_i8_rows_part {
  int64_t first, n, column, end;
  float *out;  // of the first of both
  int64_t row_stride;
  bool has_a;  // graft_gemm_i8_run_few's
} linear_i8_rows_part;

static inline void linear_i8_rows_run(const graft_gemm_i8 *product, const linear_i8_rows_part *part, void *scratch) {
  graft_gemm_i8 g = *product;
  g.m = part->n;
  g.a += part->first * g.a_stride;
  g.scales.x += part->first;
  g.out.data = (void *)((uintptr_t)part->out - (uintptr_t)part->column * sizeof(float));
  g.out.row_stride = part->row_stride;
  graft_gemm_i8_run_few(&g, part->column, part->end, part->has_a, scratch);
}

// An item is as many rows as are computed at once. The split depends on the shape alone.
static inline int64_t linear_i8_rows_items(const graft_gemm_i8 *product) {
  const int64_t few = graft_gemm_i8_few_rows(product->core);
  return (product->m + few - 1) / few;
}

// Whether the operator is worth its while, of which |weight| is one weight. Rows are few, so that weights are read
// again and again: from a core's own cache that is free. |bytes|: of weights, and of whatever else must find room
// there. And items are few: where they would keep more than a quarter of the threads waiting, those of the product
// alone, which share columns, too, go round better.
static inline bool linear_i8_rows_are_near(const graft_node_info *node, uint32_t weight, int64_t bytes,
                                           graft_reason *why) {
  const graft_cpu_info *cpu = graft_cpu_describe(node->device);
  if ((size_t)bytes > cpu->l2_bytes) {
    return graft_refuse(why, "%lld bytes of weights and results do not fit in a core's cache", (long long)bytes);
  }
  enum { SMALL_FLOPS = 1 << 20 };  // which threads would hardly share
  const graft_gemm_i8 g = linear_i8_rows_describe(node, weight);
  if (2.0 * (double)g.m * (double)g.n * (double)g.k <= SMALL_FLOPS) return true;
  // Of the same size for all targets, or a lesser one's kernel would step in.
  const int64_t n = (g.m + GRAFT_GEMM_I8_MOST_FEW_ROWS - 1) / GRAFT_GEMM_I8_MOST_FEW_ROWS;
  const int64_t rounds = (n + cpu->n_threads - 1) / cpu->n_threads;
  return 4 * n >= 3 * rounds * cpu->n_threads ||
         graft_refuse(why, "%lld blocks of rows would keep some of %d threads waiting", (long long)n, cpu->n_threads);
}

// The same for a product whose rows become as many results as they have elements: little is saved, less than what
// weights cost that the results have pushed out.
static inline bool linear_i8_rows_stay_near(const graft_node_info *node, uint32_t weight, graft_reason *why) {
  const int64_t result_bytes = (int64_t)graft_tensor_desc_bytes(node->outputs[0]);
  return linear_i8_rows_are_near(node, weight, graft_tensor_desc_elements(node->inputs[weight]) + result_bytes, why);
}

#endif
