// group_norm_silu.h — groups of channels brought to mean 0 and deviation 1, weighted, shifted and sent through SiLU
// ("graft.group_norm_silu.v1").
#ifndef GRAFT_OPS_FUSED_GROUP_NORM_SILU_GROUP_NORM_SILU_H
#define GRAFT_OPS_FUSED_GROUP_NORM_SILU_GROUP_NORM_SILU_H

#include "ops/group_norm/group_norm.h"

#ifdef __cplusplus
extern "C" {
#endif

// silu(group_norm(x, weight, bias, n_groups, eps)); inputs, attributes (graft_group_norm_attrs) and failures are those
// of graft_group_norm. Fusion rule "group_norm_silu".
GRAFT_API graft_tensor *graft_group_norm_silu(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                              graft_tensor *bias, int64_t n_groups, double eps);

#ifdef __cplusplus
}
#endif

#endif
