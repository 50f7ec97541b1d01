// unary_cases.h — examples of the operators of unary.h.
#ifndef GRAFT_OPS_UNARY_UNARY_CASES_H
#define GRAFT_OPS_UNARY_UNARY_CASES_H

#include "graft/op.h"

enum { GRAFT_UNARY_N_CASES = 12, GRAFT_GELU_N_CASES = 10, GRAFT_SCALE_N_CASES = 10 };
extern const graft_op_case graft_unary_cases[GRAFT_UNARY_N_CASES];  // of silu, tanh and sigmoid
extern const graft_op_case graft_gelu_cases[GRAFT_GELU_N_CASES];
extern const graft_op_case graft_scale_cases[GRAFT_SCALE_N_CASES];

#endif
