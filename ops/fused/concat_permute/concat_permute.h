// concat_permute.h — tensors side by side, their dimensions in another order, as another dtype: in one pass over memory
// ("graft.concat_permute.v1").
#ifndef GRAFT_OPS_FUSED_CONCAT_PERMUTE_CONCAT_PERMUTE_H
#define GRAFT_OPS_FUSED_CONCAT_PERMUTE_CONCAT_PERMUTE_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_concat_permute_attrs {
  int64_t axis;                   // along which several tensors are joined, before dimensions change places
  double factor;                  // a finite float32 number; default 1
  int64_t order[GRAFT_MAX_RANK];  // dimension i of the result is dimension order[i] of what is joined
  int32_t rank;                   // entries of |order|
  graft_dtype dtype;              // of the result; NULL: the tensors'
} graft_concat_permute_attrs;

// cast(permute(concat(tensors, axis) · factor, order), dtype), contiguous; of one tensor without the joining. Plain
// dtypes; with a factor other than 1 float ones, whose products are rounded once, to |dtype|. Fusion rule
// "concat_permute". Failures: those of graft_concat, graft_permute and graft_scale; a block type.
GRAFT_API graft_tensor *graft_concat_permute(graft_graph *graph, graft_tensor *const *tensors, uint32_t n,
                                             const graft_concat_permute_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
