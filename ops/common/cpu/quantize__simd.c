#include "ops/common/cpu/quantize.h"

#include "ops/common/cpu/pairs.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/unroll.h"
#include "ops/common/hadamard.h"

enum { SIXTEENTH = 16 / LANES };  // vectors that hold sixteen floats
enum { ROUND_BLOCK = 256 };       // elements that are rounded together

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
#define ODDS_NEGATIVE 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1
#elif defined(__AVX2__)
#define PAIRS_SWAPPED 1, 0, 3, 2, 5, 4, 7, 6
#define EVENS_TWICE 0, 0, 2, 2, 4, 4, 6, 6
#define OTHER_ODDS_TWICE 3, 3, 1, 1, 7, 7, 5, 5
#define ODDS_NEGATIVE 1, -1, 1, -1, 1, -1, 1, -1
#else
#define PAIRS_SWAPPED 1, 0, 3, 2
#define EVENS_TWICE 0, 0, 2, 2
#define OTHER_ODDS_TWICE 3, 3, 1, 1
#define ODDS_NEGATIVE 1, -1, 1, -1
#endif

// sum + v, but sum - v where |signs| is -1: a product with 1 or -1 is exact, fused or not.
ALWAYS_INLINE vec add_signed(vec sum, vec v, vec signs) {
  return vec_madd(v, signs, sum);
}

// The stage with stride 1, within a vector: first (a, b, c, d), then their sums and differences.
ALWAYS_INLINE vec mix_lanes(vec v) {
  const vec signs = {ODDS_NEGATIVE}, u = add_signed(__builtin_shufflevector(v, v, PAIRS_SWAPPED), v, signs);
  const vec last = __builtin_shufflevector(u, u, OTHER_ODDS_TWICE);
  return add_signed(__builtin_shufflevector(u, u, EVENS_TWICE), last, signs);
}

// The stages with strides 1 and 4 over sixteen floats. AVX-512 leaves them twisted, which takes one shuffle less for
// each stage: of four elements, and of four quads, the second comes last, and the fourth comes third and negative.
// Later stages go from vector to vector and take no notice; rounding puts elements where they belong.
#if defined(__AVX512F__)
#define QUADS(a, b, c, d)                                                                                  \
  4 * (a), 4 * (a) + 1, 4 * (a) + 2, 4 * (a) + 3, 4 * (b), 4 * (b) + 1, 4 * (b) + 2, 4 * (b) + 3, 4 * (c), \
      4 * (c) + 1, 4 * (c) + 2, 4 * (c) + 3, 4 * (d), 4 * (d) + 1, 4 * (d) + 2, 4 * (d) + 3

