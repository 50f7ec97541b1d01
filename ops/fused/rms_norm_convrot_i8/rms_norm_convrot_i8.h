// rms_norm_convrot_i8.h — rows brought to a root mean square of one, weighted, scaled and shifted per item, and then
// rotated and quantised for the layers that follow ("graft.rms_norm_convrot_i8.v1").
#ifndef GRAFT_OPS_FUSED_RMS_NORM_CONVROT_I8_RMS_NORM_CONVROT_I8_H
#define GRAFT_OPS_FUSED_RMS_NORM_CONVROT_I8_RMS_NORM_CONVROT_I8_H

#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_rms_norm_convrot_i8_attrs {
  double eps;  // finite, not negative; default 1e-5
  graft_quantize_convrot_i8_attrs quantize;
  bool is_factor;  // rows are multiplied with |scale| as it is, not with 1 + scale
} graft_rms_norm_convrot_i8_attrs;

// graft_quantize_convrot_i8_packed of rms_norm(x, weight, eps) · (1 + scale) + shift: x [..., K]; |weight| [K] or
// graft_graph_none(); |scale| and |shift| broadcast into x, or graft_graph_none() for no factor and nothing added.
// Kernels give the bytes of the operators apart. Fusion rule "rms_norm_convrot_i8". Failures: those of
// rms_norm_modulate and of quantize_convrot_i8, a shift that does not broadcast into x.
GRAFT_API graft_tensor *graft_rms_norm_convrot_i8(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                                  graft_tensor *scale, graft_tensor *shift,
                                                  const graft_rms_norm_convrot_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
