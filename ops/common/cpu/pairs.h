// pairs.h — two rows of bf16 elements become one of pairs, as the panels of graft_gemm_core__avx512_bf16 hold them.
#ifndef GRAFT_OPS_COMMON_CPU_PAIRS_H
#define GRAFT_OPS_COMMON_CPU_PAIRS_H

#include "ops/common/cpu/simd.h"

#if defined(__AVX512F__)
enum { PAIR_LANES = 2 * LANES };  // elements of a vector, and columns of that core's panels

typedef uint16_t vec_halves __attribute__((vector_size(2 * PAIR_LANES)));

// The elements |first| … |end| - 1, from 1 to PAIR_LANES, from |p| on, the others 0; their memory is not touched.
static inline vec_halves vec_load_halves(const uint16_t *p, int64_t first, int64_t end) {
  const __mmask32 lanes = UINT32_MAX << first & UINT32_MAX >> (PAIR_LANES - end);
  return (vec_halves)_mm512_maskz_loadu_epi16(lanes, p);
}

// even[0], odd[0], even[1], …: the first half of the pairs, and the second.
static inline vec_u32 vec_low_pairs(vec_halves even, vec_halves odd) {
  return (vec_u32)__builtin_shufflevector(even, odd, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8, 40, 9,
                                          41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
}

static inline vec_u32 vec_high_pairs(vec_halves even, vec_halves odd) {
  return (vec_u32)__builtin_shufflevector(even, odd, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55, 24,
                                          56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
}
#endif

#endif
