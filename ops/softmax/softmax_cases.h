// softmax_cases.h — examples of graft.softmax.v1.
#ifndef GRAFT_OPS_SOFTMAX_SOFTMAX_CASES_H
#define GRAFT_OPS_SOFTMAX_SOFTMAX_CASES_H

#include "graft/op.h"

enum { GRAFT_SOFTMAX_N_CASES = 14 };
extern const graft_op_case graft_softmax_cases[GRAFT_SOFTMAX_N_CASES];

#endif
