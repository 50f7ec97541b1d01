// rotary_params.h — what host and device code of graft.rotary_embedding.v1 and graft.rms_norm_rotary.v1 share.
#ifndef GRAFT_OPS_ROTARY_PARAMS_H
#define GRAFT_OPS_ROTARY_PARAMS_H

#include "ops/common/cuda/walk.h"

typedef struct graft_rotary_params {
  graft_walk walk;  // over heads: operands y, x and the table's rows
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  graft_cuda_operand weight;  // of the norm; data NULL: none
  int64_t steps[2];           // bytes between channels of y and x
  int64_t weight_step;
  int64_t pair_step, sine_step;  // bytes in the table
  int64_t width, pairs;
  int32_t is_half, has_norm;
  float eps;
} graft_rotary_params;

#endif
