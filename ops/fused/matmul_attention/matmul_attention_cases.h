// matmul_attention_cases.h — examples of graft.matmul_attention.v1; the first ones are the forms that the fusion rule
// looks for.
#ifndef GRAFT_OPS_FUSED_MATMUL_ATTENTION_MATMUL_ATTENTION_CASES_H
#define GRAFT_OPS_FUSED_MATMUL_ATTENTION_MATMUL_ATTENTION_CASES_H

#include "graft/op.h"

enum { GRAFT_MATMUL_ATTENTION_N_FORMS = 4, GRAFT_MATMUL_ATTENTION_N_CASES = 14 };
extern const graft_op_case graft_matmul_attention_cases[GRAFT_MATMUL_ATTENTION_N_CASES];

#endif
