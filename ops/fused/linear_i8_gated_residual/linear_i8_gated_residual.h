// linear_i8_gated_residual.h — a projection whose rows are brought to a root mean square of one and added, gated, to a
// residual ("graft.linear_i8_gated_residual.v1").
#ifndef GRAFT_OPS_FUSED_LINEAR_I8_GATED_RESIDUAL_LINEAR_I8_GATED_RESIDUAL_H
#define GRAFT_OPS_FUSED_LINEAR_I8_GATED_RESIDUAL_LINEAR_I8_GATED_RESIDUAL_H

#include "ops/fused/gated_residual/gated_residual.h"
#include "ops/linear_i8/linear_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_linear_i8_gated_residual_attrs {
  graft_linear_i8_rows_attrs product;
  double eps;  // as of graft_gated_residual
} graft_linear_i8_gated_residual_attrs;

typedef struct graft_linear_i8_gated_residual_inputs {
  graft_tensor *x;                      // packed int8
  graft_tensor *weight, *weight_scale;  // as of graft_linear_i8
  graft_tensor *residual;               // [batch, packed_rows / batch, N]
  graft_tensor *norm, *gate;            // as weight and gate of graft_gated_residual
} graft_linear_i8_gated_residual_inputs;

// graft_gated_residual of the residual and the product → like the residual. The CPU kernel gives the bytes of linear_i8
// and gated_residual. Fusion rule "linear_i8_gated_residual". Failures: those of linear_i8 and gated_residual, rows
// that the batch does not divide.
GRAFT_API graft_tensor *graft_linear_i8_gated_residual(graft_graph *graph,
                                                       const graft_linear_i8_gated_residual_inputs *inputs,
                                                       const graft_linear_i8_gated_residual_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
