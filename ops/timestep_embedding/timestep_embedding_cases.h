// timestep_embedding_cases.h — examples of graft.timestep_embedding.v1.
#ifndef GRAFT_OPS_TIMESTEP_EMBEDDING_TIMESTEP_EMBEDDING_CASES_H
#define GRAFT_OPS_TIMESTEP_EMBEDDING_TIMESTEP_EMBEDDING_CASES_H

#include "graft/op.h"

enum { GRAFT_TIMESTEP_EMBEDDING_N_CASES = 12 };
extern const graft_op_case graft_timestep_embedding_cases[GRAFT_TIMESTEP_EMBEDDING_N_CASES];

#endif
