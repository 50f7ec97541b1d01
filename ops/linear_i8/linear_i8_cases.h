// linear_i8_cases.h — examples of graft.linear_i8.v1.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_CASES_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_LINEAR_I8_N_CASES = 38 };
extern const graft_op_case graft_linear_i8_cases[GRAFT_LINEAR_I8_N_CASES];

#endif
