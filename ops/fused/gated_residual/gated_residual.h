// gated_residual.h — what a block adds to its input: x + tanh(gate) · rms_norm(y) ("graft.gated_residual.v1").
#ifndef GRAFT_OPS_FUSED_GATED_RESIDUAL_GATED_RESIDUAL_H
#define GRAFT_OPS_FUSED_GATED_RESIDUAL_GATED_RESIDUAL_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_gated_residual_attrs {
  double eps;  // of the norm; finite, not negative; default 1e-5
} graft_gated_residual_attrs;

// x + rms_norm(y, weight, eps) · tanh(gate): x and y [..., C] of one shape and dtype, |weight| [C] or
// graft_graph_none(), |gate| broadcasts into y, or is graft_graph_none(): a gate of 1. Fusion rule "gated_residual".
// Failures: those of rms_norm; shapes or dtypes that differ; a gate that does not broadcast.
GRAFT_API graft_tensor *graft_gated_residual(graft_graph *graph, graft_tensor *x, graft_tensor *y, graft_tensor *weight,
                                             graft_tensor *gate, double eps);

#ifdef __cplusplus
}
#endif

#endif
