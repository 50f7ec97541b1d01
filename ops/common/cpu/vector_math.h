// vector_math.h — exponential and its relatives on vectors: unless said otherwise within 2 units in the last place
// of the true value for every float, subnormal results, infinities and NaN included (tests/simd measures it).
// Polynomials are minimax fits.
#ifndef GRAFT_OPS_COMMON_CPU_VECTOR_MATH_H
#define GRAFT_OPS_COMMON_CPU_VECTOR_MATH_H

#include "ops/common/cpu/simd.h"

// |coefficients|, constant term first, evaluated at |x|.
static inline __attribute__((always_inline)) vec vec_polynomial(vec x, const float *coefficients, int32_t n) {
  vec sum = vec_all(coefficients[n - 1]);
  for (int32_t i = n - 2; i >= 0; --i) sum = vec_madd(sum, x, vec_all(coefficients[i]));
  return sum;
}

// v · 2^k for whole k in [-252, 254], rounded once: each factor is a normal number, and only the second can round.
// AVX-512 takes the floor of |k|.
static inline vec vec_scale_by_power(vec v, vec k) {
#if defined(__AVX512F__)
  return (vec)_mm512_scalef_ps((__m512)v, (__m512)k);
#else
  const vec_i32 whole = __builtin_convertvector(k, vec_i32), half = whole >> 1;
  return v * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
#endif
}

// x as far as |bound| > 0 in either direction. With AVX-512 NaN becomes a bound.
static inline vec vec_clamp(vec x, float bound) {
#if defined(__AVX512F__)
  enum { SMALLER_MAGNITUDE_WITH_FIRST_SIGN = 2 };
  return (vec)_mm512_range_ps((__m512)x, _mm512_set1_ps(bound), SMALLER_MAGNITUDE_WITH_FIRST_SIGN);
#else
  return vec_max(vec_all(-bound), vec_min(vec_all(bound), x));
#endif
}

// Beyond this in either direction e^x is 0 or infinite.
enum { VEC_EXP_BOUND = 128 };

// How e^x = 2^k · e^r is made: |k| is a whole number of 1/VEC_EXP_PARTS, and ln 2 is split so that k·high is exact.
// vec_exp_join gets k as a float and, in the last bits of |bits|, k·VEC_EXP_PARTS as an integer.
#if defined(__AVX512F__)
enum { VEC_EXP_PARTS = 16 };
static const float vec_ln2_high = 0x1.62ep-1f, vec_ln2_low = 0x1.0bfbe8p-15f;

// Registers hold 2^(i/16), so that a short polynomial does for the rest, and what rounding left of them.
static inline __attribute__((always_inline)) vec vec_exp_join(vec r, vec k, vec bits, bool is_precise) {
  // clang-format off
  static const float powers[] = {
      0x1p0f,        0x1.0b5586p0f, 0x1.172b84p0f, 0x1.2387a6p0f, 0x1.306fep0f,  0x1.3dea64p0f, 0x1.4bfdaep0f,
      0x1.5ab07ep0f, 0x1.6a09e6p0f, 0x1.7a1148p0f, 0x1.8ace54p0f, 0x1.9c4918p0f, 0x1.ae89fap0f, 0x1.c199bep0f,
      0x1.d5818ep0f, 0x1.ea4afap0f};
  static const float left[] = {
      0,                0x1.9f3122p-25f, -0x1.c15742p-27f, 0x1.ceac48p-25f, 0x1.4636e2p-25f,  0x1.824684p-25f,
      -0x1.593abcp-25f, -0x1.5bd5ecp-27f, 0x1.9fcef4p-26f, -0x1.829fdp-25f, 0x1.15506ep-27f,  0x1.51f848p-27f,
      -0x1.a94b14p-26f, -0x1.3d56b2p-27f, -0x1.822dbcp-27f, 0x1.52486cp-27f};
  // clang-format on
  const vec power = (vec)_mm512_permutexvar_ps((__m512i)bits, _mm512_loadu_ps(powers));
  const vec beyond_1 = vec_madd(vec_madd(r, vec_all(0x1.555556p-3f), vec_all(0x1.000220p-1f)), r * r, r);
  if (!is_precise) return vec_scale_by_power(vec_madd(power, beyond_1, power), k);
  const vec rest = (vec)_mm512_permutexvar_ps((__m512i)bits, _mm512_loadu_ps(left));
  return vec_scale_by_power(vec_madd(power, beyond_1, rest) + power, k);
}
#else
enum { VEC_EXP_PARTS = 1 };
static const float vec_ln2_high = 0x1.63p-1f, vec_ln2_low = -0x1.bd0106p-13f;

