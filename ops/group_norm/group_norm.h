// group_norm.h — brings each group of channels of each batch item to mean 0 and deviation 1, then scales and shifts by
// channel: y = (x - mean) / √(variance + eps) · weight + bias. Any float dtypes; the output has shape and dtype of |x|.
#ifndef GRAFT_OPS_GROUP_NORM_H
#define GRAFT_OPS_GROUP_NORM_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_group_norm_attrs {
  int64_t n_groups;  // at least 1, divides C; default 1
  double eps;        // finite, not negative; default 1e-5
} graft_group_norm_attrs;

// |x| has shape [N, C, ...]; |weight| and |bias| are each [C] or graft_graph_none(). Group g of an item holds its
// channels g·C/n_groups … (g+1)·C/n_groups - 1. Operator "graft.group_norm.v1". Failures stick to the graph (graph.h):
// shapes that do not fit, a C that |n_groups| does not divide, an eps that is negative or not finite.
GRAFT_API graft_tensor *graft_group_norm(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                                         int64_t n_groups, double eps);

#ifdef __cplusplus
}
#endif

#endif
