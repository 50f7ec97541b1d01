// linear_i8_swiglu_convrot_i8.h — the first two layers of a gated feed-forward and what follows them, rotated and
// quantised for the last one ("graft.linear_i8_swiglu_convrot_i8.v1").
#ifndef GRAFT_OPS_FUSED_LINEAR_I8_SWIGLU_CONVROT_I8_LINEAR_I8_SWIGLU_CONVROT_I8_H
#define GRAFT_OPS_FUSED_LINEAR_I8_SWIGLU_CONVROT_I8_LINEAR_I8_SWIGLU_CONVROT_I8_H

#include "ops/linear_i8/linear_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_linear_i8_swiglu_convrot_i8_attrs {
  graft_linear_i8_rows_attrs product;  // both
  graft_quantize_convrot_i8_attrs quantize;
} graft_linear_i8_swiglu_convrot_i8_attrs;

typedef struct graft_linear_i8_swiglu_convrot_i8_inputs {
  graft_tensor *x;                  // packed int8
  graft_tensor *gate, *gate_scale;  // weight of what is sent through SiLU, as of graft_linear_i8
  graft_tensor *up, *up_scale;      // weight of what that is multiplied with
} graft_linear_i8_swiglu_convrot_i8_inputs;

// graft_gated_convrot_i8 of the two products. The CPU kernel gives the bytes of linear_i8 and gated_convrot_i8.
// Fusion rule "linear_i8_swiglu_convrot_i8". Failures: those of linear_i8 and gated_convrot_i8, rows that the batch
// does not divide.
GRAFT_API graft_tensor *graft_linear_i8_swiglu_convrot_i8(graft_graph *graph,
                                                          const graft_linear_i8_swiglu_convrot_i8_inputs *inputs,
                                                          const graft_linear_i8_swiglu_convrot_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