static inline __attribute__((always_inline)) vec vec_exp_join(vec r, vec k, vec bits, bool is_precise) {
  (void)bits, (void)is_precise;
  static const float tail[] = {0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.555858p-5f, 0x1.123dep-7f, 0x1.6ac71p-10f};
  return vec_scale_by_power(vec_madd(r * r, vec_polynomial(r, tail, 5), r) + 1.0f, k);
}
#endif

// e^x for |x| ≤ VEC_EXP_BOUND or NaN, within 1 unit, or better when |is_precise|; e^(x + rest) when |rest|, which
// rounding x left over, is not NULL.
static inline __attribute__((always_inline)) vec vec_exp_bounded(vec x, const vec *rest, bool is_precise) {
  // Adding and subtracting this rounds to a whole number of parts.
  const vec magic = vec_all(0x1.8p23f / VEC_EXP_PARTS), bits = vec_madd(x, vec_all(0x1.715476p0f), magic);
  const vec k = bits - magic;
  vec r = vec_madd(k, vec_all(-vec_ln2_low), vec_madd(k, vec_all(-vec_ln2_high), x));
  // What x within its bounds can leave over; keeps the rest of a huge or infinite x, even NaN, out of the result.
  if (rest) r += vec_max(vec_min(*rest, vec_all(0x1p-18f)), vec_all(-0x1p-18f));
  return vec_exp_join(r, k, bits, is_precise);
}

// The same for every x.
static inline __attribute__((always_inline)) vec vec_exp_with(vec x, const vec *rest, bool is_precise) {
  // NaN passes through.
  const vec bounded = vec_max(vec_all(-VEC_EXP_BOUND), vec_min(vec_all(VEC_EXP_BOUND), x));
  return vec_exp_bounded(bounded, rest, is_precise);
}

static inline vec vec_exp(vec x) {
  return vec_exp_with(x, NULL, false);
}

// 2^x for x ≤ 1; where that is no normal number, 0 or a subnormal one. 2^0 is exactly 1. NaN passes through.
static inline __attribute__((always_inline)) vec vec_power_of_two(vec x) {
#if defined(__AVX512F__)
  // What is above the floor of x, 0 for infinity; the last instruction takes the floor itself. Next to 1 that is
  // rounded, so the polynomial, which leaves out a term that would cost time, is nearest there.
  const vec f = (vec)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  vec p = vec_madd(f, vec_all(0x1.f3020cp-10f), vec_all(0x1.248ep-7f));
  p = vec_madd(p, f, vec_all(0x1.c9ba5ep-5f));
  p = vec_madd(p, f, vec_all(0x1.ebce38p-3f));
  p = vec_madd(p, f, vec_all(0x1.62e512p-1f));
  return (vec)_mm512_scalef_ps((__m512)vec_madd(p, f, vec_all(1)), (__m512)x);
#else
  // Adding and subtracting 1.5 · 2^23 rounds to a whole number.
  const vec magic = vec_all(0x1.8p23f), clamped = vec_max(vec_all(-126.0f), x), whole = clamped + magic - magic;
  const vec f = x - whole;
  vec p = vec_madd(f, vec_all(0x1.470b48p-13f), vec_all(0x1.5f7276p-10f));
  p = vec_madd(p, f, vec_all(0x1.3b270ep-7f));
  p = vec_madd(p, f, vec_all(0x1.c6ae72p-5f));
  p = vec_madd(p, f, vec_all(0x1.ebfbe2p-3f));
  p = vec_madd(p, f, vec_all(0x1.62e432p-1f));
  p = vec_madd(p, f, vec_all(1));
  const vec scaled = p * (vec)((__builtin_convertvector(whole, vec_i32) + 127) << 23);
  return vec_select(x < -126.0f, (vec){0}, scaled);
#endif
}

