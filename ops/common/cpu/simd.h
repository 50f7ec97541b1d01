// simd.h — one float vector of the target's natural width: 16 lanes with AVX-512, 8 with AVX2, 4 otherwise. Everything
// is inline, so that each target's build of a kernel (target.h) gets its own; results of fused and unfused targets may
// differ in the last bits. Addresses need no alignment. Maths: vector_math.h.
#ifndef GRAFT_OPS_COMMON_CPU_SIMD_H
#define GRAFT_OPS_COMMON_CPU_SIMD_H

#include <string.h>

#include "graft/dtype.h"

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef double vec_f64 __attribute__((vector_size(8 * LANES)));
typedef int32_t vec_i32 __attribute__((vector_size(4 * LANES)));
typedef uint32_t vec_u32 __attribute__((vector_size(4 * LANES)));
typedef uint16_t vec_u16 __attribute__((vector_size(2 * LANES)));

static inline vec vec_all(float x) {
  return x - (vec){0};
}

static inline vec vec_load(const float *p) {
  vec v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline void vec_store(float *p, vec v) {
  memcpy(p, &v, sizeof v);
}

// The same past the caches, for results so large that they would only push out what is still needed (stream.h): nothing
// is read before it is written. |p| is aligned to the vector. vec_stream_end comes before anyone else may look.
static inline void vec_stream(float *p, vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, (__m128)v);
#else
  vec_store(p, v);
#endif
}

static inline void vec_stream_end(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

static inline void vec_store_or_stream(float *p, vec v, bool streams) {
  if (streams) vec_stream(p, v);
  else vec_store(p, v);
}

// Asks for what lies as far behind |p| as a row is long: the next row travels while this one is finished.
static inline void vec_fetch_next_row(const float *p, int64_t row_length) {
  __builtin_prefetch(p + row_length, 0, 2);
}

static inline float vec_load_one(const float *p) {
  float value;
  memcpy(&value, p, sizeof value);
  return value;
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// All bits set in the first |n| lanes.
static inline __m256i vec_first_lanes(int64_t n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n), lanes);
}
#endif

// The first |n| ≤ LANES floats; the other lanes are 0 and their memory is not touched.
static inline vec vec_load_n(const float *p, int64_t n) {
#if defined(__AVX512F__)
  return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
  return (vec)_mm256_maskload_ps(p, vec_first_lanes(n));
#else
  vec v = {0};
  memcpy(&v, p, (size_t)n * sizeof(float));
  return v;
#endif
}

// Stores the first |n| ≤ LANES lanes and touches no other memory.
static inline void vec_store_n(float *p, vec v, int64_t n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(p, vec_first_lanes(n), (__m256)v);
#else
  memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}

// a·b + c, fused where the target can.
static inline vec vec_madd(vec a, vec b, vec c) {
#if defined(__AVX512F__)
  return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && defined(__AVX2__)
  return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
  return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

// Lanes of |a| where |mask| has all bits set, of |b| where it has none. Comparisons of vectors make such masks.
static inline vec vec_select(vec_i32 mask, vec a, vec b) {
  return (vec)((mask & (vec_i32)a) | (~mask & (vec_i32)b));
}

// a < b ? a : b in each lane, hence |b| where either is NaN.
static inline vec vec_min(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
  return vec_select(a < b, a, b);
#endif
}

// a > b ? a : b in each lane, hence |b| where either is NaN.
static inline vec vec_max(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
  return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
  return vec_select(a > b, a, b);
#endif
}

static inline vec vec_abs(vec v) {
  return (vec)((vec_u32)v & 0x7fffffffu);
}

// |magnitude| (not negative) with the sign of |sign|.
static inline vec vec_with_sign(vec magnitude, vec sign) {
  return (vec)((vec_u32)magnitude | ((vec_u32)sign & 0x80000000u));
}

#if defined(__SSE2__)
static inline __m128 vec_fold_sum(vec v) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  return _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#else
  return (__m128)v;
#endif
}

static inline __m128 vec_fold_max(vec v) {
#if defined(__AVX512F__)
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
  return _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  return _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#else
  return (__m128)v;
#endif
}
#endif

// Sum of all lanes, by halves.
static inline float vec_reduce_sum(vec v) {
#if defined(__SSE2__)
  const __m128 four = vec_fold_sum(v), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// Largest lane; unspecified where lanes are NaN.
static inline float vec_reduce_max(vec v) {
#if defined(__SSE2__)
  const __m128 four = vec_fold_max(v), two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
#else
  const float even = v[0] > v[2] ? v[0] : v[2], odd = v[1] > v[3] ? v[1] : v[3];
  return even > odd ? even : odd;
#endif
}

// Bits of bf16 and f16 numbers, widened to 32 bits, from and to floats. Narrowing rounds to nearest, ties to even;
// finite values saturate, as in dtype.h, and NaN stays NaN.
static inline vec vec_from_bf16(vec_u32 bits) {
  return (vec)(bits << 16);
}

static inline vec_u32 vec_to_bf16(vec v) {
  const vec_u32 bits = (vec_u32)v, magnitude = bits & 0x7fffffffu;
  const vec_u32 is_nan = (vec_u32)(magnitude > 0x7f800000u), is_finite = (vec_u32)(magnitude < 0x7f800000u);
  const vec_u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // Only the largest finite values round up to infinity: one below it is the largest bf16.
  const vec_u32 overflows = is_finite & (vec_u32)((rounded & 0x7fffu) == 0x7f80u);
  return (is_nan & (bits >> 16 | 0x40u)) | (~is_nan & (rounded - (overflows & 1u)));
}

#if !defined(__AVX2__)
// Normal numbers are shifted and given the other bias; subnormal ones are made by taking away an implicit one.
static inline vec vec_from_f16(vec_u32 bits) {
  const vec_u32 sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu) << 13;
  const vec_u32 is_special = (vec_u32)(magnitude >= 31u << 23), is_small = (vec_u32)(magnitude < 1u << 23);
  const vec_u32 normal = magnitude + (112u << 23) + (is_special & (112u << 23));
  const vec small = (vec)(magnitude + (113u << 23)) - vec_all(0x1p-14f);
  return (vec)(sign | (is_small & (vec_u32)small) | (~is_small & normal));
}

