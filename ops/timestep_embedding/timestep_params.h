// timestep_params.h — what host and device code of graft.timestep_embedding.v1 share.
#ifndef GRAFT_OPS_TIMESTEP_PARAMS_H
#define GRAFT_OPS_TIMESTEP_PARAMS_H

#include "ops/common/cuda/walk.h"

typedef struct graft_timestep_params {
  const char *t;
  char *y;
  int64_t t_stride, y_strides[2];  // bytes
  int64_t n, dim;
  double factor, scale;  // frequency i is exp(factor · i)
} graft_timestep_params;

#endif
