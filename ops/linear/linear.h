// linear.h — y = x · weightᵀ + bias ("graft.linear.v1").
#ifndef GRAFT_OPS_LINEAR_LINEAR_H
#define GRAFT_OPS_LINEAR_LINEAR_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// x [..., K], weight [N, K], bias [N] or graft_graph_none() → [..., N] in x's dtype. Any float dtypes, also mixed.
// Sums are float32 or wider, so that only the stored result is rounded to the output's dtype.
// Failures: K of x and weight differ, a bias of another length, a dtype that is no float.
GRAFT_API graft_tensor *graft_linear(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias);

#ifdef __cplusplus
}
#endif

#endif
