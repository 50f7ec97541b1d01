// rms_norm_cases.h — examples of graft.rms_norm.v1.
#ifndef GRAFT_OPS_RMS_NORM_RMS_NORM_CASES_H
#define GRAFT_OPS_RMS_NORM_RMS_NORM_CASES_H

#include "graft/op.h"

enum { GRAFT_RMS_NORM_N_CASES = 20 };
extern const graft_op_case graft_rms_norm_cases[GRAFT_RMS_NORM_N_CASES];

#endif
