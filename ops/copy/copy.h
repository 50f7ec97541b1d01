// copy.h — the same values in contiguous memory ("graft.copy.v1") or in another dtype ("graft.cast.v1").
#ifndef GRAFT_OPS_COPY_COPY_H
#define GRAFT_OPS_COPY_COPY_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_cast_attrs {
  graft_dtype dtype;
} graft_cast_attrs;

// x in row-major order; x itself when it is so already. Any dtype, bytes are kept.
GRAFT_API graft_tensor *graft_contiguous(graft_graph *graph, graft_tensor *x);

// Writes x over |target|, existing storage of x's dtype and shape (graft_graph_apply_into): a cache, an input that
// keeps a state, a part of a larger tensor. Strides may be any on both sides. Gives the target's new name, which shows
// what was written. Failures: those of graft_graph_apply_into.
GRAFT_API graft_tensor *graft_copy_to(graft_graph *graph, graft_tensor *x, graft_tensor *target);

// x converted to |dtype|, contiguous; x itself when it has that dtype. Floats round to nearest, ties to even; what the
// target cannot hold saturates; NaN stays NaN in floats and becomes 0 in integers.
// Failures: a block type on either side whose rows are no whole number of blocks.
GRAFT_API graft_tensor *graft_cast(graft_graph *graph, graft_tensor *x, graft_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
