#include "ops/common/cuda/hopper.h"

bool graft_cuda_is_hopper(const graft_device *device, graft_reason *why) {
#ifdef GRAFT_CUDA_HAS_90A
  const graft_cuda_info *info = graft_cuda_describe(device);
  const bool is_hopper = info != NULL && info->compute_major == 9 && info->compute_minor == 0;
  return is_hopper || graft_refuse(why, "only for compute capability 9.0");
#else
  (void)device;
  return graft_refuse(why, "this build has no code for compute capability 9.0a");
#endif
}
