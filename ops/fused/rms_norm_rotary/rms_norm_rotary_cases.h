// rms_norm_rotary_cases.h — examples of graft.rms_norm_rotary.v1.
#ifndef GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_CASES_H
#define GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_CASES_H

#include "graft/op.h"

enum { GRAFT_RMS_NORM_ROTARY_N_CASES = 30 };
extern const graft_op_case graft_rms_norm_rotary_cases[GRAFT_RMS_NORM_ROTARY_N_CASES];

#endif
