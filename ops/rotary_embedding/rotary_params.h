// rotary_params.h — what host and device code of graft.rotary_embedding.v1 and graft.rms_norm_rotary.v1 share.
#ifndef GRAFT_OPS_ROTARY_PARAMS_H
#define GRAFT_OPS_ROTARY_PARAMS_H

#include "ops/common/cuda/walk.h"

enum { GRAFT_ROTARY_HEADS = 2, GRAFT_ROTARY_CHANNELS = 16 };  // of a thread, where pairs are taken eight at a time

typedef struct graft_rotary_params {
  graft_walk walk;  // over heads: operands y, x and the table's rows
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  graft_cuda_operand weight;  // of the norm; data NULL: none
  int64_t steps[2];           // bytes between channels of y and x
  int64_t weight_step;
  int64_t pair_step, sine_step;  // bytes in the table
  int64_t width, pairs;
  int32_t is_half, has_norm;
  int32_t n_lanes;  // threads for a head whose pairs are taken eight at a time, a power of two; 0: one pair at a time
  float eps;
} graft_rotary_params;

#endif
