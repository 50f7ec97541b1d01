// rotary_embedding_cases.h — examples of graft.rotary_embedding.v1.
#ifndef GRAFT_OPS_ROTARY_EMBEDDING_ROTARY_EMBEDDING_CASES_H
#define GRAFT_OPS_ROTARY_EMBEDDING_ROTARY_EMBEDDING_CASES_H

#include "graft/op.h"

enum { GRAFT_ROTARY_EMBEDDING_N_CASES = 22 };
extern const graft_op_case graft_rotary_embedding_cases[GRAFT_ROTARY_EMBEDDING_N_CASES];

#endif
