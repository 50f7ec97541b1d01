// upsample_conv2d_cases.h — examples of graft.upsample_conv2d.v1; the first ones are the forms that the fusion rule
// looks for.
#ifndef GRAFT_OPS_FUSED_UPSAMPLE_CONV2D_UPSAMPLE_CONV2D_CASES_H
#define GRAFT_OPS_FUSED_UPSAMPLE_CONV2D_UPSAMPLE_CONV2D_CASES_H

#include "graft/op.h"

enum { GRAFT_UPSAMPLE_CONV2D_N_FORMS = 2, GRAFT_UPSAMPLE_CONV2D_N_CASES = 14 };
extern const graft_op_case graft_upsample_conv2d_cases[GRAFT_UPSAMPLE_CONV2D_N_CASES];

#endif
