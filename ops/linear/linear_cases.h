// linear_cases.h — examples of graft.linear.v1.
#ifndef GRAFT_OPS_LINEAR_LINEAR_CASES_H
#define GRAFT_OPS_LINEAR_LINEAR_CASES_H

#include "graft/op.h"

enum { GRAFT_LINEAR_N_CASES = 42 };
extern const graft_op_case graft_linear_cases[GRAFT_LINEAR_N_CASES];

#endif
