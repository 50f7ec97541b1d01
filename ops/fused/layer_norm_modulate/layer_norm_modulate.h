// layer_norm_modulate.h — rows brought to mean 0 and deviation 1, then scaled and shifted per item
// ("graft.layer_norm_modulate.v1").
#ifndef GRAFT_OPS_FUSED_LAYER_NORM_MODULATE_LAYER_NORM_MODULATE_H
#define GRAFT_OPS_FUSED_LAYER_NORM_MODULATE_LAYER_NORM_MODULATE_H

#include "ops/layer_norm/layer_norm.h"

#ifdef __cplusplus
extern "C" {
#endif

// layer_norm(x, weight, bias, eps) · (1 + scale) + shift: the first three as for graft_layer_norm; |scale| and |shift|
// broadcast into x, and |shift| may be graft_graph_none(). Attributes: graft_layer_norm_attrs. Fusion rule
// "layer_norm_modulate". Failures: those of layer_norm; what does not broadcast.
GRAFT_API graft_tensor *graft_layer_norm_modulate(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                                  graft_tensor *bias, graft_tensor *scale, graft_tensor *shift,
                                                  const graft_layer_norm_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
