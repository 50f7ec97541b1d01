// gemm_vector.h — float vectors of the target's natural width: 16 lanes with AVX-512, 8 with AVX2, 4 otherwise.
#ifndef GRAFT_OPS_COMMON_CPU_GEMM_VECTOR_H
#define GRAFT_OPS_COMMON_CPU_GEMM_VECTOR_H

#include <string.h>

#include "graft/dtype.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

// Marks a loop of constant length whose array of vectors must become registers.
#if defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 16")
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t vec_i32 __attribute__((vector_size(4 * LANES)));
typedef uint32_t vec_u32 __attribute__((vector_size(4 * LANES)));
typedef uint16_t vec_u16 __attribute__((vector_size(2 * LANES)));

static inline vec vec_load(const float *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void vec_store(float *p, vec v) {
  memcpy(p, &v, sizeof v);
}

static inline vec vec_all(float x) {
  return x - (vec){0};
}

// a·b + c, fused where the target can.
static inline vec vec_madd(vec a, vec b, vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__ARM_NEON)
  return vfmaq_f32(c, a, b);
#else
  return a * b + c;
#endif
}

static inline vec_u32 vec_widen_u16(const uint16_t *p) {
  vec_u16 v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, vec_u32);
}

static inline vec vec_load_bf16(const uint16_t *p) {
  return (vec)(vec_widen_u16(p) << 16);
}

// Half precision by integer arithmetic: normal numbers are shifted and rebiased, subnormal ones are made by subtracting
// the implicit one, infinities and NaN get the full exponent.
static inline vec vec_from_f16_bits(vec_u32 h) {
  const vec_u32 sign = (h & 0x8000u) << 16, magnitude = (h & 0x7fffu) << 13;
  const vec_u32 normal = magnitude + (112u << 23) + ((vec_u32)(magnitude >= (31u << 23)) & (112u << 23));
  const vec subnormal = (vec)(magnitude + (113u << 23)) - (vec)((vec_u32){0} + (113u << 23));
  const vec_u32 is_small = (vec_u32)(magnitude < (1u << 23));
  return (vec)(sign | (is_small & (vec_u32)subnormal) | (~is_small & normal));
}

static inline vec vec_load_f16(const uint16_t *p) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
  return vec_from_f16_bits(vec_widen_u16(p));
#endif
}

static inline vec vec_load_typed(const void *p, graft_dtype_code type) {
  if (type == GRAFT_DTYPE_BF16) return vec_load_bf16(p);
  if (type == GRAFT_DTYPE_F16) return vec_load_f16(p);
  return vec_load(p);
}

static inline vec vec_select(vec_i32 mask, vec yes, vec no) {
  return (vec)((mask & (vec_i32)yes) | (~mask & (vec_i32)no));
}

static inline vec_u32 vec_select_u32(vec_i32 mask, vec_u32 yes, vec_u32 no) {
  return ((vec_u32)mask & yes) | (~(vec_u32)mask & no);
}

static inline vec vec_max(vec a, vec b) {
  return vec_select(a > b, a, b);
}
static inline vec vec_min(vec a, vec b) {
  return vec_select(a < b, a, b);
}

static inline void vec_store_u16(uint16_t *p, vec_u32 v) {
  const vec_u16 narrow = __builtin_convertvector(v, vec_u16);
  memcpy(p, &narrow, sizeof narrow);
}

// Rounds to nearest even; what is finite stays finite.
static inline void vec_store_bf16(uint16_t *p, vec v) {
  const vec_u32 bits = (vec_u32)v, magnitude = bits & 0x7fffffffu, cut = bits >> 16;
  const vec_u32 rounded = (bits + 0x7fffu + (cut & 1u)) >> 16;
  const vec_u32 quiet_nan = cut | 0x40u;
  vec_store_u16(
      p, vec_select_u32(magnitude > 0x7f800000u, quiet_nan, vec_select_u32(magnitude < 0x7f7f8000u, rounded, cut)));
}

// Likewise: from 65520 on, finite numbers become 65504.
static inline void vec_store_f16(uint16_t *p, vec v) {
  const vec_u32 sign = ((vec_u32)v >> 16) & 0x8000u, magnitude = (vec_u32)v & 0x7fffffffu;
  const vec_u32 finite = vec_select_u32(magnitude < 0x477fe000u, magnitude, (vec_u32){0} + 0x477fe000u);
  const vec_u32 normal = (finite + 0xc8000fffu + ((finite >> 13) & 1u)) >> 13;
  // Adding a half leaves the subnormal's bits, rounded, at the end of the significand.
  const vec_u32 subnormal = (vec_u32)((vec)finite + 0.5f) - 0x3f000000u;
  const vec_u32 number = vec_select_u32(finite < 0x38800000u, subnormal, normal);
  const vec_u32 special = vec_select_u32(magnitude > 0x7f800000u, (vec_u32){0} + 0x7e00u, (vec_u32){0} + 0x7c00u);
  vec_store_u16(p, sign | vec_select_u32(magnitude < 0x7f800000u, number, special));
}

// e^x within 1 ulp; 0 below the smallest normal number.
static inline vec vec_exp(vec x) {
  const vec to_integer = vec_all(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  const vec inside = vec_min(vec_max(x, vec_all(-87.33654f)), vec_all(89.0f));
  const vec shifted = vec_madd(inside, vec_all(1.44269504f), to_integer);
  const vec n = shifted - to_integer;
  vec r = vec_madd(n, vec_all(-0.693359375f), inside);
  r = vec_madd(n, vec_all(2.12194440e-4f), r);
  vec p = vec_madd(r, vec_all(0.0013926184f), vec_all(0.00836317893f));
  p = vec_madd(p, r, vec_all(0.0416665561f));
  p = vec_madd(p, r, vec_all(0.166665763f));
  p = vec_madd(p, r, vec_all(0.5f));
  p = vec_madd(p * r, r, r) + 1.0f;
  // 2^n in two factors, because 2^128 is no float.
  const vec power = (vec)(((vec_i32)shifted << 23) + (126 << 23));
  p = p * power * 2.0f;
  p = vec_select(x < -87.33654f, (vec){0}, p);
  return vec_select(x == x, p, x);
}

#if defined(__AVX512F__)
#define LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX2__)
#define LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES 0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif

// Transposes LANES vectors: each round interleaves the first half of them with the second.
static inline __attribute__((always_inline)) void vec_transpose(vec_u32 t[LANES]) {
  VEC_UNROLL
  for (int round = 1; round < LANES; round *= 2) {
    vec_u32 next[LANES];
    VEC_UNROLL
    for (int i = 0; i < LANES / 2; ++i) {
      next[2 * i] = __builtin_shufflevector(t[i], t[i + LANES / 2], LOW_HALVES);
      next[2 * i + 1] = __builtin_shufflevector(t[i], t[i + LANES / 2], HIGH_HALVES);
    }
    VEC_UNROLL
    for (int i = 0; i < LANES; ++i) t[i] = next[i];
  }
}

#endif
