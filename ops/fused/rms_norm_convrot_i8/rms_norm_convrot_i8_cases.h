// rms_norm_convrot_i8_cases.h — examples of graft.rms_norm_convrot_i8.v1; the first ones are the forms that the fusion
// rule looks for.
#ifndef GRAFT_OPS_FUSED_RMS_NORM_CONVROT_I8_RMS_NORM_CONVROT_I8_CASES_H
#define GRAFT_OPS_FUSED_RMS_NORM_CONVROT_I8_RMS_NORM_CONVROT_I8_CASES_H

#include "graft/op.h"

enum { GRAFT_RMS_NORM_CONVROT_I8_N_FORMS = 9, GRAFT_RMS_NORM_CONVROT_I8_N_CASES = 22 };
extern const graft_op_case graft_rms_norm_convrot_i8_cases[GRAFT_RMS_NORM_CONVROT_I8_N_CASES];

#endif
