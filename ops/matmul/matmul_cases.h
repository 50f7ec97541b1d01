// matmul_cases.h — examples of graft.matmul.v1.
#ifndef GRAFT_OPS_MATMUL_MATMUL_CASES_H
#define GRAFT_OPS_MATMUL_MATMUL_CASES_H

#include "graft/op.h"

enum { GRAFT_MATMUL_N_CASES = 22 };
extern const graft_op_case graft_matmul_cases[GRAFT_MATMUL_N_CASES];

#endif
