// linear_epilogue.h — a matrix product with weights and what follows it, without a trip through memory in between
// ("graft.linear_epilogue.v1").
#ifndef GRAFT_OPS_FUSED_LINEAR_EPILOGUE_LINEAR_EPILOGUE_H
#define GRAFT_OPS_FUSED_LINEAR_EPILOGUE_LINEAR_EPILOGUE_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum graft_epilogue_activation {
  GRAFT_EPILOGUE_LINEAR = 0,
  GRAFT_EPILOGUE_SILU,
  GRAFT_EPILOGUE_GELU,
  GRAFT_EPILOGUE_GELU_TANH,
} graft_epilogue_activation;

typedef struct graft_linear_epilogue_attrs {
  int32_t activation;  // graft_epilogue_activation
  graft_dtype dtype;   // of the result, a plain float type; NULL: that of x
} graft_linear_epilogue_attrs;

// activation(linear(x, weight, bias)) · gate + residual, in |dtype|. |gate| and |residual| broadcast into the result
// and may be graft_graph_none(), as may |bias|. Maths in f32, rounded once at the end, so that in f16 and bf16 it is
// closer to the true value than the operators apart. |attrs| NULL: no activation, x's dtype. Fusion rule
// "linear_epilogue". Failures: those of graft_linear; what does not broadcast; a dtype that is no plain float type.
GRAFT_API graft_tensor *graft_linear_epilogue(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                              graft_tensor *const bias_gate_residual[3],
                                              const graft_linear_epilogue_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
