// embedding_cases.h — examples of graft.embedding.v1.
#ifndef GRAFT_OPS_EMBEDDING_EMBEDDING_CASES_H
#define GRAFT_OPS_EMBEDDING_EMBEDDING_CASES_H

#include "graft/op.h"

enum { GRAFT_EMBEDDING_N_CASES = 16 };
extern const graft_op_case graft_embedding_cases[GRAFT_EMBEDDING_N_CASES];

#endif
