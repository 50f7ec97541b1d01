// swiglu_cases.h — examples of graft.swiglu.v1; the first is the form that the fusion rule looks for.
#ifndef GRAFT_OPS_FUSED_SWIGLU_SWIGLU_CASES_H
#define GRAFT_OPS_FUSED_SWIGLU_SWIGLU_CASES_H

#include "graft/op.h"

enum { GRAFT_SWIGLU_N_FORMS = 1, GRAFT_SWIGLU_N_CASES = 12 };
extern const graft_op_case graft_swiglu_cases[GRAFT_SWIGLU_N_CASES];

#endif
