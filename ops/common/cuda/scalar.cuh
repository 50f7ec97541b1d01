// scalar.cuh — elements of any float type as float32, one or eight at a time, and sums over a block. Conversions follow
// graft/dtype.h: nearest, ties to even; finite values saturate. The type is a run-time value that is the same for a
// whole launch: its branches cost little beside memory, and one kernel serves all combinations.
#ifndef GRAFT_OPS_COMMON_CUDA_SCALAR_CUH
#define GRAFT_OPS_COMMON_CUDA_SCALAR_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "ops/common/cuda/walk.h"

__device__ __forceinline__ float graft_from_bf16(uint16_t bits) {
  return __uint_as_float((uint32_t)bits << 16);
}

__device__ __forceinline__ float graft_from_f16(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}

__device__ __forceinline__ float graft_from_f8(uint8_t bits, int type) {
  __nv_fp8_interpretation_t kind = type == GRAFT_DTYPE_F8_E4M3 ? __NV_E4M3 : __NV_E5M2;
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, kind)));
}

__device__ __forceinline__ float graft_saturate(float x, float largest) {
  return isinf(x) ? x : x > largest ? largest : x < -largest ? -largest : x;
}

__device__ __forceinline__ uint16_t graft_to_bf16(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(graft_saturate(x, 3.38953139e38f)));
}

__device__ __forceinline__ uint16_t graft_to_f16(float x) {
  return __half_as_ushort(__float2half_rn(graft_saturate(x, 65504.0f)));
}

// Two numbers as 16-bit floats, the first in the low half; neither is too large for one.
template <bool IS_BF16>
__device__ __forceinline__ uint32_t graft_pair_of(float x, float y) {
  if (IS_BF16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *(const uint32_t *)&pair;
  }
  const __half2 pair = __floats2half2_rn(x, y);
  return *(const uint32_t *)&pair;
}

// The same of any two numbers. Few are so large that they need to be saturated.
template <bool IS_BF16>
__device__ __forceinline__ uint32_t graft_to_pair(float x, float y) {
  if (fmaxf(fabsf(x), fabsf(y)) <= (IS_BF16 ? 3.38953139e38f : 65504.0f)) return graft_pair_of<IS_BF16>(x, y);
  return IS_BF16 ? graft_to_bf16(x) | (uint32_t)graft_to_bf16(y) << 16
                 : graft_to_f16(x) | (uint32_t)graft_to_f16(y) << 16;
}

__device__ __forceinline__ uint8_t graft_to_f8(float x, int type) {
  const uint8_t sign = x < 0 ? 0x80 : 0;
  if (type == GRAFT_DTYPE_F8_E4M3) {
    return isinf(x) ? (uint8_t)(sign | 0x7f) : __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  }
  return isinf(x) ? (uint8_t)(sign | 0x7c) : __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
}

__device__ __forceinline__ float graft_load(const char *p, int type) {
  switch (type) {
    case GRAFT_DTYPE_F32: return *(const float *)p;
    case GRAFT_DTYPE_BF16: return graft_from_bf16(*(const uint16_t *)p);
    case GRAFT_DTYPE_F16: return graft_from_f16(*(const uint16_t *)p);
    default: return graft_from_f8(*(const uint8_t *)p, type);
  }
}

__device__ __forceinline__ void graft_store(char *p, int type, float x) {
  switch (type) {
    case GRAFT_DTYPE_F32: *(float *)p = x; break;
    case GRAFT_DTYPE_BF16: *(uint16_t *)p = graft_to_bf16(x); break;
    case GRAFT_DTYPE_F16: *(uint16_t *)p = graft_to_f16(x); break;
    default: *(uint8_t *)p = graft_to_f8(x, type); break;
  }
}

// |x| rounded to |type| and back: what a tensor of that type would hold.
__device__ __forceinline__ float graft_round(float x, int type) {
  switch (type) {
    case GRAFT_DTYPE_F32: return x;
    case GRAFT_DTYPE_BF16: return graft_from_bf16(graft_to_bf16(x));
    case GRAFT_DTYPE_F16: return graft_from_f16(graft_to_f16(x));
    default: return graft_from_f8(graft_to_f8(x, type), type);
  }
}

