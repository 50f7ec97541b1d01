// quantize_target.h — where kernels that quantise put rows: q and scales of graft.quantize_convrot_i8.v1, in two
// tensors or packed into one. For files that are compiled once per target.
#ifndef GRAFT_OPS_COMMON_CPU_QUANTIZE_TARGET_H
#define GRAFT_OPS_COMMON_CPU_QUANTIZE_TARGET_H

#include <string.h>

#include "graft/cpu.h"
#include "graft/kernel.h"
#include "ops/common/cpu/quantize.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"

// Elements of an item: about a microsecond, which is what threads wait for each other at the end.
enum { QUANTIZE_ITEM_ELEMENTS = 4096 };

typedef struct quantize_target {
  int64_t m, k;   // rows that are given, and elements of each
  int64_t group;  // of the rotation
  bool has_bf16_grid;

  // Filled by quantize_target_place.
  int64_t n_rows;  // padding included
  int64_t rows_per_item, n_items;
  bool streams;
  int8_t *q;
  float *scales;
  char *scratch;  // one part for each worker
} quantize_target;

static inline size_t quantize_scratch_bytes(int64_t k) {
  return (size_t)graft_quantize_scratch_floats(k) * sizeof(float);
}

// As graft_kernel_def.prepare of kernels whose input 0 has rows as long as the quantised ones.
static inline graft_status quantize_prepare(const graft_node_info *node, graft_error *error,
                                            graft_prepared *out_prepared) {
  (void)error;
  const graft_tensor_desc *x = node->inputs[0];
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * quantize_scratch_bytes(x->shape[x->rank - 1]);
  return GRAFT_OK;
}

// Completes |t| for a node that quantize_prepare prepared; rows are of |type|. The split into items depends on shapes
// only.
static inline void quantize_target_place(quantize_target *t, const graft_encode_args *args, graft_dtype_code type) {
  const graft_node_info *node = args->node;
  const bool is_packed = node->n_outputs == 1;
  t->q = args->outputs[0];
  t->streams = graft_quantize_should_stream(t->q, type, t->m, t->k);
  t->n_rows = is_packed ? node->outputs[0]->shape[0] : t->m;
  t->scales = is_packed ? (float *)(void *)(t->q + t->n_rows * t->k) : args->outputs[1];
  t->rows_per_item = t->k < QUANTIZE_ITEM_ELEMENTS ? QUANTIZE_ITEM_ELEMENTS / (t->k > 0 ? t->k : 1) : 1;
  t->n_items = (t->n_rows + t->rows_per_item - 1) / t->rows_per_item;
  t->scratch = args->workspace;
}

static inline float *quantize_target_scratch(const quantize_target *t, const graft_cpu_worker *worker) {
  return (float *)(void *)(t->scratch + (size_t)worker->index * quantize_scratch_bytes(t->k));
}

// Rows of |item|, padding included, end before this one.
static inline int64_t quantize_target_end(const quantize_target *t, int64_t item) {
  const int64_t end = (item + 1) * t->rows_per_item;
  return end < t->n_rows ? end : t->n_rows;
}

// Rows of |item| that are given end before this one.
static inline int64_t quantize_target_given(const quantize_target *t, int64_t item) {
  const int64_t end = quantize_target_end(t, item);
  return end < t->m ? end : t->m;
}

// Row number |row| < m of |x|, to be quantised.
static inline graft_quantize_row quantize_target_row(const quantize_target *t, int64_t row, const void *x,
                                                     graft_dtype_code type, float *scratch) {
  return (graft_quantize_row){.x = x,
                              .type = type,
                              .n = t->k,
                              .group = t->group,
                              .has_bf16_grid = t->has_bf16_grid,
                              .streams = t->streams,
                              .q = t->q + row * t->k,
                              .scale = t->scales + row,
                              .scratch = scratch};
}

// Ends |item|: writes zeros to its rows behind the last one given, and waits for streamed ones.
static inline void quantize_target_finish(const quantize_target *t, int64_t item) {
  const int64_t end = quantize_target_end(t, item), first = item * t->rows_per_item;
  for (int64_t row = first < t->m ? t->m : first; row < end; ++row) {
    memset(t->q + row * t->k, 0, (size_t)t->k);
    t->scales[row] = 0;
  }
  if (t->streams) vec_stream_end();
}

#endif
