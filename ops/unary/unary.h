// unary.h — operators on one tensor, element by element. Every float dtype; the output has shape and dtype of the
// input; maths in f32. Constructors follow the rules of graph.h: failures stick to the graph, NULL in gives NULL out.
#ifndef GRAFT_OPS_UNARY_H
#define GRAFT_OPS_UNARY_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_gelu_attrs {
  bool tanh_approximation;
} graft_gelu_attrs;

typedef struct graft_scale_attrs {
  double scale;
  double bias;
} graft_scale_attrs;

// x / (1 + e^-x). Operator "graft.silu.v1".
GRAFT_API graft_tensor *graft_silu(graft_graph *graph, graft_tensor *x);

// x/2 · (1 + erf(x/√2)), or with |tanh_approximation| x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))). Operator
// "graft.gelu.v1".
GRAFT_API graft_tensor *graft_gelu(graft_graph *graph, graft_tensor *x, bool tanh_approximation);

// Hyperbolic tangent. Operator "graft.tanh.v1".
GRAFT_API graft_tensor *graft_tanh(graft_graph *graph, graft_tensor *x);

// 1 / (1 + e^-x). Operator "graft.sigmoid.v1".
GRAFT_API graft_tensor *graft_sigmoid(graft_graph *graph, graft_tensor *x);

// scale · x + bias; both must be finite. Operator "graft.scale.v1".
GRAFT_API graft_tensor *graft_scale(graft_graph *graph, graft_tensor *x, double scale, double bias);

#ifdef __cplusplus
}
#endif

#endif
