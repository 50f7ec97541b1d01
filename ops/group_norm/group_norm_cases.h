// group_norm_cases.h — examples of graft.group_norm.v1.
#ifndef GRAFT_OPS_GROUP_NORM_GROUP_NORM_CASES_H
#define GRAFT_OPS_GROUP_NORM_GROUP_NORM_CASES_H

#include "graft/op.h"

enum { GRAFT_GROUP_NORM_N_CASES = 20 };
extern const graft_op_case graft_group_norm_cases[GRAFT_GROUP_NORM_N_CASES];

#endif
