// gated_convrot_i8_cases.h — examples of graft.gated_convrot_i8.v1; the first ones are the forms that the fusion rule
// looks for.
#ifndef GRAFT_OPS_FUSED_GATED_CONVROT_I8_GATED_CONVROT_I8_CASES_H
#define GRAFT_OPS_FUSED_GATED_CONVROT_I8_GATED_CONVROT_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_GATED_CONVROT_I8_N_FORMS = 4, GRAFT_GATED_CONVROT_I8_N_CASES = 20 };
extern const graft_op_case graft_gated_convrot_i8_cases[GRAFT_GATED_CONVROT_I8_N_CASES];

#endif
