// linear_i8_swiglu_convrot_i8_cases.h — examples of graft.linear_i8_swiglu_convrot_i8.v1; the first ones are the forms
// that the fusion rule looks for.
#ifndef GRAFT_OPS_FUSED_LINEAR_I8_SWIGLU_CONVROT_I8_LINEAR_I8_SWIGLU_CONVROT_I8_CASES_H
#define GRAFT_OPS_FUSED_LINEAR_I8_SWIGLU_CONVROT_I8_LINEAR_I8_SWIGLU_CONVROT_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_LINEAR_I8_SWIGLU_CONVROT_I8_N_FORMS = 2, GRAFT_LINEAR_I8_SWIGLU_CONVROT_I8_N_CASES = 9 };
extern const graft_op_case graft_linear_i8_swiglu_convrot_i8_cases[GRAFT_LINEAR_I8_SWIGLU_CONVROT_I8_N_CASES];

#endif
