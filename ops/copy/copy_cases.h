// copy_cases.h — examples of graft.copy.v1 and graft.cast.v1.
#ifndef GRAFT_OPS_COPY_COPY_CASES_H
#define GRAFT_OPS_COPY_COPY_CASES_H

#include "graft/op.h"

enum { GRAFT_COPY_N_CASES = 15, GRAFT_CAST_N_CASES = 18 };
extern const graft_op_case graft_copy_cases[GRAFT_COPY_N_CASES], graft_cast_cases[GRAFT_CAST_N_CASES];

#endif
