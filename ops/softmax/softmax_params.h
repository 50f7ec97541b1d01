// softmax_params.h — what host and device code of graft.softmax.v1 share.
#ifndef GRAFT_OPS_SOFTMAX_PARAMS_H
#define GRAFT_OPS_SOFTMAX_PARAMS_H

#include "ops/common/cuda/walk.h"

typedef struct graft_softmax_params {
  graft_walk walk;  // over rows
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  int64_t steps[2];  // bytes between elements of a row
  int64_t n;
} graft_softmax_params;

#endif
