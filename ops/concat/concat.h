// concat.h — tensors side by side along one dimension ("graft.concat.v1").
#ifndef GRAFT_OPS_CONCAT_CONCAT_H
#define GRAFT_OPS_CONCAT_CONCAT_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_concat_attrs {
  int64_t axis;  // 0 ≤ axis < rank
} graft_concat_attrs;

// Joins |n| (1 … GRAFT_MAX_INPUTS) tensors of one dtype and rank whose sizes differ at most along |axis|; a negative
// axis counts from the end. One tensor is returned as it is. Any dtype.
// Failures: no tensors, dtypes or sizes that differ, an axis out of range, the size overflows.
GRAFT_API graft_tensor *graft_concat(graft_graph *graph, graft_tensor *const *tensors, uint32_t n, int32_t axis);

#ifdef __cplusplus
}
#endif

#endif
