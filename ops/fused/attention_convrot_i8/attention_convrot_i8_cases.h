// attention_convrot_i8_cases.h — examples of graft.attention_convrot_i8.v1; the first ones are the forms that the
// fusion rule looks for.
#ifndef GRAFT_OPS_FUSED_ATTENTION_CONVROT_I8_ATTENTION_CONVROT_I8_CASES_H
#define GRAFT_OPS_FUSED_ATTENTION_CONVROT_I8_ATTENTION_CONVROT_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_ATTENTION_CONVROT_I8_N_FORMS = 6, GRAFT_ATTENTION_CONVROT_I8_N_CASES = 24 };
extern const graft_op_case graft_attention_convrot_i8_cases[GRAFT_ATTENTION_CONVROT_I8_N_CASES];

#endif
