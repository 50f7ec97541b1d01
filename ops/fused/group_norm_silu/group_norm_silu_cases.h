// group_norm_silu_cases.h — examples of graft.group_norm_silu.v1; the first ones are the forms that the fusion rule
// looks for.
#ifndef GRAFT_OPS_FUSED_GROUP_NORM_SILU_GROUP_NORM_SILU_CASES_H
#define GRAFT_OPS_FUSED_GROUP_NORM_SILU_GROUP_NORM_SILU_CASES_H

#include "graft/op.h"

enum { GRAFT_GROUP_NORM_SILU_N_FORMS = 2, GRAFT_GROUP_NORM_SILU_N_CASES = 12 };
extern const graft_op_case graft_group_norm_silu_cases[GRAFT_GROUP_NORM_SILU_N_CASES];

#endif
