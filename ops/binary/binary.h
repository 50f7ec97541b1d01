// binary.h — arithmetic on two tensors, element by element. Shapes broadcast both ways as in NumPy; float dtypes may be
// mixed and the output has the dtype of |a|; maths in f32. Division follows IEEE 754 (x/0 is infinite or NaN).
// Constructors follow the rules of graph.h: failures stick to the graph, NULL in gives NULL out.
#ifndef GRAFT_OPS_BINARY_H
#define GRAFT_OPS_BINARY_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// a + b. Operator "graft.add.v1".
GRAFT_API graft_tensor *graft_add(graft_graph *graph, graft_tensor *a, graft_tensor *b);

// a - b. Operator "graft.sub.v1".
GRAFT_API graft_tensor *graft_sub(graft_graph *graph, graft_tensor *a, graft_tensor *b);

// a · b, each element with its own. Operator "graft.mul.v1".
GRAFT_API graft_tensor *graft_mul(graft_graph *graph, graft_tensor *a, graft_tensor *b);

// a / b. Operator "graft.div.v1".
GRAFT_API graft_tensor *graft_div(graft_graph *graph, graft_tensor *a, graft_tensor *b);

#ifdef __cplusplus
}
#endif

#endif
