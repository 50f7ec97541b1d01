// view.h — the same elements seen through another shape: no work, no memory ("graft.reshape.v1", "graft.permute.v1",
// "graft.slice.v1", "graft.expand.v1"). Strides of a view may be in any order and 0. Any dtype; the blocks of a block
// type are never split or moved within a row.
#ifndef GRAFT_OPS_VIEW_VIEW_H
#define GRAFT_OPS_VIEW_VIEW_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of reshape and expand.
typedef struct graft_shape_attrs {
  int64_t shape[GRAFT_MAX_RANK];
  int32_t rank;
} graft_shape_attrs;

typedef struct graft_permute_attrs {
  int64_t order[GRAFT_MAX_RANK];
  int32_t rank;
} graft_permute_attrs;

typedef struct graft_slice_attrs {
  int64_t axis;        // 0 ≤ axis < rank
  int64_t start, end;  // 0 ≤ start ≤ end ≤ size
} graft_slice_attrs;

// The same elements in row-major order in another shape. One entry may be -1: what is left over. A view where x's
// strides allow it; otherwise x is copied first (graft.copy.v1).
// Failures: the numbers of elements differ, -1 twice or beside a size of 0, rank out of range.
GRAFT_API graft_tensor *graft_reshape(graft_graph *graph, graft_tensor *x, int32_t rank, const int64_t *shape);

// Dimension i of the result is dimension order[i] of x; |order| has as many entries as x has dimensions.
// Failures: |order| is no permutation.
GRAFT_API graft_tensor *graft_permute(graft_graph *graph, graft_tensor *x, const int32_t *order);

// Entries start … end - 1 along |axis|; a negative axis counts from the end.
// Failures: the axis or the range is out of bounds.
GRAFT_API graft_tensor *graft_slice(graft_graph *graph, graft_tensor *x, int32_t axis, int64_t start, int64_t end);

// Repeats size-1 dimensions and adds leading ones, as NumPy broadcasting does; -1 keeps a dimension's size.
// Failures: a dimension that is neither 1 nor the size asked for, fewer dimensions than x has, the size overflows.
GRAFT_API graft_tensor *graft_expand(graft_graph *graph, graft_tensor *x, int32_t rank, const int64_t *shape);

#ifdef __cplusplus
}
#endif

#endif
