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
static inline vec vec_scale_by_power(vec v, vec k) {
#if defined(__AVX512F__)
  return (vec)_mm512_scalef_ps((__m512)v, (__m512)k);
#else
  const vec_i32 whole = __builtin_convertvector(k, vec_i32), half = whole >> 1;
  return v * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
#endif
}

// e^(x + rest), where |rest| is what rounding x left over; only e^x when not |has_rest|.
static inline __attribute__((always_inline)) vec vec_exp_with(vec x, vec rest, bool has_rest) {
  static const float tail[] = {0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.555858p-5f, 0x1.123dep-7f, 0x1.6ac71p-10f};
  // Beyond these bounds the result is 0 or infinite; NaN passes through.
  x = vec_max(vec_all(-104.0f), vec_min(vec_all(89.0f), x));
  // x = k·ln 2 + r. Adding and subtracting 1.5·2^23 rounds to a whole number; ln 2 is split so that k·high is exact.
  const vec magic = vec_all(0x1.8p23f);
  const vec k = vec_madd(x, vec_all(0x1.715476p0f), magic) - magic;
  vec r = vec_madd(k, vec_all(-0x1.63p-1f), x);
  r = vec_madd(k, vec_all(0x1.bd0106p-13f), r);
  // What x within its bounds can leave over; keeps the rest of a huge or infinite x, even NaN, out of the result.
  if (has_rest) r += vec_max(vec_min(rest, vec_all(0x1p-18f)), vec_all(-0x1p-18f));
  const vec p = vec_madd(r * r, vec_polynomial(r, tail, 5), r) + 1.0f;
  return vec_scale_by_power(p, k);
}

static inline vec vec_exp(vec x) {
  return vec_exp_with(x, x, false);
}

// 1 / (1 + e^-x) for x + |rest|. With z = e^-|x| it is 1 - z/(1 + z), or z times that for negative x, so that small
// results keep their digits.
static inline __attribute__((always_inline)) vec vec_sigmoid_with(vec x, vec rest, bool has_rest) {
  const vec one = vec_all(1.0f), toward_zero = (vec)((vec_u32)rest ^ (~(vec_u32)x & 0x80000000u));
  const vec z = vec_exp_with(-vec_abs(x), toward_zero, has_rest);
  const vec factor = vec_select(x < 0.0f, z, one);
  return vec_madd(-factor, z / (one + z), factor);
}

static inline vec vec_sigmoid(vec x) {
  return vec_sigmoid_with(x, x, false);
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
  const vec tail = vec_exp_with(exponent, rest, true) * (q * vec_polynomial(q, scaled, 10));
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
