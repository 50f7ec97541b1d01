// swiglu.h — a gate through SiLU times a value ("graft.swiglu.v1"), the middle of a gated feed-forward layer.
#ifndef GRAFT_OPS_FUSED_SWIGLU_SWIGLU_H
#define GRAFT_OPS_FUSED_SWIGLU_SWIGLU_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// silu(gate) · x, element by element. Both have one shape and one float dtype; the output has it, too. Maths in f32
// without rounding in between, so that in f16 and bf16 it is closer to the true value than the two operators apart.
// Fusion rule "swiglu". Failures: shapes or dtypes that differ.
GRAFT_API graft_tensor *graft_swiglu(graft_graph *graph, graft_tensor *gate, graft_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
