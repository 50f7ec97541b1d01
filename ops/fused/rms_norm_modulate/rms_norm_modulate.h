// rms_norm_modulate.h — rows brought to a root mean square of one, weighted, and scaled per item
// ("graft.rms_norm_modulate.v1").
#ifndef GRAFT_OPS_FUSED_RMS_NORM_MODULATE_RMS_NORM_MODULATE_H
#define GRAFT_OPS_FUSED_RMS_NORM_MODULATE_RMS_NORM_MODULATE_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_rms_norm_modulate_attrs {
  double eps;  // finite, not negative; default 1e-5
} graft_rms_norm_modulate_attrs;

// rms_norm(x, weight, eps) · (1 + scale): x [..., C], |weight| [C] or graft_graph_none(), |scale| broadcasts into x.
// Fusion rule "rms_norm_modulate". Failures: those of rms_norm; a scale that does not broadcast.
GRAFT_API graft_tensor *graft_rms_norm_modulate(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                                graft_tensor *scale, double eps);

#ifdef __cplusplus
}
#endif

#endif
