// epilogue.cuh — activations of epilogues, by the numbers of graft_epilogue_activation.
#ifndef GRAFT_OPS_COMMON_CUDA_EPILOGUE_CUH
#define GRAFT_OPS_COMMON_CUDA_EPILOGUE_CUH

#include "ops/common/cuda/scalar.cuh"

__device__ __forceinline__ float graft_activate(float x, int activation) {
  switch (activation) {
    case 1: return graft_silu_of(x);
    case 2: return 0.5f * x * erfcf(-0.70710678118654752f * x);
    case 3: return x / (1.0f + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    default: return x;
  }
}

#endif
