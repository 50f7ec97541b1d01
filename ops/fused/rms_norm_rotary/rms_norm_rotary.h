// rms_norm_rotary.h — heads brought to a root mean square of one, weighted, rotated, and handed on with a factor and in
// another dtype: what queries and keys go through ("graft.rms_norm_rotary.v1").
#ifndef GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_H
#define GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_H

#include "ops/rotary_embedding/rotary_embedding.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_rms_norm_rotary_attrs {
  double eps;         // of the norm; finite, not negative; default 1e-5
  int32_t style;      // graft_rotary_style
  double scale;       // factor of what was rotated, finite; 0: 1, as if it were left out
  graft_dtype dtype;  // of the result, a plain float type; NULL: that of x
} graft_rms_norm_rotary_attrs;

// scale · rotary_embedding(rms_norm(x, weight, eps), table, style), in |dtype|: x [B, L, H, D], |weight| [D] or
// graft_graph_none(), |table| as for graft_rotary_embedding. Maths in f32, rounded once at the end. Fusion rule
// "rms_norm_rotary". Failures: those of the operators, a dtype that is no plain float type.
GRAFT_API graft_tensor *graft_rms_norm_rotary(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                              graft_tensor *table, const graft_rms_norm_rotary_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
