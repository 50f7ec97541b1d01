#include "ops/common/cpu/quantize.h"

#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"
#include "ops/common/hadamard.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 16")
#endif

enum { SIXTEENTH = 16 / LANES };  // vectors that hold sixteen floats

typedef int8_t vec_i8 __attribute__((vector_size(LANES)));

// Stage of the rotation over quads of vectors.
ALWAYS_INLINE void mix(vec *x0, vec *x1, vec *x2, vec *x3) {
  const vec a = *x0 + *x1, b = *x0 - *x1, c = *x2 + *x3, d = *x2 - *x3;
  *x0 = a + d;
  *x1 = a - d;
  *x2 = c + b;
  *x3 = c - b;
}

#if defined(__AVX512F__)
#define PAIRS_SWAPPED 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define EVENS_TWICE 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14
#define OTHER_ODDS_TWICE 3, 3, 1, 1, 7, 7, 5, 5, 11, 11, 9, 9, 15, 15, 13, 13
#define ODDS 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1
#elif defined(__AVX2__)
#define PAIRS_SWAPPED 1, 0, 3, 2, 5, 4, 7, 6
#define EVENS_TWICE 0, 0, 2, 2, 4, 4, 6, 6
#define OTHER_ODDS_TWICE 3, 3, 1, 1, 7, 7, 5, 5
#define ODDS 0, 1, 0, 1, 0, 1, 0, 1
#else
#define PAIRS_SWAPPED 1, 0, 3, 2
#define EVENS_TWICE 0, 0, 2, 2
#define OTHER_ODDS_TWICE 3, 3, 1, 1
#define ODDS 0, 1, 0, 1
#endif

// Negates the lanes where |lanes| is 1.
ALWAYS_INLINE vec negate(vec v, vec_u32 lanes) {
  return (vec)((vec_u32)v ^ lanes << 31);
}

// The stage with stride 1, within a vector: first (a, b, c, d), then their sums and differences.
ALWAYS_INLINE vec mix_lanes(vec v) {
  const vec u = __builtin_shufflevector(v, v, PAIRS_SWAPPED) + negate(v, (vec_u32){ODDS});
  const vec last = __builtin_shufflevector(u, u, OTHER_ODDS_TWICE);
  return __builtin_shufflevector(u, u, EVENS_TWICE) + negate(last, (vec_u32){ODDS});
}

// The stage with stride 4 over sixteen floats.
ALWAYS_INLINE void mix_quads(vec v[SIXTEENTH]) {
#if defined(__AVX512F__)
  const vec_u32 odds = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1};
  const vec u =
      __builtin_shufflevector(v[0], v[0], 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11) + negate(v[0], odds);
  const vec last = __builtin_shufflevector(u, u, 12, 13, 14, 15, 12, 13, 14, 15, 4, 5, 6, 7, 4, 5, 6, 7);
  v[0] = __builtin_shufflevector(u, u, 0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11) + negate(last, odds);
#elif defined(__AVX2__)
  const vec_u32 odds = {0, 0, 0, 0, 1, 1, 1, 1};
  const vec ab = __builtin_shufflevector(v[0], v[0], 4, 5, 6, 7, 0, 1, 2, 3) + negate(v[0], odds);
  const vec cd = __builtin_shufflevector(v[1], v[1], 4, 5, 6, 7, 0, 1, 2, 3) + negate(v[1], odds);
  const vec b = __builtin_shufflevector(ab, ab, 4, 5, 6, 7, 4, 5, 6, 7);
  const vec d = __builtin_shufflevector(cd, cd, 4, 5, 6, 7, 4, 5, 6, 7);
  v[0] = __builtin_shufflevector(ab, ab, 0, 1, 2, 3, 0, 1, 2, 3) + negate(d, odds);
  v[1] = __builtin_shufflevector(cd, cd, 0, 1, 2, 3, 0, 1, 2, 3) + negate(b, odds);
#else
  mix(&v[0], &v[1], &v[2], &v[3]);
#endif
}

ALWAYS_INLINE vec load(const graft_quantize_row *row, int64_t i) {
  return vec_load_typed((const char *)row->x + i * (row->type == GRAFT_DTYPE_F32 ? 4 : 2), row->type);
}

// Copies |row| from element |i| on, the last vector padded with zeros.
static void copy_rest(const graft_quantize_row *row, int64_t i, bool mixes) {
  for (; i < row->n; i += LANES) {
    const int64_t left = row->n - i;
    const char *x = (const char *)row->x + i * (row->type == GRAFT_DTYPE_F32 ? 4 : 2);
    const vec v = left < LANES ? vec_load_typed_n(x, row->type, left) : vec_load_typed(x, row->type);
    vec_store(row->scratch + i, mixes ? mix_lanes(v) : v);
  }
}

// The first two stages.
static void rotate_sixteens(const graft_quantize_row *row) {
  for (int64_t i = 0; i < row->n; i += 16) {
    vec v[SIXTEENTH];
    VEC_UNROLL
    for (int k = 0; k < SIXTEENTH; ++k) v[k] = mix_lanes(load(row, i + k * LANES));
    mix_quads(v);
    VEC_UNROLL
    for (int k = 0; k < SIXTEENTH; ++k) vec_store(row->scratch + i + k * LANES, v[k]);
  }
}

