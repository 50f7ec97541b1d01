// swiglu_convrot_i8_cases.h — examples of graft.swiglu_convrot_i8.v1; the first is the form that the fusion rule looks
// for.
#ifndef GRAFT_OPS_FUSED_SWIGLU_CONVROT_I8_SWIGLU_CONVROT_I8_CASES_H
#define GRAFT_OPS_FUSED_SWIGLU_CONVROT_I8_SWIGLU_CONVROT_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_SWIGLU_CONVROT_I8_N_FORMS = 1, GRAFT_SWIGLU_CONVROT_I8_N_CASES = 15 };
extern const graft_op_case graft_swiglu_convrot_i8_cases[GRAFT_SWIGLU_CONVROT_I8_N_CASES];

#endif
