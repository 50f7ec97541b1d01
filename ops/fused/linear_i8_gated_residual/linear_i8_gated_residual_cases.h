// linear_i8_gated_residual_cases.h — examples of graft.linear_i8_gated_residual.v1; the first ones are the forms that
// the fusion rule looks for.
#ifndef GRAFT_OPS_FUSED_LINEAR_I8_GATED_RESIDUAL_LINEAR_I8_GATED_RESIDUAL_CASES_H
#define GRAFT_OPS_FUSED_LINEAR_I8_GATED_RESIDUAL_LINEAR_I8_GATED_RESIDUAL_CASES_H

#include "graft/op.h"

enum { GRAFT_LINEAR_I8_GATED_RESIDUAL_N_FORMS = 4, GRAFT_LINEAR_I8_GATED_RESIDUAL_N_CASES = 10 };
extern const graft_op_case graft_linear_i8_gated_residual_cases[GRAFT_LINEAR_I8_GATED_RESIDUAL_N_CASES];

#endif
