// upsample_nearest_cases.h — examples of graft.upsample_nearest.v1.
#ifndef GRAFT_OPS_UPSAMPLE_NEAREST_UPSAMPLE_NEAREST_CASES_H
#define GRAFT_OPS_UPSAMPLE_NEAREST_UPSAMPLE_NEAREST_CASES_H

#include "graft/op.h"

enum { GRAFT_UPSAMPLE_NEAREST_N_CASES = 17 };
extern const graft_op_case graft_upsample_nearest_cases[GRAFT_UPSAMPLE_NEAREST_N_CASES];

#endif