union graft_vector {
  uint4 whole;
  uint16_t halves[8];
};

__device__ __forceinline__ void graft_load_wide(const char *p, int type, float *x) {
  if (type == GRAFT_DTYPE_F32) {
    const float4 a = ((const float4 *)p)[0], b = ((const float4 *)p)[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
  } else if (type == GRAFT_DTYPE_BF16 || type == GRAFT_DTYPE_F16) {
    graft_vector v;
    v.whole = *(const uint4 *)p;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      x[i] = type == GRAFT_DTYPE_BF16 ? graft_from_bf16(v.halves[i]) : graft_from_f16(v.halves[i]);
    }
  } else {
    const uint2 v = *(const uint2 *)p;
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = graft_from_f8((uint8_t)((i < 4 ? v.x : v.y) >> (i % 4 * 8)), type);
  }
}

__device__ __forceinline__ void graft_store_wide(char *p, int type, const float *x) {
  if (type == GRAFT_DTYPE_F32) {
    ((float4 *)p)[0] = make_float4(x[0], x[1], x[2], x[3]);
    ((float4 *)p)[1] = make_float4(x[4], x[5], x[6], x[7]);
  } else if (type == GRAFT_DTYPE_BF16 || type == GRAFT_DTYPE_F16) {
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = type == GRAFT_DTYPE_BF16 ? graft_to_pair<true>(x[2 * i], x[2 * i + 1])
                                      : graft_to_pair<false>(x[2 * i], x[2 * i + 1]);
    }
    *(uint4 *)p = make_uint4(v[0], v[1], v[2], v[3]);
  } else {
    uint32_t v[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i / 4] |= (uint32_t)graft_to_f8(x[i], type) << (i % 4 * 8);
    *(uint2 *)p = make_uint2(v[0], v[1]);
  }
}

// A group of |W| elements whose neighbours lie |step| bytes apart: their own size, or 0 for one that stands for all.
template <int W>
__device__ __forceinline__ void graft_load_group(const char *p, int type, int step, float *x) {
  if (W == 1 || step == 0) {
    x[0] = graft_load(p, type);
#pragma unroll
    for (int i = 1; i < W; ++i) x[i] = x[0];
  } else {
    graft_load_wide(p, type, x);
  }
}

template <int W>
__device__ __forceinline__ void graft_store_group(char *p, int type, const float *x) {
  if (W == 1) {
    graft_store(p, type, x[0]);
  } else {
    graft_store_wide(p, type, x);
  }
}

// Where group |i| of the walk begins in each of N operands.
template <int N>
__device__ __forceinline__ void graft_walk_find(const graft_walk &walk, int64_t i, int64_t *offsets) {
#pragma unroll
  for (int k = 0; k < N; ++k) offsets[k] = 0;
  if (walk.rank == 1) {
#pragma unroll
    for (int k = 0; k < N; ++k) offsets[k] = i * walk.strides[k][0];
    return;
  }
  for (int d = 0; d < walk.rank; ++d) {
    int64_t rest, size = walk.shape[d];
    if ((i | size) >> 32 == 0) {
      rest = (uint32_t)i / (uint32_t)size;
    } else {
      rest = i / size;
    }
    const int64_t at = i - rest * size;
#pragma unroll
    for (int k = 0; k < N; ++k) offsets[k] += at * walk.strides[k][d];
    i = rest;
  }
}

__device__ __forceinline__ float graft_warp_sum(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
  return x;
}

__device__ __forceinline__ float graft_warp_max(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
  return x;
}

// The sum over all threads of a block (a multiple of 32, at most 1024), known to every thread. |shared| has 32 floats.
__device__ __forceinline__ float graft_block_sum(float x, float *shared) {
  x = graft_warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : 0.0f;
  return graft_warp_sum(x);
}

__device__ __forceinline__ float graft_block_max(float x, float *shared) {
  x = graft_warp_max(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : -INFINITY;
  return graft_warp_max(x);
}

__device__ __forceinline__ float graft_silu_of(float x) {
  return x / (1.0f + expf(-x));
}

// The same by the special function unit: exact enough for results of 16 bits.
__device__ __forceinline__ float graft_silu_fast(float x) {
  return __fdividef(x, 1.0f + __expf(-x));
}

#endif
