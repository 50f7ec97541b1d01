// embedding_params.h — what host and device code of graft.embedding.v1 share.
#ifndef GRAFT_OPS_EMBEDDING_PARAMS_H
#define GRAFT_OPS_EMBEDDING_PARAMS_H

#include "ops/common/cuda/walk.h"

typedef struct graft_embedding_params {
  graft_walk walk;  // over indices: operands y and ids
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  graft_cuda_operand table;
  graft_cuda_fault *fault;
  int64_t y_step, table_step, row_stride;  // bytes
  int64_t n_rows, width;
} graft_embedding_params;

#endif
