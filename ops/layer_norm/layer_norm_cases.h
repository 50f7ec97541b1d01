// layer_norm_cases.h — examples of graft.layer_norm.v1.
#ifndef GRAFT_OPS_LAYER_NORM_LAYER_NORM_CASES_H
#define GRAFT_OPS_LAYER_NORM_LAYER_NORM_CASES_H

#include "graft/op.h"

enum { GRAFT_LAYER_NORM_N_CASES = 17 };
extern const graft_op_case graft_layer_norm_cases[GRAFT_LAYER_NORM_N_CASES];

#endif
