// conv2d_epilogue.h — a convolution and what follows it, without a trip through memory in between
// ("graft.conv2d_epilogue.v1").
#ifndef GRAFT_OPS_FUSED_CONV2D_EPILOGUE_CONV2D_EPILOGUE_H
#define GRAFT_OPS_FUSED_CONV2D_EPILOGUE_CONV2D_EPILOGUE_H

#include "ops/conv2d/conv2d.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_conv2d_epilogue_attrs {
  graft_conv2d_attrs conv;
  int32_t activation;  // graft_epilogue_activation
  graft_dtype dtype;   // of the result, a plain float type; NULL: that of x
} graft_conv2d_epilogue_attrs;

// activation(conv2d(x, weight, bias)) · gate + residual, in |dtype|, as graft_linear_epilogue. Fusion rule
// "conv2d_epilogue". Failures: those of graft_conv2d; what does not broadcast; a dtype that is no plain float type.
GRAFT_API graft_tensor *graft_conv2d_epilogue(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                              graft_tensor *const bias_gate_residual[3],
                                              const graft_conv2d_epilogue_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
