// layout.h — ways in which one tensor's values may lie in memory. All functions are thread-safe.
#ifndef GRAFT_TESTING_LAYOUT_H
#define GRAFT_TESTING_LAYOUT_H

#include "graft/graft.h"

typedef enum graft_testing_layout {
  GRAFT_LAYOUT_CONTIGUOUS,
  GRAFT_LAYOUT_TRANSPOSED,       // the last two dimensions exchanged in memory
  GRAFT_LAYOUT_SWAPPED_MIDDLE,   // dimensions 1 and 2 of four or more exchanged: heads and tokens
  GRAFT_LAYOUT_REVERSED,         // first dimension densest
  GRAFT_LAYOUT_PADDED_ROWS,      // a slice of wider rows
  GRAFT_LAYOUT_SECOND_ROWS,      // every second row
  GRAFT_LAYOUT_SECOND_ELEMENTS,  // every second element of a row
  GRAFT_LAYOUT_OFFSET,           // dense, but beginning one element into its storage
  GRAFT_LAYOUT_ODD_ONES,         // dimensions of size 1 with a stride of 7 bytes
  GRAFT_LAYOUT_ZERO_ONES,        // dimensions of size 1 with a stride of 0
  GRAFT_LAYOUT_REPEATED,         // one dimension with stride 0; its entries must be equal
  GRAFT_LAYOUT_COUNT,
} graft_testing_layout;

// Static storage.
const char *graft_testing_layout_name(graft_testing_layout layout);

// Describes |desc| (contiguous) laid out as |layout|: the new strides and the bytes before the first element.
// |repeated| is the dimension of GRAFT_LAYOUT_REPEATED, or -1. False where the layout does not apply or is the same.
bool graft_testing_layout_apply(graft_testing_layout layout, int32_t repeated, const graft_tensor_desc *desc,
                                graft_tensor_desc *out_desc, size_t *out_offset);

// Copies the elements of a contiguous tensor |values| to where |desc| says, counted from |target|.
void graft_testing_scatter(const graft_tensor_desc *desc, const void *values, void *target);

// The reverse: gathers the elements that lie at |source| as |desc| says into contiguous |values|.
void graft_testing_gather(const graft_tensor_desc *desc, const void *source, void *values);

#endif
