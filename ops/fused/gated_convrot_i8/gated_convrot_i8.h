// gated_convrot_i8.h — products with a gate, as in the middle of a feed-forward layer, or scaled activations, rotated
// and quantised for the layer that follows ("graft.gated_convrot_i8.v1").
#ifndef GRAFT_OPS_FUSED_GATED_CONVROT_I8_GATED_CONVROT_I8_H
#define GRAFT_OPS_FUSED_GATED_CONVROT_I8_GATED_CONVROT_I8_H

#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum graft_gating {
  GRAFT_GATING_SILU = 0,  // silu(gate) · x
  GRAFT_GATING_SIGMOID,   // sigmoid(gate) · x
  GRAFT_GATING_PRODUCT,   // gate · x
  GRAFT_GATING_SCALE,     // scale · x + bias, without a gate
} graft_gating;

typedef struct graft_gated_convrot_i8_attrs {
  graft_quantize_convrot_i8_attrs quantize;
  int32_t gating;      // graft_gating
  double scale, bias;  // of GRAFT_GATING_SCALE
} graft_gated_convrot_i8_attrs;

// graft_quantize_convrot_i8_packed of what |attrs->gating| says; gate, where there is one, and x are [..., K] of one
// float dtype. Kernels give the bytes of the operators apart. Fusion rule "gated_convrot_i8". Failures: those of swiglu
// and of quantize_convrot_i8, a gate where there is none.
GRAFT_API graft_tensor *graft_gated_convrot_i8(graft_graph *graph, graft_tensor *gate, graft_tensor *x,
                                               const graft_gated_convrot_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
