// binary_cases.h — examples of the operators of binary.h.
#ifndef GRAFT_OPS_BINARY_BINARY_CASES_H
#define GRAFT_OPS_BINARY_BINARY_CASES_H

#include "graft/op.h"

enum { GRAFT_BINARY_N_CASES = 20, GRAFT_DIV_N_CASES = 8 };
extern const graft_op_case graft_binary_cases[GRAFT_BINARY_N_CASES];  // of add, sub and mul
extern const graft_op_case graft_div_cases[GRAFT_DIV_N_CASES];        // divisors stay away from 0

#endif
