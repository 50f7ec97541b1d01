// rms_norm_rotary_group.h — the steps that graft.rms_norm_rotary.v1 stands for, for it and the operators that end with
// it.
#ifndef GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_GROUP_H
#define GRAFT_OPS_FUSED_RMS_NORM_ROTARY_RMS_NORM_ROTARY_GROUP_H

#include "graft/fusion.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

typedef struct graft_rms_norm_rotary_group {
  graft_tensor *x, *weight, *table;
  graft_rms_norm_rotary_attrs attrs;
} graft_rms_norm_rotary_group;

// Builds the steps from the plain operators. Failures stick to |graph|.
graft_tensor *graft_rms_norm_rotary_build(graft_graph *graph, const graft_rms_norm_rotary_group *group);

// Reads the steps that end in |result| backwards, within `propose`; the weight is NULL where there is none. False where
// they are others.
bool graft_rms_norm_rotary_find(graft_tensor *result, graft_rms_norm_rotary_group *out_group);

// Operations for each element of the result.
enum { GRAFT_RMS_NORM_ROTARY_FLOPS = 7 };

#endif