// Two stages over sixteen vectors that lie |stride| apart.
ALWAYS_INLINE void mix_both(vec v[16]) {
  VEC_UNROLL
  for (int k = 0; k < 16; k += 4) mix(&v[k], &v[k + 1], &v[k + 2], &v[k + 3]);
  VEC_UNROLL
  for (int k = 0; k < 4; ++k) mix(&v[k], &v[k + 4], &v[k + 8], &v[k + 12]);
}

#if defined(__AVX512F__)
// The first four stages in registers.
static void rotate_256(const graft_quantize_row *row) {
  for (int64_t i = 0; i < row->n; i += 256) {
    vec v[16];
    VEC_UNROLL
    for (int k = 0; k < 16; ++k) {
      v[k] = mix_lanes(load(row, i + k * LANES));
      mix_quads(&v[k]);
    }
    mix_both(v);
    VEC_UNROLL
    for (int k = 0; k < 16; ++k) vec_store(row->scratch + i + k * LANES, v[k]);
  }
}
#endif

// The stages with |stride| and four times that, in place.
static void rotate_twice(float *x, int64_t n, int64_t stride) {
  for (int64_t first = 0; first < n; first += 16 * stride) {
    for (int64_t i = first; i < first + stride; i += LANES) {
      vec v[16];
      VEC_UNROLL
      for (int k = 0; k < 16; ++k) v[k] = vec_load(x + i + k * stride);
      mix_both(v);
      VEC_UNROLL
      for (int k = 0; k < 16; ++k) vec_store(x + i + k * stride, v[k]);
    }
  }
}

static void rotate_once(float *x, int64_t n, int64_t stride) {
  for (int64_t first = 0; first < n; first += 4 * stride) {
    for (int64_t i = first; i < first + stride; i += LANES) {
      vec v[4];
      VEC_UNROLL
      for (int k = 0; k < 4; ++k) v[k] = vec_load(x + i + k * stride);
      mix(&v[0], &v[1], &v[2], &v[3]);
      VEC_UNROLL
      for (int k = 0; k < 4; ++k) vec_store(x + i + k * stride, v[k]);
    }
  }
}

// Copies the row into scratch, rotated but for the factor.
static void rotate(const graft_quantize_row *row) {
  if (row->group < 16) {
    copy_rest(row, 0, row->group == 4);
    return;
  }
  int64_t stride = 16;
#if defined(__AVX512F__)
  if (row->group >= 256) {
    rotate_256(row);
    stride = 256;
  } else {
    rotate_sixteens(row);
  }
#else
  rotate_sixteens(row);
#endif
  for (; 16 * stride <= row->group; stride *= 16) rotate_twice(row->scratch, row->n, stride);
  if (stride < row->group) rotate_once(row->scratch, row->n, stride);
}

// Absolute values are ordered like their bits, infinity and NaN last.
static float largest(const float *x, int64_t n) {
  vec_i32 most[2] = {{0}, {0}};
  for (int64_t i = 0; i < n; i += LANES) {
    const vec_i32 v = (vec_i32)vec_abs(vec_load(x + i));
    vec_i32 *m = &most[i / LANES % 2];
    const vec_i32 is_larger = v > *m;
    *m = (v & is_larger) | (*m & ~is_larger);
  }
  int32_t bits = 0;
  for (int k = 0; k < LANES; ++k) {
    for (int j = 0; j < 2; ++j) bits = most[j][k] > bits ? most[j][k] : bits;
  }
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// Nearest integers, ties to even, of numbers within ±128: they are the low bytes of sums with 1.5 · 2^23.
ALWAYS_INLINE void store_bytes(int8_t *q, vec y, int64_t left) {
  const vec_i8 bytes = __builtin_convertvector((vec_i32)(y + vec_all(12582912.0f)), vec_i8);
  memcpy(q, &bytes, left < LANES ? (size_t)left : sizeof bytes);
}

static void round_f32(const graft_quantize_row *row, float factor, float scale) {
  for (int64_t i = 0; i < row->n; i += LANES) {
    store_bytes(row->q + i, vec_load(row->scratch + i) * factor / scale, row->n - i);
  }
}

ALWAYS_INLINE vec to_bf16(vec v) {
  return vec_from_bf16(vec_to_bf16(v));
}

static void round_bf16(const graft_quantize_row *row, float scale) {
  const vec divisor = to_bf16(vec_all(scale));
  for (int64_t i = 0; i < row->n; i += LANES) {
    const vec y = to_bf16(vec_load(row->scratch + i) / divisor);
    store_bytes(row->q + i, vec_min(y, vec_all(127)), row->n - i);
  }
}

static void quantize_row(const graft_quantize_row *row) {
  const float factor = graft_hadamard_factor(row->group);
  rotate(row);
  if (row->has_bf16_grid) {
    for (int64_t i = 0; i < row->n; i += LANES) {
      vec_store(row->scratch + i, to_bf16(vec_load(row->scratch + i) * factor));
    }
  }
  const float most = largest(row->scratch, row->n) * (row->has_bf16_grid ? 1 : factor);
  if (!(most < __builtin_inff())) {
    memset(row->q, 0, (size_t)row->n);
    *row->scale = __builtin_nanf("");
    return;
  }
  const float wanted = most / 127, scale = wanted > 1e-30f ? wanted : 1e-30f;
  *row->scale = scale;
  if (row->has_bf16_grid) round_bf16(row, scale);
  else round_f32(row, factor, scale);
}

const graft_quantize_core GRAFT_TARGETED(graft_quantize_core) = {.row = quantize_row};
