// affine_cases.h — examples of graft.affine.v1 and graft.modulate.v1, whose first two are the forms that its rule looks
// for.
#ifndef GRAFT_OPS_FUSED_AFFINE_AFFINE_CASES_H
#define GRAFT_OPS_FUSED_AFFINE_AFFINE_CASES_H

#include "graft/op.h"

enum { GRAFT_AFFINE_N_CASES = 10, GRAFT_MODULATE_N_CASES = 9, GRAFT_MODULATE_N_FORMS = 2 };
extern const graft_op_case graft_affine_cases[GRAFT_AFFINE_N_CASES];
extern const graft_op_case graft_modulate_cases[GRAFT_MODULATE_N_CASES];

#endif
