// rotary_embedding.cu — device code of graft.rotary_embedding.v1, and of graft.rms_norm_rotary.v1, which normalises
// each head first: one warp for each head, or where memory allows, a few threads with sixteen channels each.
#include "ops/common/cuda/scalar.cuh"
#include "ops/rotary_embedding/rotary_params.h"

enum { HEADS = GRAFT_ROTARY_HEADS };  // that a thread has at a time, where it has eight pairs of each

__device__ __forceinline__ float load_channel(const graft_rotary_params &p, const char *x, int64_t i, float factor) {
  const float value = graft_load(x + i * p.steps[1], p.operands[1].type) * factor;
  return p.weight.data == nullptr ? value : value * graft_load(p.weight.data + i * p.weight_step, p.weight.type);
}

__device__ __forceinline__ void rotate_singly(const graft_rotary_params &p) {
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

// Sixteen channels of a head, eight of its first half and eight of its second one, as neighbouring threads have
// neighbouring ones. The pairs are four in each half, or eight that have a channel in both.
struct pairs {
  float x[2][8];
  char *y[2];
  const char *table;
};

__device__ __forceinline__ void load_pairs(const graft_rotary_params &p, int64_t head, int64_t first, int64_t second,
                                           pairs *s) {
  int64_t offsets[3];
  graft_walk_find<3>(p.walk, head, offsets);
  const char *x = p.operands[1].data + offsets[1];
  const char *const at[2] = {x + first * p.steps[1], x + second * p.steps[1]};
  graft_load_places(at, p.operands[1].type, s->x);
  s->y[0] = p.operands[0].data + offsets[0] + first * p.steps[0];
  s->y[1] = p.operands[0].data + offsets[0] + second * p.steps[0];
  s->table = p.operands[2].data + offsets[2];
}

__device__ __forceinline__ void normalise(const graft_rotary_params &p, int64_t first, int64_t second, pairs *s) {
  float squares = 0, weights[2][8];
#pragma unroll
  for (int i = 0; i < 16; ++i) squares = fmaf(s->x[i / 8][i % 8], s->x[i / 8][i % 8], squares);
  for (int i = p.n_lanes / 2; i > 0; i /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, i);
  const float factor = 1.0f / sqrtf(squares / (float)p.width + p.eps);
#pragma unroll
  for (int i = 0; i < 16; ++i) s->x[i / 8][i % 8] *= factor;
  if (p.weight.data == nullptr) return;
  const char *const at[2] = {p.weight.data + first * p.weight_step, p.weight.data + second * p.weight_step};
  graft_load_places(at, p.weight.type, weights);
#pragma unroll
  for (int i = 0; i < 16; ++i) s->x[i / 8][i % 8] *= weights[i / 8][i % 8];
}

// The cosines and sines of eight pairs stand together, or of four and four.
template <bool IS_HALF>
__device__ __forceinline__ void rotate(const graft_rotary_params &p, int lane, pairs *s) {
  const float4 *first = (const float4 *)(s->table + lane * (IS_HALF ? 64 : 32));
  const float4 *second = IS_HALF ? first + 2 : first + p.pairs / 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 two = i < 4 ? first[i / 2] : second[i / 2 - 2];
    const float cosine = i % 2 == 0 ? two.x : two.z, sine = i % 2 == 0 ? two.y : two.w;
    float &a = IS_HALF ? s->x[0][i] : s->x[i / 4][i % 4 * 2];
    float &b = IS_HALF ? s->x[1][i] : s->x[i / 4][i % 4 * 2 + 1];
    const float x = a, y = b;
    a = x * cosine - y * sine;
    b = x * sine + y * cosine;
  }
}

template <bool IS_HALF>
__device__ __forceinline__ void rotate_wide(const graft_rotary_params &p) {
  const int lane = threadIdx.x % p.n_lanes, own = threadIdx.x / p.n_lanes, n = blockDim.x / p.n_lanes;
  const int64_t first = lane * 8, second = first + p.pairs;
  for (int64_t block = (int64_t)blockIdx.x * n * HEADS; block < p.walk.n; block += (int64_t)gridDim.x * n * HEADS) {
    pairs s[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; ++h) load_pairs(p, min(block + h * n + own, p.walk.n - 1), first, second, &s[h]);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      if (p.has_norm) normalise(p, first, second, &s[h]);
      rotate<IS_HALF>(p, lane, &s[h]);
      if (block + h * n + own < p.walk.n) {
        graft_store_wide(s[h].y[0], p.operands[0].type, s[h].x[0]);
        graft_store_wide(s[h].y[1], p.operands[0].type, s[h].x[1]);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3) graft_rotary_heads(const graft_rotary_params p) {
  if (p.n_lanes == 0) {
    rotate_singly(p);
  } else if (p.is_half) {
    rotate_wide<true>(p);
  } else {
    rotate_wide<false>(p);
  }
}
