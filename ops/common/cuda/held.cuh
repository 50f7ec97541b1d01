// held.cuh — eight elements of one float type that a thread fetches early and uses late. They are fetched in groups of
// sixteen bytes, and neighbouring threads have neighbouring groups. The type is known to the compiler: f32, f16, bf16.
#ifndef GRAFT_OPS_COMMON_CUDA_HELD_CUH
#define GRAFT_OPS_COMMON_CUDA_HELD_CUH

#include "ops/common/cuda/scalar.cuh"

template <int TYPE>
struct graft_group {
  static constexpr int BYTES = TYPE == GRAFT_DTYPE_F32 ? 4 : 2;  // of an element
  static constexpr int WIDTH = 16 / BYTES;                       // elements of a group
  static constexpr int IN_EIGHT = 8 / WIDTH;                     // groups of eight elements
};

// N groups of sixteen bytes as numbers.
template <int TYPE, int N>
__device__ __forceinline__ void graft_spread(const uint4 (&bits)[N], float (&x)[N * graft_group<TYPE>::WIDTH]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const uint32_t words[4] = {bits[i].x, bits[i].y, bits[i].z, bits[i].w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (TYPE == GRAFT_DTYPE_F32) {
        x[i * 4 + w] = __uint_as_float(words[w]);
      } else if (TYPE == GRAFT_DTYPE_BF16) {
        x[i * 8 + w * 2] = __uint_as_float(words[w] << 16);
        x[i * 8 + w * 2 + 1] = __uint_as_float(words[w] & 0xffff0000u);
      } else {
        const float2 two = __half22float2(*(const __half2 *)&words[w]);
        x[i * 8 + w * 2] = two.x;
        x[i * 8 + w * 2 + 1] = two.y;
      }
    }
  }
}

// The numbers of one group as its sixteen bytes. Few are so large that they need to be saturated.
template <int TYPE>
__device__ __forceinline__ uint4 graft_gather(const float *x) {
  if constexpr (TYPE == GRAFT_DTYPE_F32) {
    return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
  } else {
    constexpr bool IS_BF16 = TYPE == GRAFT_DTYPE_BF16;
    uint32_t v[4];
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(x[i]));
    if (largest <= (IS_BF16 ? 3.38953139e38f : 65504.0f)) {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = graft_pair_of<IS_BF16>(x[2 * i], x[2 * i + 1]);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = graft_to_pair<IS_BF16>(x[2 * i], x[2 * i + 1]);
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
  }
}

#endif