static inline vec_u32 vec_to_f16(vec v) {
  const vec_u32 bits = (vec_u32)v, sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const vec_u32 is_special = (vec_u32)(magnitude >= 0x7f800000u), is_nan = (vec_u32)(magnitude > 0x7f800000u);
  const vec_u32 is_small = (vec_u32)(magnitude < 113u << 23);
  const vec_u32 special = 0x7c00u | (is_nan & (0x200u | (magnitude >> 13 & 0x3ffu)));
  // One unit of 0.5 is the smallest subnormal f16, so adding 0.5 rounds to a whole number of them.
  const vec_u32 small = (vec_u32)((vec)magnitude + 0.5f) - 0x3f000000u;
  const vec_u32 limited = (vec_u32)vec_min((vec)magnitude, vec_all(65504.0f));
  const vec_u32 normal = (limited - (112u << 23) + 0xfffu + (limited >> 13 & 1u)) >> 13;
  const vec_u32 finite = (is_small & small) | (~is_small & normal);
  return sign | (is_special & special) | (~is_special & finite);
}
#endif

static inline vec_u32 vec_widen_u16(const void *p) {
  vec_u16 v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, vec_u32);
}

static inline void vec_narrow_u16(void *p, vec_u32 bits) {
  const vec_u16 v = __builtin_convertvector(bits, vec_u16);
  memcpy(p, &v, sizeof v);
}

static inline vec vec_load_bf16(const void *p) {
  return vec_from_bf16(vec_widen_u16(p));
}
static inline void vec_store_bf16(void *p, vec v) {
  vec_narrow_u16(p, vec_to_bf16(v));
}

static inline vec vec_load_f16(const void *p) {
#if defined(__AVX512F__)
  return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__AVX2__)
  return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
  return vec_from_f16(vec_widen_u16(p));
#endif
}

static inline void vec_store_f16(void *p, vec v) {
#if defined(__AVX2__)
  const vec_i32 is_finite = (vec_i32)((vec_u32)vec_abs(v) < 0x7f800000u);
  const vec limited = vec_max(vec_all(-65504.0f), vec_min(vec_all(65504.0f), v));
  const vec kept = vec_select(is_finite, limited, v);
#endif
#if defined(__AVX512F__)
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)kept, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph((__m256)kept, _MM_FROUND_TO_NEAREST_INT));
#else
  vec_narrow_u16(p, vec_to_f16(v));
#endif
}

// Elements of dtype |type|, which is F32, F16 or BF16; with _n the first |n| ≤ LANES of them, as vec_load_n.
static inline vec vec_load_typed(const void *p, graft_dtype_code type) {
  if (type == GRAFT_DTYPE_BF16) return vec_load_bf16(p);
  if (type == GRAFT_DTYPE_F16) return vec_load_f16(p);
  return vec_load((const float *)p);
}

static inline vec vec_load_typed_n(const void *p, graft_dtype_code type, int64_t n) {
  if (type == GRAFT_DTYPE_F32) return vec_load_n((const float *)p, n);
  uint16_t halves[LANES] = {0};
  memcpy(halves, p, (size_t)n * sizeof halves[0]);
  return type == GRAFT_DTYPE_F16 ? vec_load_f16(halves) : vec_load_bf16(halves);
}

static inline void vec_store_typed(void *p, graft_dtype_code type, vec v) {
  if (type == GRAFT_DTYPE_BF16) {
    vec_store_bf16(p, v);
  } else if (type == GRAFT_DTYPE_F16) {
    vec_store_f16(p, v);
  } else {
    vec_store((float *)p, v);
  }
}

static inline void vec_store_typed_n(void *p, graft_dtype_code type, vec v, int64_t n) {
  if (type == GRAFT_DTYPE_F32) {
    vec_store_n((float *)p, v, n);
    return;
  }
  uint16_t halves[LANES];
  if (type == GRAFT_DTYPE_F16) {
    vec_store_f16(halves, v);
  } else {
    vec_store_bf16(halves, v);
  }
  memcpy(p, halves, (size_t)n * sizeof halves[0]);
}

// |n| elements to and from floats.
static inline void vec_load_typed_row(const void *p, graft_dtype_code type, float *out, int64_t n) {
  const char *source = (const char *)p;
  const int64_t bytes = type == GRAFT_DTYPE_F32 ? 4 : 2;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(out + i, vec_load_typed(source + i * bytes, type));
  if (i < n) vec_store_n(out + i, vec_load_typed_n(source + i * bytes, type, n - i), n - i);
}

static inline void vec_store_typed_row(void *p, graft_dtype_code type, const float *values, int64_t n) {
  char *target = (char *)p;
  const int64_t bytes = type == GRAFT_DTYPE_F32 ? 4 : 2;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store_typed(target + i * bytes, type, vec_load(values + i));
  if (i < n) vec_store_typed_n(target + i * bytes, type, vec_load_n(values + i, n - i), n - i);
}

#endif
