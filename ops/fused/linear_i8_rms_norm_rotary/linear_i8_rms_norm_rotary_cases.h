// linear_i8_rms_norm_rotary_cases.h — examples of graft.linear_i8_rms_norm_rotary.v1.
#ifndef GRAFT_OPS_FUSED_LINEAR_I8_RMS_NORM_ROTARY_LINEAR_I8_RMS_NORM_ROTARY_CASES_H
#define GRAFT_OPS_FUSED_LINEAR_I8_RMS_NORM_ROTARY_LINEAR_I8_RMS_NORM_ROTARY_CASES_H

#include "graft/op.h"

enum { GRAFT_LINEAR_I8_RMS_NORM_ROTARY_N_CASES = 13 };
extern const graft_op_case graft_linear_i8_rms_norm_rotary_cases[GRAFT_LINEAR_I8_RMS_NORM_ROTARY_N_CASES];

#endif
