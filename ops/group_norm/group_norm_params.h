// group_norm_params.h — what host and device code of graft.group_norm.v1 and graft.group_norm_silu.v1 share. A group is
// cut into chunks, so that few large groups fill a whole GPU: moments of chunks, moments of groups, then the result.
#ifndef GRAFT_OPS_GROUP_NORM_PARAMS_H
#define GRAFT_OPS_GROUP_NORM_PARAMS_H

#include "ops/common/cuda/walk.h"

enum { GRAFT_GROUP_NORM_CHUNK = 8192, GRAFT_GROUP_NORM_THREADS = 256 };

typedef struct graft_group_norm_params {
  graft_cuda_operand x, y, weight, bias;
  int64_t x_strides[2], y_strides[2];  // bytes: item, channel
  // Dimensions behind the channels, the innermost first.
  int32_t n_place_dims;
  int64_t place_shape[GRAFT_MAX_RANK], x_place_strides[GRAFT_MAX_RANK], y_place_strides[GRAFT_MAX_RANK];
  int64_t weight_step, bias_step;
  int64_t n_items, n_channels, n_places, n_groups;
  int64_t n_chunks;      // of each group
  int64_t n_all_chunks;  // of all groups of all items, below 2^31
  float *chunks;         // [items · groups][chunks][mean as two numbers, sum of squares]
  float *moments;        // [items · groups][mean as two numbers, factor]
  int32_t has_silu;
  float eps;
} graft_group_norm_params;

#endif
