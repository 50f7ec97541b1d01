// unary.cu — device code of the operators of unary.h.
#include "ops/common/cuda/elementwise.cuh"

__device__ __forceinline__ float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// 1 + tanh(u) = 2·sigmoid(2u), which keeps its digits for negative u.
__device__ __forceinline__ float gelu_tanh(float x) {
  return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}

GRAFT_ELEMENTWISE(graft_silu, 2, graft_silu_of(x[0]))
GRAFT_ELEMENTWISE(graft_gelu, 2, 0.5f * x[0] * erfcf(-0.70710678118654752f * x[0]))
GRAFT_ELEMENTWISE(graft_gelu_tanh, 2, gelu_tanh(x[0]))
GRAFT_ELEMENTWISE(graft_tanh, 2, tanhf(x[0]))
GRAFT_ELEMENTWISE(graft_sigmoid, 2, sigmoid(x[0]))
GRAFT_ELEMENTWISE(graft_scale, 2, fmaf(numbers[0], x[0], numbers[1]))
