// finish.cu — device code of finish.h.
#include "ops/common/cuda/epilogue.cuh"
#include "ops/common/cuda/finish.h"

template <int W>
__device__ __forceinline__ void finish(const graft_elementwise_params &p) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  const int activation = (int)p.numbers[0];
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.walk.n; i += step) {
    int64_t offsets[GRAFT_FINISH_N];
    float x[GRAFT_FINISH_N][W];
    graft_walk_find<GRAFT_FINISH_N>(p.walk, i, offsets);
#pragma unroll
    for (int k = 1; k < GRAFT_FINISH_N; ++k) {
      if (p.operands[k].data != nullptr) {
        graft_load_group<W>(p.operands[k].data + offsets[k], p.operands[k].type, p.walk.steps[k], x[k]);
      } else {
#pragma unroll
        for (int e = 0; e < W; ++e) x[k][e] = k == GRAFT_FINISH_GATE ? 1.0f : 0.0f;
      }
    }
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float y = graft_activate(x[GRAFT_FINISH_X][e] + x[GRAFT_FINISH_BIAS][e], activation);
      x[0][e] = y * x[GRAFT_FINISH_GATE][e] + x[GRAFT_FINISH_RESIDUAL][e];
    }
    graft_store_group<W>(p.operands[0].data + offsets[0], p.operands[0].type, x[0]);
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS) graft_finish_1(const graft_elementwise_params p) {
  finish<1>(p);
}
extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS) graft_finish_8(const graft_elementwise_params p) {
  finish<GRAFT_WALK_WIDE>(p);
}
