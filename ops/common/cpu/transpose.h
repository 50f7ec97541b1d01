// transpose.h — squares of LANES × LANES elements of 32 bits, turned in registers.
#ifndef GRAFT_OPS_COMMON_CPU_TRANSPOSE_H
#define GRAFT_OPS_COMMON_CPU_TRANSPOSE_H

#include "ops/common/cpu/unroll.h"

#if defined(__AVX512F__)
#define VEC_LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define VEC_HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define VEC_LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define VEC_HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define VEC_LOW_HALVES 0, 4, 1, 5
#define VEC_HIGH_HALVES 2, 6, 3, 7
#endif

// Transposes LANES vectors: each round interleaves the first half of them with the second.
ALWAYS_INLINE void vec_transpose(vec_u32 t[LANES]) {
  VEC_UNROLL
  for (int round = 1; round < LANES; round *= 2) {
    vec_u32 next[LANES];
    VEC_UNROLL
    for (int i = 0; i < LANES / 2; ++i) {
      next[2 * i] = __builtin_shufflevector(t[i], t[i + LANES / 2], VEC_LOW_HALVES);
      next[2 * i + 1] = __builtin_shufflevector(t[i], t[i + LANES / 2], VEC_HIGH_HALVES);
    }
    VEC_UNROLL
    for (int i = 0; i < LANES; ++i) t[i] = next[i];
  }
}

#endif
