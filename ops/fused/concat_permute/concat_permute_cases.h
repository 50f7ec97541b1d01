// concat_permute_cases.h — examples of graft.concat_permute.v1.
#ifndef GRAFT_OPS_FUSED_CONCAT_PERMUTE_CONCAT_PERMUTE_CASES_H
#define GRAFT_OPS_FUSED_CONCAT_PERMUTE_CONCAT_PERMUTE_CASES_H

#include "graft/op.h"

enum { GRAFT_CONCAT_PERMUTE_N_CASES = 21 };
extern const graft_op_case graft_concat_permute_cases[GRAFT_CONCAT_PERMUTE_N_CASES];

#endif
