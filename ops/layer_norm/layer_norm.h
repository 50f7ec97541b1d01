// layer_norm.h — brings each row to mean 0 and deviation 1: y = (x - mean(x)) / √(variance(x) + eps) · weight + bias,
// over the last dimension; the variance is that of the whole population. Any float dtypes; the output has shape and
// dtype of |x|.
#ifndef GRAFT_OPS_LAYER_NORM_H
#define GRAFT_OPS_LAYER_NORM_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_layer_norm_attrs {
  double eps;  // finite, not negative; default 1e-5
} graft_layer_norm_attrs;

// |x| has shape [..., C]; |weight| and |bias| are each [C] or graft_graph_none(). Operator "graft.layer_norm.v1".
// Failures stick to the graph (graph.h): shapes that do not fit, an eps that is negative or not finite.
GRAFT_API graft_tensor *graft_layer_norm(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                                         double eps);

#ifdef __cplusplus
}
#endif

#endif
