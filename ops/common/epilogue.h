// epilogue.h — what may follow a matrix product or a convolution in the same kernel: a list of steps, each of which may
// be left out, in this order: activation, · gate, + residual, conversion to another dtype.
#ifndef GRAFT_OPS_COMMON_EPILOGUE_H
#define GRAFT_OPS_COMMON_EPILOGUE_H

#include "graft/fusion.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"

// An operator's epilogue; the tensors are graft_graph_none() where a step is left out.
typedef struct graft_epilogue {
  int32_t activation;  // graft_epilogue_activation
  graft_dtype dtype;   // NULL: as it is
  graft_tensor *gate, *residual;
} graft_epilogue;

// Builds the steps behind |y| from the plain operators. Failures stick to |graph|.
graft_tensor *graft_epilogue_build(graft_graph *graph, graft_tensor *y, const graft_epilogue *epilogue);

// Describes what the steps make of args->outputs[0]; inputs |gate| and |gate| + 1 of |args| are gate and residual.
// Errors: GRAFT_E_SHAPE. Thread-safe.
graft_status graft_epilogue_infer(graft_infer_args *args, uint32_t gate, graft_dtype dtype);

// Reads the steps that end in |result| backwards to the value that |op| made, which nothing else may read. False where
// there is none, or no step behind it. Gate and residual are NULL where there is none.
bool graft_epilogue_find(graft_tensor *result, const char *op, graft_epilogue *out_epilogue,
                         graft_fusion_node *out_node);

#endif
