// rotary_params.h — what host and device code of graft.rotary_embedding.v1 and graft.rms_norm_rotary.v1 share.
#ifndef GRAFT_OPS_ROTARY_PARAMS_H
#define GRAFT_OPS_ROTARY_PARAMS_H

#include "ops/common/cuda/walk.h"

// Of a thread that holds what it rotates: channels of a head, and how many heads it has room for at least.
enum { GRAFT_ROTARY_CHANNELS = 16, GRAFT_ROTARY_HEADS = 4 };

typedef struct graft_rotary_params {
  graft_walk walk;  // over heads: operands y, x and the table's rows
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  graft_cuda_operand weight;  // of the norm; data NULL: none
  int64_t steps[2];           // bytes between channels of y and x
  int64_t weight_step;
  int64_t pair_step, sine_step;  // bytes in the table
  int64_t width, pairs;
  int32_t is_half, has_norm;
  // Where heads are held in registers: threads for a head, heads that follow each other and have their angles in
  // common, how many of these are worked on at a time, and how many times a block takes the next such runs. Lanes and
  // heads beside each other are powers of two.
  int32_t n_lanes, n_run, n_beside, n_turns;
  int64_t n_all_runs;
  float eps, per_channel, scale;  // of the norm; 1 / width; what weights are multiplied by
} graft_rotary_params;

#endif
