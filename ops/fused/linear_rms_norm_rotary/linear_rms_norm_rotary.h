// linear_rms_norm_rotary.h — a projection to heads that are brought to a root mean square of one and rotated by their
// position ("graft.linear_rms_norm_rotary.v1").
#ifndef GRAFT_OPS_FUSED_LINEAR_RMS_NORM_ROTARY_LINEAR_RMS_NORM_ROTARY_H
#define GRAFT_OPS_FUSED_LINEAR_RMS_NORM_ROTARY_LINEAR_RMS_NORM_ROTARY_H

#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_linear_rms_norm_rotary_attrs {
  int64_t n_heads;
  graft_rms_norm_rotary_attrs then;
} graft_linear_rms_norm_rotary_attrs;

typedef struct graft_linear_rms_norm_rotary_inputs {
  graft_tensor *x;              // [B, L, K]
  graft_tensor *weight, *bias;  // as of graft_linear
  graft_tensor *norm;           // weight of the norm, [N / n_heads] or none
  graft_tensor *table;          // as of graft_rotary_embedding
} graft_linear_rms_norm_rotary_inputs;

// graft_rms_norm_rotary of linear(x, weight, bias) seen as heads → [B, L, n_heads, N / n_heads]. The product's sums are
// not rounded before they are normalised, so that in f16 and bf16 it is closer to the true value than the operators
// apart; where x is f32 the CPU kernels give the bytes of linear and rms_norm_rotary. Fusion rule
// "linear_rms_norm_rotary". Failures: those of the two, rows that are not |n_heads| heads.
GRAFT_API graft_tensor *graft_linear_rms_norm_rotary(graft_graph *graph,
                                                     const graft_linear_rms_norm_rotary_inputs *inputs,
                                                     const graft_linear_rms_norm_rotary_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
