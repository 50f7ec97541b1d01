// rotary_embedding.cu — device code of graft.rotary_embedding.v1, and of graft.rms_norm_rotary.v1, which normalises
// each head first: one warp for each head, or where memory allows, a few threads with sixteen channels each, which turn
// several heads of a position by the same angles, the next head on its way while one is worked on.
#include "ops/common/cuda/held.cuh"
#include "ops/rotary_embedding/rotary_params.h"

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
      factor = p.scale / sqrtf(graft_warp_sum(squares) / (float)p.width + p.eps);
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

// Sixteen channels of a head, two fours of its first half and the same fours of its second one; neighbouring threads
// read neighbouring groups of sixteen bytes. The pairs are four in each half, or eight that have a channel in both.
template <int TYPE>
struct held {
  static constexpr int GROUPS = graft_group<TYPE>::IN_EIGHT, WIDTH = graft_group<TYPE>::WIDTH;
  uint4 bits[2 * GROUPS];

  // Which four of a half is a thread's four |q|.
  static __device__ __forceinline__ int find_four(int q, int lane, int n_lanes) {
    return GROUPS == 2 ? q * n_lanes + lane : 2 * lane + q;
  }

  __device__ __forceinline__ void fetch(const char *first, int n_lanes) {
#pragma unroll
    for (int g = 0; g < 2 * GROUPS; ++g) bits[g] = ((const uint4 *)first)[g * n_lanes];
  }
};

template <int TYPE>
__device__ __forceinline__ void store(const float (&x)[16], char *first, int n_lanes) {
  using group = held<TYPE>;
#pragma unroll
  for (int g = 0; g < 2 * group::GROUPS; ++g) {
    ((uint4 *)first)[g * n_lanes] = graft_gather<TYPE>(&x[g * group::WIDTH]);
  }
}

__device__ __forceinline__ void store_four(char *y, int type, const float *x) {
  if (type == GRAFT_DTYPE_F32) {
    *(float4 *)y = make_float4(x[0], x[1], x[2], x[3]);
  } else if (type == GRAFT_DTYPE_BF16) {
    *(uint2 *)y = make_uint2(graft_to_pair<true>(x[0], x[1]), graft_to_pair<true>(x[2], x[3]));
  } else {
    *(uint2 *)y = make_uint2(graft_to_pair<false>(x[0], x[1]), graft_to_pair<false>(x[2], x[3]));
  }
}

// To a head of another type than |TYPE|, which begins at |head|.
template <int TYPE>
__device__ __forceinline__ void store_cast(const graft_rotary_params &p, const float (&x)[16], char *head, int lane) {
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int four = held<TYPE>::find_four(q % 2, lane, p.n_lanes) + (q < 2 ? 0 : (int)p.pairs / 4);
    store_four(head + four * 4 * p.operands[0].element_bytes, p.operands[0].type, &x[q * 4]);
  }
}

// Cosines and sines of a thread's eight pairs, two in each of its fours, or four with a channel in each half; the same
// for all heads of a run.
template <int TYPE, bool IS_HALF>
__device__ __forceinline__ void load_angles(const graft_rotary_params &p, const char *table, int lane,
                                            float4 (&angles)[4]) {
  const float4 *first = (const float4 *)table, *second = first + p.pairs / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int four = held<TYPE>::find_four(IS_HALF ? i / 2 : i % 2, lane, p.n_lanes);
    angles[i] = IS_HALF ? first[four * 2 + i % 2] : (i < 2 ? first : second)[four];
  }
}

template <bool IS_HALF>
__device__ __forceinline__ void rotate(const float4 (&angles)[4], float (&x)[16]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float4 two = angles[i / 2];
    const float cosine = i % 2 == 0 ? two.x : two.z, sine = i % 2 == 0 ? two.y : two.w;
    float &a = x[IS_HALF ? i : 2 * i], &b = x[IS_HALF ? 8 + i : 2 * i + 1];
    const float first = a, second = b;
    a = first * cosine - second * sine;
    b = first * sine + second * cosine;
  }
}

__device__ __forceinline__ void load_weights(const graft_rotary_params &p, float *weights) {
  for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
    const float weight = p.weight.data == nullptr ? 1.0f : graft_load(p.weight.data + i * p.weight_step, p.weight.type);
    weights[i] = weight * p.scale;
  }
  __syncthreads();
}

