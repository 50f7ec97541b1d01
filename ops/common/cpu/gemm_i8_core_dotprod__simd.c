// Dot products of four bytes, an extension of arm64.
#include "ops/common/cpu/gemm_i8.h"

#if defined(__aarch64__)
#include "ops/common/cpu/unroll.h"

#define CORE graft_gemm_i8_core__dotprod
#define CORE_BETTER &graft_gemm_i8_core__i8mm
#if defined(__clang__)
#define CORE_TARGET __attribute__((target("dotprod")))
#else
#define CORE_TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#endif
#define CORE_LAYOUT "i8x16"
#define CORE_ROWS 6
enum { CORE_REQUIRES = GRAFT_CPU_NEON_DOTPROD };
enum { VECTORS = 4, PANEL = 16, GROUP = 4, PAIR = 1, A_BYTES = 1, IS_UNSIGNED = 0, BEGINS_WITH_SUMS = 1 };
typedef int32x4_t sums;
typedef int8x16_t terms;
typedef int8_t a_element;

ALWAYS_INLINE terms load_b(const int8_t *b) {
  return vld1q_s8(b);
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  int32_t four;
  memcpy(&four, a, sizeof four);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
CORE_TARGET ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return vdotq_s32(sum, a, b);
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < VECTORS; ++j) out[0][j] = (vec_u32)row[j];
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#include "ops/common/cpu/gemm_i8_tile.h"
#endif
