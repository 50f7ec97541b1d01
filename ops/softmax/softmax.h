// softmax.h — turns each row into shares that sum to one: y = e^(x - max(x)) / Σ e^(x - max(x)), over the last
// dimension. Any float dtype; the output has shape and dtype of |x|. A row that is -∞ everywhere gives NaN.
#ifndef GRAFT_OPS_SOFTMAX_H
#define GRAFT_OPS_SOFTMAX_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// |x| has shape [..., C]. Operator "graft.softmax.v1". Failures stick to the graph (graph.h).
GRAFT_API graft_tensor *graft_softmax(graft_graph *graph, graft_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
