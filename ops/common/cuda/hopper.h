// hopper.h — which cards take the kernels written for compute capability 9.0's own instructions (hopper.cuh).
#ifndef GRAFT_OPS_COMMON_CUDA_HOPPER_H
#define GRAFT_OPS_COMMON_CUDA_HOPPER_H

#include "graft/cuda.h"

// Shared memory for tiles that are swizzled, and what is lost by putting them at a multiple of 1024 bytes.
enum { GRAFT_HOPPER_ALIGNMENT = 1024, GRAFT_HOPPER_BARRIER_BYTES = 256, GRAFT_HOPPER_TILE = 64 };
enum { GRAFT_HOPPER_SPARE_BYTES = GRAFT_HOPPER_ALIGNMENT + GRAFT_HOPPER_BARRIER_BYTES };

// One warpgroup fetches, two multiply.
enum { GRAFT_HOPPER_THREADS = 384 };

// Whether the card behind |device| is a Hopper and this build has code for it (target 90a).
bool graft_cuda_is_hopper(const graft_device *device, graft_reason *why);

#endif
