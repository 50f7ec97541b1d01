// conv2d_cases.h — examples of graft.conv2d.v1.
#ifndef GRAFT_OPS_CONV2D_CONV2D_CASES_H
#define GRAFT_OPS_CONV2D_CONV2D_CASES_H

#include "graft/op.h"

enum { GRAFT_CONV2D_N_CASES = 38 };
extern const graft_op_case graft_conv2d_cases[GRAFT_CONV2D_N_CASES];

#endif