ALWAYS_INLINE void mix_sixteen(vec v[SIXTEENTH]) {
  const vec odds = {ODDS_NEGATIVE}, last_two = {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1};
  const vec odd_quads = {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1};
  const vec last_quads = {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
  vec u = add_signed(__builtin_shufflevector(*v, *v, PAIRS_SWAPPED), *v, odds);
  u = add_signed(__builtin_shufflevector(u, u, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12), u, last_two);
  u = add_signed(__builtin_shufflevector(u, u, QUADS(1, 0, 3, 2)), u, odd_quads);
  *v = add_signed(__builtin_shufflevector(u, u, QUADS(3, 2, 1, 0)), u, last_quads);
}
#else
ALWAYS_INLINE void mix_sixteen(vec v[SIXTEENTH]) {
  VEC_UNROLL
  for (int k = 0; k < SIXTEENTH; ++k) v[k] = mix_lanes(v[k]);
#if defined(__AVX2__)
  const vec signs = {1, 1, 1, 1, -1, -1, -1, -1};
  const vec ab = add_signed(__builtin_shufflevector(v[0], v[0], 4, 5, 6, 7, 0, 1, 2, 3), v[0], signs);
  const vec cd = add_signed(__builtin_shufflevector(v[1], v[1], 4, 5, 6, 7, 0, 1, 2, 3), v[1], signs);
  const vec b = __builtin_shufflevector(ab, ab, 4, 5, 6, 7, 4, 5, 6, 7);
  const vec d = __builtin_shufflevector(cd, cd, 4, 5, 6, 7, 4, 5, 6, 7);
  v[0] = add_signed(__builtin_shufflevector(ab, ab, 0, 1, 2, 3, 0, 1, 2, 3), d, signs);
  v[1] = add_signed(__builtin_shufflevector(cd, cd, 0, 1, 2, 3, 0, 1, 2, 3), b, signs);
#else
  mix(&v[0], &v[1], &v[2], &v[3]);
#endif
}
#endif

ALWAYS_INLINE vec load(const graft_quantize_row *row, const graft_dtype_code type, int64_t i) {
  return vec_load_typed((const char *)row->x + i * (type == GRAFT_DTYPE_F32 ? 4 : 2), type);
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
ALWAYS_INLINE void rotate_sixteens(const graft_quantize_row *row, const graft_dtype_code type) {
  for (int64_t i = 0; i < row->n; i += 16) {
    vec v[SIXTEENTH];
    VEC_UNROLL
    for (int k = 0; k < SIXTEENTH; ++k) v[k] = load(row, type, i + k * LANES);
    mix_sixteen(v);
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

ALWAYS_INLINE vec_i32 larger(vec_i32 a, vec_i32 b) {
#if defined(__AVX512F__)
  return (vec_i32)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (vec_i32)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
  const vec_i32 is_larger = a > b;
  return (a & is_larger) | (b & ~is_larger);
#endif
}

// Absolute values are ordered like their bits, infinity and NaN last.
ALWAYS_INLINE vec_i32 with_magnitude(vec_i32 most, vec v) {
  return larger((vec_i32)vec_abs(v), most);
}

// Rows mostly follow each other: asks for the part of the next one, or of what it will be made of, that begins with
// element |first|. Little by little, because only so many lines can be on their way.
ALWAYS_INLINE void fetch_next(const graft_quantize_row *row, const graft_dtype_code type, int64_t first, int64_t n) {
  const bool is_made = row->x == row->scratch;
  if (is_made && !row->ahead) return;
  const int64_t element = type == GRAFT_DTYPE_F32 ? 4 : 2;
  const char *next = is_made ? (const char *)row->ahead : (const char *)row->x + row->n * element;
  for (int64_t byte = 0; byte < n * element; byte += 64) __builtin_prefetch(next + first * element + byte, 0, 2);
}

#if defined(__AVX512F__)
// The same of two vectors at once. Where one of them holds NaN, only the other counts.
ALWAYS_INLINE vec_i32 with_magnitudes(vec_i32 most, vec v, vec w) {
  enum { LARGER_MAGNITUDE_WITHOUT_SIGN = 11 };
  return larger((vec_i32)vec_abs((vec)_mm512_range_ps((__m512)v, (__m512)w, LARGER_MAGNITUDE_WITHOUT_SIGN)), most);
}

// All stages of groups of 16 · |vectors| floats, 64 or 256, in registers. Returns the largest magnitudes. What is not
// finite before the last stage is in all that comes out of it, and of a sum and a difference that the last stage takes
// too far one is infinite: NaN may be looked for in pairs that it makes.
ALWAYS_INLINE vec_i32 rotate_group(const graft_quantize_row *row, const graft_dtype_code type, const int vectors) {
  vec_i32 most = {0};
  for (int64_t i = 0; i < row->n; i += vectors * LANES) {
    vec v[16];
    fetch_next(row, type, i / 2, vectors * LANES / 2);
    VEC_UNROLL
    for (int k = 0; k < vectors; ++k) {
      v[k] = load(row, type, i + k * LANES);
      mix_sixteen(&v[k]);
    }
    if (vectors == 16) mix_both(v);
    else mix(&v[0], &v[1], &v[2], &v[3]);
    VEC_UNROLL
    for (int k = 0; k < vectors; ++k) vec_store(row->scratch + i + k * LANES, v[k]);
    const int pair = vectors / 4;
    VEC_UNROLL
    for (int k = 0; k < vectors / 2; ++k) {
      const int first = k % pair + k / pair * 2 * pair;
      most = with_magnitudes(most, v[first], v[first + pair]);
    }
  }
  return most;
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

static int32_t largest(vec_i32 most) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_epi32((__m512i)most);
#else
  int32_t bits = 0;
  for (int k = 0; k < LANES; ++k) bits = most[k] > bits ? most[k] : bits;
  return bits;
#endif
}

static float float_of(int32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The largest magnitudes of |n| floats.
static vec_i32 find_most(const float *x, int64_t n) {
  vec_i32 even = {0}, odd = {0};
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    even = with_magnitude(even, vec_load(x + i));
    odd = with_magnitude(odd, vec_load(x + i + LANES));
  }
  for (; i < n; i += LANES) even = with_magnitude(even, vec_load(x + i));
  return larger(even, odd);
}

// Copies the row into scratch, rotated but for the factor, and returns its largest magnitudes. The type is a constant
// once inlined.
ALWAYS_INLINE vec_i32 rotate_as(const graft_quantize_row *row, const graft_dtype_code type) {
  if (row->group < 16) {
    copy_rest(row, 0, row->group == 4);
    return find_most(row->scratch, row->n);
  }
#if defined(__AVX512F__)
  if (row->group == 64) return rotate_group(row, type, 4);
  if (row->group == 256) return rotate_group(row, type, 16);
#endif
  rotate_sixteens(row, type);
  int64_t stride = 16;
  for (; 16 * stride <= row->group; stride *= 16) rotate_twice(row->scratch, row->n, stride);
  if (stride < row->group) rotate_once(row->scratch, row->n, stride);
  return find_most(row->scratch, row->n);
}

static int32_t rotate(const graft_quantize_row *row) {
  vec_i32 most;
  if (row->type == GRAFT_DTYPE_F32) most = rotate_as(row, GRAFT_DTYPE_F32);
  else if (row->type == GRAFT_DTYPE_BF16) most = rotate_as(row, GRAFT_DTYPE_BF16);
  else most = rotate_as(row, GRAFT_DTYPE_F16);
  return largest(most);
}

// The low byte of a number within ±128 plus 1.5 · 2^23 is the nearest integer, ties to even.
static const float ROUNDER = 12582912.0f;

ALWAYS_INLINE vec_i8 low_bytes(vec_i32 v) {
#if defined(__AVX512F__)
  return (vec_i8)_mm512_cvtepi32_epi8((__m512i)v);
#elif defined(__AVX2__)
  const __m256i first_bytes = _mm256_set1_epi32(0x0c080400);
  const __m256i quads = _mm256_shuffle_epi8((__m256i)v, first_bytes);
  const __m256i together = _mm256_permutevar8x32_epi32(quads, _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
  vec_i8 bytes;
  memcpy(&bytes, &together, sizeof bytes);
  return bytes;
#else
  return __builtin_convertvector(v, vec_i8);
#endif
}

ALWAYS_INLINE void store_rounded(int8_t *q, vec sum, int64_t left) {
  const vec_i8 bytes = low_bytes((vec_i32)sum);
  if (left < LANES) memcpy(q, &bytes, (size_t)left);
  else memcpy(q, &bytes, sizeof bytes);
}

ALWAYS_INLINE void store_bytes(int8_t *q, vec y, int64_t left) {
  store_rounded(q, y + vec_all(ROUNDER), left);
}

static void divide_f32(const graft_quantize_row *row, int64_t i, int64_t end, float factor, float scale) {
  for (; i < end; i += LANES) store_bytes(row->q + i, vec_load(row->scratch + i) * factor / scale, row->n - i);
}

// Rounds elements |first| … |end| - 1 and returns how far they were from whole numbers.
ALWAYS_INLINE vec round_block(const graft_quantize_row *row, int64_t first, int64_t end, vec reciprocal) {
  const vec rounder = vec_all(ROUNDER);
  vec farthest = {0};
  for (int64_t i = first; i < end; i += LANES) {
    const vec y = vec_load(row->scratch + i) * reciprocal, sum = y + rounder;
    farthest = vec_max(farthest, vec_abs(y - (sum - rounder)));
    store_rounded(row->q + i, sum, row->n - i);
  }
  return farthest;
}

// Asks for the part of the next row that lies as far within its second half as elements |first| … |end| - 1 within this
// row; the first half was asked for while this row was rotated.
ALWAYS_INLINE void fetch_second_half(const graft_quantize_row *row, int64_t first, int64_t end) {
  if (row->type == GRAFT_DTYPE_F32) fetch_next(row, GRAFT_DTYPE_F32, (row->n + first) / 2, (end - first) / 2);
  else fetch_next(row, GRAFT_DTYPE_BF16, (row->n + first) / 2, (end - first) / 2);
}

#if defined(__AVX512F__)
// Where elements are in a twisted vector, and their signs there.
#define TWISTED 0, 3, 1, 2, 12, 15, 13, 14, 4, 7, 5, 6, 8, 11, 9, 10
static const vec twisted_signs = {1, 1, -1, 1, 1, 1, -1, 1, -1, -1, 1, -1, 1, 1, -1, 1};

static bool is_twisted(const graft_quantize_row *row) {
  return row->group >= 16;
}

static void untwist(const graft_quantize_row *row) {
  if (!is_twisted(row)) return;
  for (int64_t i = 0; i < row->n; i += LANES) {
    const vec v = vec_load(row->scratch + i) * twisted_signs;
    vec_store(row->scratch + i, __builtin_shufflevector(v, v, TWISTED));
  }
}

// The low bytes of sums with ROUNDER, in order, where |lanes| says where the elements of a vector are.
ALWAYS_INLINE __m512i low_bytes_of_four(const vec_i32 sum[4], vec_u16 lanes) {
  const vec_u16 even = 2 * lanes;
  const __m512i words = _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)even), (__m256i)(even + 32), 1);
  const __m512i first = _mm512_permutex2var_epi16((__m512i)sum[0], words, (__m512i)sum[1]);
  const __m512i second = _mm512_permutex2var_epi16((__m512i)sum[2], words, (__m512i)sum[3]);
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return _mm512_permutexvar_epi64(order, _mm512_packs_epi16(first, second));
}

// Whole lines of results. Divisions take long, so elements are multiplied with the reciprocal: once a little smaller,
// once a little larger than it can be. Where both round to the same number the quotient does; else it is divided.
ALWAYS_INLINE void round_lines(const graft_quantize_row *row, float factor, float scale, const bool streams) {
  const vec_u16 straight = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, twisted = {TWISTED};
  const vec_u16 lanes = is_twisted(row) ? twisted : straight;
  const vec signs = is_twisted(row) ? twisted_signs : vec_all(1), rounder = vec_all(ROUNDER);
  const vec least = signs * (factor / scale * (1 - 0x1p-22f)), most = signs * (factor / scale * (1 + 0x1p-22f));
  for (int64_t i = 0; i < row->n; i += 4 * LANES) {
    vec_i32 sum[4], differences = {0};
    fetch_second_half(row, i, i + 4 * LANES);
    VEC_UNROLL
    for (int k = 0; k < 4; ++k) {
      const vec x = vec_load(row->scratch + i + k * LANES);
      sum[k] = (vec_i32)vec_madd(x, least, rounder);
      differences |= sum[k] ^ (vec_i32)vec_madd(x, most, rounder);
    }
    if (_mm512_test_epi32_mask((__m512i)differences, (__m512i)differences) != 0) {
      for (int k = 0; k < 4; ++k) {
        sum[k] = (vec_i32)(vec_load(row->scratch + i + k * LANES) * signs * factor / scale + rounder);
      }
    }
    const __m512i line = low_bytes_of_four(sum, lanes);
    if (streams) _mm512_stream_si512((__m512i *)(void *)(row->q + i), line);
    else _mm512_storeu_si512(row->q + i, line);
  }
}
#else
static void untwist(const graft_quantize_row *row) {
  (void)row;
}
#endif

// The product with the reciprocal is off by less than 3 units in the last place of 127, which shows only next to a tie:
// blocks with an element so near to one are divided.
static const float NEAR_TIE = 0.49995f;

static void round_f32(const graft_quantize_row *row, float factor, float scale) {
  const bool is_precise = scale <= 0x1p100f;  // beyond that the reciprocal would lose digits
#if defined(__AVX512F__)
  if (is_precise && row->n % (4 * LANES) == 0) {
    if (row->streams) round_lines(row, factor, scale, true);
    else round_lines(row, factor, scale, false);
    return;
  }
#endif
  untwist(row);
  if (!is_precise) {
    divide_f32(row, 0, row->n, factor, scale);
    return;
  }
  const vec reciprocal = vec_all(factor / scale);
  for (int64_t first = 0; first < row->n; first += ROUND_BLOCK) {
    const int64_t end = row->n - first < ROUND_BLOCK ? row->n : first + ROUND_BLOCK;
    fetch_second_half(row, first, end);
    const vec farthest = round_block(row, first, end, reciprocal);
    if (vec_reduce_max(farthest) > NEAR_TIE) divide_f32(row, first, end, factor, scale);
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

static float round_to_grid(const graft_quantize_row *row, float factor) {
  untwist(row);
  for (int64_t i = 0; i < row->n; i += LANES) {
    vec_store(row->scratch + i, to_bf16(vec_load(row->scratch + i) * factor));
  }
  return float_of(largest(find_most(row->scratch, row->n)));
}

static void round_row(const graft_quantize_row *row, int32_t most_bits) {
  const float factor = graft_hadamard_factor(row->group);
  float most = float_of(most_bits) * factor;
  if (row->has_bf16_grid) most = round_to_grid(row, factor);
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

static void quantize_row(const graft_quantize_row *row) {
  round_row(row, rotate(row));
}

const graft_quantize_core GRAFT_TARGETED(graft_quantize_core) = {
    .row = quantize_row, .rotate = rotate, .round = round_row};