template <int TYPE>
__device__ __forceinline__ void normalise(const graft_rotary_params &p, const float4 *weights, int lane,
                                          float (&x)[16]) {
  float squares = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) squares = fmaf(x[i], x[i], squares);
#pragma unroll
  for (int i = 16; i > 0; i /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, squares, i);
    squares = i < p.n_lanes ? squares + other : squares;
  }
  const float factor = rsqrtf(fmaf(squares, p.per_channel, p.eps));
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const float4 w = weights[held<TYPE>::find_four(q % 2, lane, p.n_lanes) + (q < 2 ? 0 : (int)p.pairs / 4)];
    x[q * 4] *= factor * w.x;
    x[q * 4 + 1] *= factor * w.y;
    x[q * 4 + 2] *= factor * w.z;
    x[q * 4 + 3] *= factor * w.w;
  }
}

// Where a thread's channels of the first head of a run are; |y| is where that head begins.
struct place {
  const char *x, *table;
  char *y;
};

// Beyond the last run, the last one stands.
__device__ __forceinline__ place find_run(const graft_rotary_params &p, int64_t run, int bytes) {
  int64_t offsets[3];
  graft_walk_find<3>(p.walk, min(run, p.n_all_runs - 1) * p.n_run, offsets);
  return {p.operands[1].data + offsets[1] + bytes, p.operands[2].data + offsets[2], p.operands[0].data + offsets[0]};
}

// Runs that a block works on at a time are followed by their neighbours. Every thread of a warp takes part in every
// head, beyond the last one of a run, too, for the sake of the sums.
template <int TYPE, bool IS_HALF, bool IS_CAST>
__device__ __forceinline__ void rotate_held(const graft_rotary_params &p) {
  const int lane = (int)threadIdx.x & (p.n_lanes - 1), own = (int)threadIdx.x / p.n_lanes;
  const int beside = own & (p.n_beside - 1), n_runs = (int)blockDim.x / (p.n_lanes * p.n_beside);
  const int first = lane * (int)sizeof(uint4);
  const int64_t x_step = p.walk.strides[1][0], y_step = p.walk.strides[0][0];
  __shared__ float4 weights[32 * GRAFT_ROTARY_CHANNELS / 4];
  load_weights(p, (float *)weights);
  int64_t run = (int64_t)blockIdx.x * p.n_turns * n_runs + own / p.n_beside;
  place here = find_run(p, run, first);
  held<TYPE> next;
  next.fetch(here.x + min(beside, p.n_run - 1) * x_step, p.n_lanes);
  for (int turn = 0; turn < p.n_turns; ++turn, run += n_runs) {
    const place coming = find_run(p, run + n_runs, first);
    float4 angles[4];
    load_angles<TYPE, IS_HALF>(p, here.table, lane, angles);
    for (int base = 0; base < p.n_run; base += p.n_beside) {
      const int head = base + beside;
      const held<TYPE> h = next;
      const bool is_last = base + p.n_beside >= p.n_run;
      next.fetch((is_last ? coming.x : here.x) + min(is_last ? beside : head + p.n_beside, p.n_run - 1) * x_step,
                 p.n_lanes);
      float values[16];
      graft_spread<TYPE>(h.bits, values);
      if (p.has_norm) normalise<TYPE>(p, weights, lane, values);
      rotate<IS_HALF>(angles, values);
      if (run >= p.n_all_runs || head >= p.n_run) continue;
      if (IS_CAST) {
        store_cast<TYPE>(p, values, here.y + head * y_step, lane);
      } else {
        store<TYPE>(values, here.y + first + head * y_step, p.n_lanes);
      }
    }
    here = coming;
  }
}

extern "C" __global__ void graft_rotary_heads(const graft_rotary_params p) {
  rotate_singly(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_pairs_f32(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F32, false, false>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_pairs_f32_cast(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F32, false, true>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_halves_f32(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F32, true, false>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_halves_f32_cast(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F32, true, true>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_pairs_bf16(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_BF16, false, false>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_pairs_bf16_cast(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_BF16, false, true>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_halves_bf16(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_BF16, true, false>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_halves_bf16_cast(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_BF16, true, true>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_pairs_f16(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F16, false, false>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_pairs_f16_cast(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F16, false, true>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_halves_f16(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F16, true, false>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_WALK_THREADS, 3)
    graft_rotary_halves_f16_cast(const graft_rotary_params p) {
  rotate_held<GRAFT_DTYPE_F16, true, true>(p);
}
