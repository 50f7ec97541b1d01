// rotary_embedding.cu — device code of graft.rotary_embedding.v1, and of graft.rms_norm_rotary.v1, which normalises
// each head first: one warp for each head.
#include "ops/common/cuda/scalar.cuh"
#include "ops/rotary_embedding/rotary_params.h"

__device__ __forceinline__ float load_channel(const graft_rotary_params &p, const char *x, int64_t i, float factor) {
  const float value = graft_load(x + i * p.steps[1], p.operands[1].type) * factor;
  return p.weight.data == nullptr ? value : value * graft_load(p.weight.data + i * p.weight_step, p.weight.type);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS) graft_rotary_heads(const graft_rotary_params p) {
  const int lane = threadIdx.x % 32, type = p.operands[0].type;
  const int64_t n_warps = (int64_t)gridDim.x * (blockDim.x / 32);
  for (int64_t head = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; head < p.walk.n; head += n_warps) {
    int64_t offsets[3];
    graft_walk_find<3>(p.walk, head, offsets);
    char *y = p.operands[0].data + offsets[0];
    const char *x = p.operands[1].data + offsets[1], *table = p.operands[2].data + offsets[2];
    float factor = 1;
    if (p.has_norm) {
      float squares = 0;
      for (int64_t i = lane; i < p.width; i += 32) {
        const float value = graft_load(x + i * p.steps[1], p.operands[1].type);
        squares = fmaf(value, value, squares);
      }
      factor = 1.0f / sqrtf(graft_warp_sum(squares) / (float)p.width + p.eps);
    }
    for (int64_t i = lane; i < p.pairs; i += 32) {
      const int64_t first = p.is_half ? i : 2 * i, second = p.is_half ? i + p.pairs : 2 * i + 1;
      const float a = load_channel(p, x, first, factor), b = load_channel(p, x, second, factor);
      const float cosine = *(const float *)(table + i * p.pair_step);
      const float sine = *(const float *)(table + i * p.pair_step + p.sine_step);
      graft_store(y + first * p.steps[0], type, a * cosine - b * sine);
      graft_store(y + second * p.steps[0], type, a * sine + b * cosine);
    }
    for (int64_t i = 2 * p.pairs + lane; i < p.width; i += 32) {
      graft_store(y + i * p.steps[0], type, load_channel(p, x, i, factor));
    }
  }
}
