// quantize_target.h — where kernels that quantise put rows: q and scales of graft.quantize_convrot_i8.v1, in two
// tensors or packed into one. For files that are compiled once per target.
#ifndef GRAFT_OPS_COMMON_CPU_QUANTIZE_TARGET_H
#define GRAFT_OPS_COMMON_CPU_QUANTIZE_TARGET_H

#include <string.h>

#include "graft/cpu.h"
#include "graft/kernel.h"
#include "ops/common/cpu/loops.h"
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

// Workspace for rows like those of |x|.
static inline size_t quantize_workspace_bytes(const graft_node_info *node, const graft_tensor_desc *x) {
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  return n_workers * quantize_scratch_bytes(x->shape[x->rank - 1]);
}

// As graft_kernel_def.prepare of kernels whose input 0 has rows as long as the quantised ones.
static inline graft_status quantize_prepare(const graft_node_info *node, graft_error *error,
                                            graft_prepared *out_prepared) {
  (void)error;
  out_prepared->workspace_bytes = quantize_workspace_bytes(node, node->inputs[0]);
  return GRAFT_OK;
}

static inline void quantize_target_split(quantize_target *t, int64_t rows_per_item) {
  t->rows_per_item = rows_per_item;
  t->n_items = (t->n_rows + rows_per_item - 1) / rows_per_item;
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
  quantize_target_split(t, t->k < QUANTIZE_ITEM_ELEMENTS ? QUANTIZE_ITEM_ELEMENTS / (t->k > 0 ? t->k : 1) : 1);
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

enum { QUANTIZE_PIECE_LENGTH = 256 };  // elements: a power of four, so that smaller groups are whole

// Elements of the pieces in which rows are made, whole groups. They are short, so that memory, which is only read while
// a piece is made, is hardly ever idle.
static inline int64_t quantize_target_piece(const quantize_target *t) {
  return t->group > QUANTIZE_PIECE_LENGTH ? t->group : QUANTIZE_PIECE_LENGTH;
}

// The piece from element |first| on ends before this one.
static inline int64_t quantize_target_piece_end(const quantize_target *t, int64_t first) {
  const int64_t end = first + quantize_target_piece(t);
  return end < t->k ? end : t->k;
}

// Rotates elements |first| … |end| - 1 of |row|, which lie in its scratch, while they are in the nearest cache. Returns
// the larger of |most| and what graft_quantize_core.rotate finds.
static inline int32_t quantize_target_rotate(const graft_quantize_row *row, int64_t first, int64_t end, int32_t most) {
  graft_quantize_row piece = *row;
  piece.n = end - first;
  piece.scratch = row->scratch + first;
  piece.x = piece.scratch;
  const int32_t found = GRAFT_TARGETED(graft_quantize_core).rotate(&piece);
  return found > most ? found : most;
}

// Encodes |task|, whose arguments begin with |t|, for rows of f32 that |loops| walks.
static inline graft_status quantize_target_encode(graft_encoder *encoder, const graft_encode_args *args,
                                                  const graft_loops *loops, quantize_target *t, graft_cpu_task task) {
  t->m = loops->n_rows;
  t->k = loops->row_length;
  quantize_target_place(t, args, GRAFT_DTYPE_F32);
  task.args = t;
  task.n_items = t->n_items;
  return graft_cpu_encode(encoder, &task, args->error);
}

// Ends rows |first| … |end| - 1: writes zeros to those behind the last one given, and waits for streamed ones.
static inline void quantize_target_finish_rows(const quantize_target *t, int64_t first, int64_t end) {
  for (int64_t row = first < t->m ? t->m : first; row < end; ++row) {
    memset(t->q + row * t->k, 0, (size_t)t->k);
    t->scales[row] = 0;
  }
  if (t->streams) vec_stream_end();
}

static inline void quantize_target_finish(const quantize_target *t, int64_t item) {
  quantize_target_finish_rows(t, item * t->rows_per_item, quantize_target_end(t, item));
}

#endif
