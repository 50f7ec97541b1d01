// swiglu_convrot_i8.h — the middle of a gated feed-forward layer, rotated and quantised for the layer that follows
// ("graft.swiglu_convrot_i8.v1").
#ifndef GRAFT_OPS_FUSED_SWIGLU_CONVROT_I8_SWIGLU_CONVROT_I8_H
#define GRAFT_OPS_FUSED_SWIGLU_CONVROT_I8_SWIGLU_CONVROT_I8_H

#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

// graft_quantize_convrot_i8_packed of silu(gate) · x, both [..., K] of one float dtype. Kernels give the bytes of the
// operators apart. Fusion rule "swiglu_convrot_i8". Failures: those of swiglu and of quantize_convrot_i8.
GRAFT_API graft_tensor *graft_swiglu_convrot_i8(graft_graph *graph, graft_tensor *gate, graft_tensor *x,
                                                const graft_quantize_convrot_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
