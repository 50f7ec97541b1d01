// concat_cases.h — examples of graft.concat.v1.
#ifndef GRAFT_OPS_CONCAT_CONCAT_CASES_H
#define GRAFT_OPS_CONCAT_CONCAT_CASES_H

#include "graft/op.h"

enum { GRAFT_CONCAT_N_CASES = 19 };
extern const graft_op_case graft_concat_cases[GRAFT_CONCAT_N_CASES];

#endif
