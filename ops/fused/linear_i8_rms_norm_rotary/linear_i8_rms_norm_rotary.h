// linear_i8_rms_norm_rotary.h — a projection to heads that are brought to a root mean square of one and rotated by
// their position ("graft.linear_i8_rms_norm_rotary.v1").
#ifndef GRAFT_OPS_FUSED_LINEAR_I8_RMS_NORM_ROTARY_LINEAR_I8_RMS_NORM_ROTARY_H
#define GRAFT_OPS_FUSED_LINEAR_I8_RMS_NORM_ROTARY_LINEAR_I8_RMS_NORM_ROTARY_H

#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"
#include "ops/linear_i8/linear_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_linear_i8_rms_norm_rotary_attrs {
  graft_linear_i8_rows_attrs product;
  int64_t n_heads;
  graft_rms_norm_rotary_attrs then;
} graft_linear_i8_rms_norm_rotary_attrs;

typedef struct graft_linear_i8_rms_norm_rotary_inputs {
  graft_tensor *x;                      // packed int8
  graft_tensor *weight, *weight_scale;  // as of graft_linear_i8
  graft_tensor *norm;                   // weight of the norm, [N / n_heads] or none
  graft_tensor *table;                  // as of graft_rotary_embedding
} graft_linear_i8_rms_norm_rotary_inputs;

// graft_rms_norm_rotary of the product's rows seen as heads → [batch, packed_rows / batch, n_heads, N / n_heads]. The
// CPU kernel gives the bytes of linear_i8 and rms_norm_rotary. Fusion rule "linear_i8_rms_norm_rotary". Failures: those
// of linear_i8 and rms_norm_rotary, rows or heads that do not come out even.
GRAFT_API graft_tensor *graft_linear_i8_rms_norm_rotary(graft_graph *graph,
                                                        const graft_linear_i8_rms_norm_rotary_inputs *inputs,
                                                        const graft_linear_i8_rms_norm_rotary_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
