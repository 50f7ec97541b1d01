// Products of 2 × 8 and 8 × 2 bytes, an extension of arm64: a vector of sums is two rows by two columns.
#include "ops/common/cpu/gemm_i8.h"

#if defined(__aarch64__)
#include "ops/common/cpu/unroll.h"

#define CORE graft_gemm_i8_core__i8mm
#define CORE_BETTER NULL
#if defined(__clang__)
#define CORE_TARGET __attribute__((target("i8mm")))
#else
#define CORE_TARGET __attribute__((target("arch=armv8.2-a+i8mm")))
#endif
#define CORE_LAYOUT "i8x8 by 8"
#define CORE_ROWS 8
enum { CORE_REQUIRES = GRAFT_CPU_NEON_I8MM };
enum { VECTORS = 4, PANEL = 8, GROUP = 8, PAIR = 2, A_BYTES = 1, IS_UNSIGNED = 0, BEGINS_WITH_SUMS = 0 };
typedef int32x4_t sums;
typedef int8x16_t terms;
typedef int8_t a_element;

ALWAYS_INLINE terms load_b(const int8_t *b) {
  return vld1q_s8(b);
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  return vld1q_s8(a);
}
CORE_TARGET ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return vmmlaq_s32(sum, a, b);
}
ALWAYS_INLINE void in_order(const sums pair[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < VECTORS / 2; ++j) {
    const int64x2_t left = vreinterpretq_s64_s32(pair[2 * j]), right = vreinterpretq_s64_s32(pair[2 * j + 1]);
    out[0][j] = (vec_u32)vzip1q_s64(left, right);
    out[1][j] = (vec_u32)vzip2q_s64(left, right);
  }
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#include "ops/common/cpu/gemm_i8_tile.h"
#endif
