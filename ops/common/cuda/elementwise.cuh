// elementwise.cuh — the device side of elementwise.h.
#ifndef GRAFT_OPS_COMMON_CUDA_ELEMENTWISE_CUH
#define GRAFT_OPS_COMMON_CUDA_ELEMENTWISE_CUH

#include "ops/common/cuda/elementwise.h"
#include "ops/common/cuda/scalar.cuh"

// Applies f(x[0 … N - 2], numbers) to every element; N counts the operand that is written.
template <int N, int W, class F>
__device__ __forceinline__ void graft_elementwise_run(const graft_elementwise_params &p, F f) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.walk.n; i += step) {
    int64_t offsets[N];
    float x[N][W];
    graft_walk_find<N>(p.walk, i, offsets);
#pragma unroll
    for (int k = 1; k < N; ++k) {
      graft_load_group<W>(p.operands[k].data + offsets[k], p.operands[k].type, p.walk.steps[k], x[k]);
    }
#pragma unroll
    for (int e = 0; e < W; ++e) {
      float in[N];
#pragma unroll
      for (int k = 1; k < N; ++k) in[k - 1] = x[k][e];
      x[0][e] = f(in, p.numbers);
    }
    graft_store_group<W>(p.operands[0].data + offsets[0], p.operands[0].type, x[0]);
  }
}

// Both forms of a kernel of |n| operands: |body| is an expression in x[] and numbers[].
#define GRAFT_ELEMENTWISE(name, n, body)                                                                        \
  extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS) name##_1(const graft_elementwise_params p) { \
    graft_elementwise_run<n, 1>(p, [](const float *x, const float *numbers) { return body; });                  \
  }                                                                                                             \
  extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS) name##_8(const graft_elementwise_params p) { \
    graft_elementwise_run<n, GRAFT_WALK_WIDE>(p, [](const float *x, const float *numbers) { return body; });    \
  }

#endif
