// affine.h — what a block adds to its input, and what it does to its input by a condition, without a norm
// ("graft.affine.v1", "graft.modulate.v1").
#ifndef GRAFT_OPS_FUSED_AFFINE_AFFINE_H
#define GRAFT_OPS_FUSED_AFFINE_AFFINE_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// x · gate + residual: |gate| and |residual| broadcast into x, whose shape and dtype the result has. Maths in f32,
// product and sum rounded one after the other: with f32 the bytes of the two operators apart. Fusion rule "affine",
// where the gate is smaller than x. Failures: what does not broadcast, a dtype that is no float.
GRAFT_API graft_tensor *graft_affine(graft_graph *graph, graft_tensor *x, graft_tensor *gate, graft_tensor *residual);

// x · (1 + scale) + shift: |scale| and |shift| broadcast into x, and |shift| may be graft_graph_none(). Otherwise as
// above. Fusion rule "modulate". Failures: what does not broadcast, a dtype that is no float.
GRAFT_API graft_tensor *graft_modulate(graft_graph *graph, graft_tensor *x, graft_tensor *scale, graft_tensor *shift);

#ifdef __cplusplus
}
#endif

#endif
