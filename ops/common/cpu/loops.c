#include "ops/common/cpu/loops.h"

#include <string.h>

// Elements of an item: enough to hide what an item costs, few enough to share out small tensors.
enum { ITEM_ELEMENTS = 16384 };

// Bytes from one element of |operand| to the next along dimension |dim| of the full shape.
static int64_t stride_along(const graft_tensor_desc *operand, const graft_tensor_desc *full, int32_t dim) {
  const int32_t own = dim - (full->rank - operand->rank);
  return own < 0 || operand->shape[own] == 1 ? 0 : operand->strides[own];
}

// Appends a dimension, or lengthens the last one where every operand walks both without a gap.
static void push_dimension(graft_loops *loops, int64_t size, const int64_t *strides, bool may_merge) {
  const int32_t last = loops->rank - 1;
  bool merges = may_merge && last >= 0;
  for (int32_t k = 0; k < loops->n_operands; ++k) {
    merges = merges && loops->strides[k][last] == strides[k] * size;
  }
  const int32_t at = merges ? last : loops->rank++;
  loops->shape[at] = merges ? loops->shape[at] * size : size;
  for (int32_t k = 0; k < loops->n_operands; ++k) loops->strides[k][at] = strides[k];
}

// The last dimension becomes the row. Without one, all operands have a single element.
static void take_row(graft_loops *loops, const graft_tensor_desc *const *operands, bool has_row) {
  loops->row_length = 1;
  if (has_row) loops->row_length = loops->shape[--loops->rank];
  for (int32_t k = 0; k < loops->n_operands; ++k) {
    loops->steps[k] = has_row ? loops->strides[k][loops->rank] : (int64_t)operands[k]->dtype->block_bytes;
  }
  loops->n_rows = 1;
  for (int32_t d = 0; d < loops->rank; ++d) loops->n_rows *= loops->shape[d];
}

static void split(graft_loops *loops, bool may_cut) {
  const int64_t length = loops->row_length;
  loops->rows_per_item = length < ITEM_ELEMENTS ? ITEM_ELEMENTS / (length > 0 ? length : 1) : 1;
  loops->piece_length = may_cut && length > ITEM_ELEMENTS ? ITEM_ELEMENTS : length;
  loops->n_pieces = length > 0 ? (length + loops->piece_length - 1) / loops->piece_length : 0;
  loops->n_items = (loops->n_rows + loops->rows_per_item - 1) / loops->rows_per_item * loops->n_pieces;
}

void graft_loops_init(graft_loops *loops, const graft_tensor_desc *const *operands, int32_t n_operands,
                      graft_loops_rows rows) {
  const graft_tensor_desc *full = operands[0];
  const bool is_fixed = rows == GRAFT_LOOPS_LAST_DIMENSION;
  memset(loops, 0, sizeof *loops);
  loops->n_operands = n_operands;
  bool has_row = false;
  for (int32_t d = 0; d < full->rank; ++d) {
    if (full->shape[d] == 1) continue;
    int64_t strides[GRAFT_LOOPS_MAX_OPERANDS];
    for (int32_t k = 0; k < n_operands; ++k) strides[k] = stride_along(operands[k], full, d);
    const bool is_last = d == full->rank - 1;
    push_dimension(loops, full->shape[d], strides, !(is_fixed && is_last));
    has_row = !is_fixed || is_last;
  }
  take_row(loops, operands, has_row);
  split(loops, !is_fixed);
}

graft_loops_item graft_loops_find_item(const graft_loops *loops, int64_t item) {
  const int64_t group = item / loops->n_pieces, piece = item % loops->n_pieces;
  graft_loops_item part = {.first_row = group * loops->rows_per_item, .begin = piece * loops->piece_length};
  part.end_row = part.first_row + loops->rows_per_item;
  if (part.end_row > loops->n_rows) part.end_row = loops->n_rows;
  part.end = part.begin + loops->piece_length;
  if (part.end > loops->row_length) part.end = loops->row_length;
  return part;
}

void graft_loops_find_row(const graft_loops *loops, int64_t row, int64_t *out_offsets) {
  for (int32_t k = 0; k < loops->n_operands; ++k) out_offsets[k] = 0;
  for (int32_t d = loops->rank - 1; d >= 0; --d) {
    const int64_t next = d > 0 ? row / loops->shape[d] : 0, position = row - next * loops->shape[d];
    for (int32_t k = 0; k < loops->n_operands; ++k) out_offsets[k] += position * loops->strides[k][d];
    row = next;
  }
}
