// The products of bytes that AVX-512 has, for processors that have them without it.
#include "ops/common/cpu/gemm_i8.h"
#include "ops/common/cpu/unroll.h"

#define CORE graft_gemm_i8_core__avx_vnni
#define CORE_BETTER NULL
#define CORE_TARGET __attribute__((target("avxvnni")))
#define CORE_LAYOUT "i8x16+starts"
#define CORE_ROWS 6
enum { CORE_REQUIRES = GRAFT_CPU_AVX2 | GRAFT_CPU_AVX_VNNI };
enum { VECTORS = 2, PANEL = 16, GROUP = 4, PAIR = 1, A_BYTES = 1, IS_UNSIGNED = 1, BEGINS_WITH_SUMS = 1 };
typedef vec_i32 sums;
typedef vec_i32 terms;
typedef uint8_t a_element;

CORE_TARGET ALWAYS_INLINE terms load_b(const int8_t *b) {
  return (terms)_mm256_loadu_si256((const __m256i *)(const void *)b);
}
CORE_TARGET ALWAYS_INLINE terms load_a(const a_element *a) {
  int32_t four;
  memcpy(&four, a, sizeof four);
  return (terms)_mm256_set1_epi32(four);
}
CORE_TARGET ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return (sums)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < VECTORS; ++j) out[0][j] = (vec_u32)row[j];
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return (a_element)((uint8_t)x ^ 0x80u);
}

#include "ops/common/cpu/gemm_i8_tile.h"