// 1 / (1 + e^-x) for x + |rest|, if that is not NULL. With z = e^-|x| it is 1 - z/(1 + z), or z times that for negative
// x, so that small results keep their digits.
static inline __attribute__((always_inline)) vec vec_sigmoid_with(vec x, const vec *rest) {
  const vec one = vec_all(1.0f);
  vec toward_zero;
  if (rest) toward_zero = (vec)((vec_u32)*rest ^ (~(vec_u32)x & 0x80000000u));
  const vec z = vec_exp_with(-vec_abs(x), rest ? &toward_zero : NULL, true);
  const vec factor = vec_select(x < 0.0f, z, one);
  return vec_madd(-factor, z / (one + z), factor);
}

static inline vec vec_sigmoid(vec x) {
  return vec_sigmoid_with(x, NULL);
}

// v / (1 + e^-x), within 3 units where x ≥ -88.7; below, where e^-x is larger than every float, ±0. NaN only in |v| is
// sure to pass through.
static inline vec vec_times_sigmoid(vec v, vec x) {
  const vec bounded = vec_clamp(-x, VEC_EXP_BOUND);
  return v / (1.0f + vec_exp_bounded(bounded, NULL, false));
}

static inline vec vec_silu(vec x) {
  return vec_times_sigmoid(x, x);
}

// *x as the nearest float and what that leaves over.
static inline vec vec_split(const vec_f64 *x, vec *out_rest) {
  const vec nearest = __builtin_convertvector(*x, vec);
  *out_rest = __builtin_convertvector(*x - __builtin_convertvector(nearest, vec_f64), vec);
  return nearest;
}

// The share of a normal distribution below x: (1 + erf(x/√2))/2, within 8 units in the last place. Small shares keep
// their digits, for they are e^(-x²/2)·q·P(q) with q = 1/(1 + 9/32·|x|).
static inline vec vec_normal_share(vec x) {
  static const float scaled[] = {0x1.cba67ep-4f,  0x1.c9fe9cp-4f, 0x1.b70eeap-4f,  0x1.04bff2p-4f, 0x1.1c9182p-3f,
                                 -0x1.2a610ep-3f, 0x1.1b8eb4p-2f, -0x1.f97a18p-3f, 0x1.87d468p-4f, -0x1.c77f2p-7f};
  const vec_f64 wide = __builtin_convertvector(x, vec_f64), halved = wide * wide * -0.5;
  vec rest;
  const vec exponent = vec_split(&halved, &rest);
  const vec q = 1.0f / (1.0f + 0.28125f * vec_abs(x));
  const vec tail = vec_exp_with(exponent, &rest, true) * (q * vec_polynomial(q, scaled, 10));
  return vec_select(x < 0.0f, tail, 1.0f - tail);
}

static inline vec vec_tanh(vec x) {
  static const float small_tail[] = {-0x1.555532p-2f, 0x1.1106f6p-3f, -0x1.b835a4p-5f, 0x1.51f8cep-6f, -0x1.750ce4p-8f};
  const vec a = vec_abs(x), s = a * a;
  const vec small = vec_madd(a * s, vec_polynomial(s, small_tail, 5), a);
  const vec large = 1.0f - 2.0f / (vec_exp(a + a) + 1.0f);
  return vec_with_sign(vec_select(a < 0.625f, small, large), x);
}

// Error function: x + x·P(x²) near 0, else 1 - e^Q(|x|), where Q is the logarithm of the complement.
static inline vec vec_erf(vec x) {
  static const float small_tail[] = {0x1.06eba8p-3f, -0x1.81274p-2f,  0x1.ce2d64p-4f, -0x1.b80124p-6f,
                                     0x1.544b08p-8f, -0x1.a6181p-11f, 0x1.4fa924p-14f};
  static const float log_complement[] = {-0x1.b22b6ap-13f, -0x1.20ac3p+0f,  -0x1.4647bp-1f, -0x1.a9657cp-4f,
                                         0x1.6b8f4p-6f,    -0x1.8da36ap-9f, 0x1.98d808p-13f};
  const vec a = vec_abs(x), s = a * a;
  const vec small = vec_madd(a, vec_polynomial(s, small_tail, 7), a);
  // From 4 on the result rounds to 1.
  const vec large = 1.0f - vec_exp(vec_polynomial(vec_min(vec_all(4.0f), a), log_complement, 7));
  return vec_with_sign(vec_select(a < 0.93f, small, large), x);
}

#endif
