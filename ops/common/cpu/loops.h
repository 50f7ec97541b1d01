// loops.h — how kernels that work on rows walk several tensors of one shape together: dimensions that all of them walk
// densely are merged, what is left is rows of equal length, and rows are shared out as items of a task.
#ifndef GRAFT_OPS_COMMON_CPU_LOOPS_H
#define GRAFT_OPS_COMMON_CPU_LOOPS_H

#include "graft/tensor.h"

enum { GRAFT_LOOPS_MAX_OPERANDS = 4 };

// Made by graft_loops_init; holds no addresses and may be copied.
typedef struct graft_loops {
  int32_t n_operands;
  int32_t rank;  // of the index of a row
  int64_t shape[GRAFT_MAX_RANK];
  int64_t strides[GRAFT_LOOPS_MAX_OPERANDS][GRAFT_MAX_RANK];  // bytes between rows
  int64_t n_rows;
  int64_t row_length;                             // elements
  int64_t steps[GRAFT_LOOPS_MAX_OPERANDS];        // bytes between elements of a row; 0: one element is repeated
  int64_t rows_per_item, piece_length, n_pieces;  // an item is several whole rows, or one of n_pieces pieces of a row
  int64_t n_items;
} graft_loops;

// What one item works on: elements |begin| … |end| - 1 of rows |first_row| … |end_row| - 1.
typedef struct graft_loops_item {
  int64_t first_row, end_row;
  int64_t begin, end;
} graft_loops_item;

typedef enum graft_loops_rows {
  GRAFT_LOOPS_LONGEST_ROWS,   // rows may span several dimensions, and pieces of one row be separate items
  GRAFT_LOOPS_LAST_DIMENSION  // a row is the last dimension and never cut
} graft_loops_rows;

// Plans the walk. Operand 0 has the full shape; the others broadcast into it. The split into items depends on shapes
// and strides only. Thread-safe.
void graft_loops_init(graft_loops *loops, const graft_tensor_desc *const *operands, int32_t n_operands,
                      graft_loops_rows rows);

// The part of the walk that is item |item| of loops->n_items. Thread-safe.
graft_loops_item graft_loops_find_item(const graft_loops *loops, int64_t item);

// Writes where row |row| begins in each operand, in bytes. Thread-safe.
void graft_loops_find_row(const graft_loops *loops, int64_t row, int64_t *out_offsets);

#endif
