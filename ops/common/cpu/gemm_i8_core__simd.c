#include "ops/common/cpu/gemm_i8.h"
#include "ops/common/cpu/unroll.h"

#define CORE GRAFT_TARGETED(graft_gemm_i8_core)
#define CORE_BETTER NULL

#if defined(__AVX512F__)

#define CORE_TARGET __attribute__((target("avx512vnni")))
#define CORE_LAYOUT "i8x32+starts"
#define CORE_ROWS 14
enum { CORE_REQUIRES = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_VNNI };
enum { VECTORS = 2, PANEL = 32, GROUP = 4, PAIR = 1, A_BYTES = 1, IS_UNSIGNED = 1, BEGINS_WITH_SUMS = 1 };
typedef vec_i32 sums;
typedef vec_i32 terms;
typedef uint8_t a_element;

CORE_TARGET ALWAYS_INLINE terms load_b(const int8_t *b) {
  return (terms)_mm512_loadu_si512(b);
}
CORE_TARGET ALWAYS_INLINE terms load_a(const a_element *a) {
  int32_t four;
  memcpy(&four, a, sizeof four);
  return (terms)_mm512_set1_epi32(four);
}
CORE_TARGET ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return (sums)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < VECTORS; ++j) out[0][j] = (vec_u32)row[j];
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return (a_element)((uint8_t)x ^ 0x80u);
}

#elif defined(__AVX2__)

#undef CORE_BETTER
#define CORE_BETTER &graft_gemm_i8_core__avx_vnni
#define CORE_TARGET
#define CORE_LAYOUT "i8x8"
#define CORE_ROWS 6
enum { CORE_REQUIRES = GRAFT_CPU_AVX2 };
enum { VECTORS = 2, PANEL = 8, GROUP = 4, PAIR = 1, A_BYTES = 2, IS_UNSIGNED = 0, BEGINS_WITH_SUMS = 0 };
typedef vec_i32 sums;
typedef vec_i32 terms;
typedef int16_t a_element;

// Four columns, widened to 16 bits: products of bytes as such would saturate, and splitting them so that they do not
// takes as many instructions.
ALWAYS_INLINE terms load_b(const int8_t *b) {
  return (terms)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  int64_t four;
  memcpy(&four, a, sizeof four);
  return (terms)_mm256_set1_epi64x(four);
}
ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return (sums)((vec_u32)sum + (vec_u32)_mm256_madd_epi16((__m256i)a, (__m256i)b));
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  out[0][0] = (vec_u32)_mm256_permute4x64_epi64(_mm256_hadd_epi32((__m256i)row[0], (__m256i)row[1]), 0xd8);
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#elif defined(__SSE2__)

#define CORE_TARGET
#define CORE_LAYOUT "i8x8"
#define CORE_ROWS 2
enum { CORE_REQUIRES = 0 };
enum { VECTORS = 4, PANEL = 8, GROUP = 4, PAIR = 1, A_BYTES = 2, IS_UNSIGNED = 0, BEGINS_WITH_SUMS = 0 };
typedef vec_i32 sums;
typedef vec_i32 terms;
typedef int16_t a_element;

ALWAYS_INLINE terms load_b(const int8_t *b) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)b);
  return (terms)_mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  int64_t four;
  memcpy(&four, a, sizeof four);
  return (terms)_mm_set1_epi64x(four);
}
ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return (sums)((vec_u32)sum + (vec_u32)_mm_madd_epi16((__m128i)a, (__m128i)b));
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < 2; ++j) {
    const vec_u32 low = (vec_u32)row[2 * j], high = (vec_u32)row[2 * j + 1];
    out[0][j] = __builtin_shufflevector(low, high, 0, 2, 4, 6) + __builtin_shufflevector(low, high, 1, 3, 5, 7);
  }
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#elif defined(__ARM_NEON)

#undef CORE_BETTER
#define CORE_BETTER &graft_gemm_i8_core__dotprod
#define CORE_TARGET
#define CORE_LAYOUT "i8x8"
#define CORE_ROWS 4
enum { CORE_REQUIRES = 0 };
enum { VECTORS = 4, PANEL = 8, GROUP = 4, PAIR = 1, A_BYTES = 1, IS_UNSIGNED = 0, BEGINS_WITH_SUMS = 0 };
typedef int32x4_t sums;
typedef int8x8_t terms;
typedef int8_t a_element;

ALWAYS_INLINE terms load_b(const int8_t *b) {
  return vld1_s8(b);
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  int32_t four;
  memcpy(&four, a, sizeof four);
  return vreinterpret_s8_s32(vdup_n_s32(four));
}
ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return vpadalq_s16(sum, vmull_s8(a, b));
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < 2; ++j) out[0][j] = (vec_u32)vpaddq_s32(row[2 * j], row[2 * j + 1]);
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#else

#define CORE_TARGET
#define CORE_LAYOUT "i8x4"
#define CORE_ROWS 2
enum { CORE_REQUIRES = 0 };
enum { VECTORS = 4, PANEL = 4, GROUP = 4, PAIR = 1, A_BYTES = 1, IS_UNSIGNED = 0, BEGINS_WITH_SUMS = 0 };
typedef uint32_t sums;
typedef const int8_t *terms;
typedef int8_t a_element;

ALWAYS_INLINE terms load_b(const int8_t *b) {
  return b;
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  return a;
}
ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  for (int i = 0; i < 4; ++i) sum += (uint32_t)(a[i] * b[i]);
  return sum;
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PAIR][PANEL / LANES]) {
  for (int j = 0; j < VECTORS; ++j) out[0][0][j] = row[j];
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#endif

#include "ops/common/cpu/gemm_i8_tile.h"
