#include "ops/common/cpu/gemm_i8.h"
#include "ops/common/cpu/simd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 16")
#endif

// What a target brings: a vector of sums, four terms of several columns of B, four terms of a row of A, their product,
// and the sums of a row of the tile in the order of columns.
#if defined(__AVX512F__)

#define CORE_TARGET __attribute__((target("avx512vnni")))
#define CORE_LAYOUT "i8x32+starts"
enum { ROWS = 14, VECTORS = 2, PANEL = 32, IS_UNSIGNED = 1, A_BYTES = 1, BEGINS_WITH_SUMS = 1 };
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
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < VECTORS; ++j) out[j] = (vec_u32)row[j];
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return (a_element)((uint8_t)x ^ 0x80u);
}

#elif defined(__AVX2__)

#define CORE_TARGET
#define CORE_LAYOUT "i8x8"
enum { ROWS = 6, VECTORS = 2, PANEL = 8, IS_UNSIGNED = 0, A_BYTES = 2, BEGINS_WITH_SUMS = 0 };
typedef __m256i sums;
typedef __m256i terms;
typedef int16_t a_element;

// Four columns, widened to 16 bits: products of bytes as such would saturate.
ALWAYS_INLINE terms load_b(const int8_t *b) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  int64_t four;
  memcpy(&four, a, sizeof four);
  return _mm256_set1_epi64x(four);
}
ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PANEL / LANES]) {
  out[0] = (vec_u32)_mm256_permute4x64_epi64(_mm256_hadd_epi32(row[0], row[1]), 0xd8);
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#elif defined(__SSE2__)

#define CORE_TARGET
#define CORE_LAYOUT "i8x8"
enum { ROWS = 2, VECTORS = 4, PANEL = 8, IS_UNSIGNED = 0, A_BYTES = 2, BEGINS_WITH_SUMS = 0 };
typedef __m128i sums;
typedef __m128i terms;
typedef int16_t a_element;

ALWAYS_INLINE terms load_b(const int8_t *b) {
  const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)b);
  return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
ALWAYS_INLINE terms load_a(const a_element *a) {
  int64_t four;
  memcpy(&four, a, sizeof four);
  return _mm_set1_epi64x(four);
}
ALWAYS_INLINE sums add_products(sums sum, terms a, terms b) {
  return _mm_add_epi32(sum, _mm_madd_epi16(a, b));
}
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < 2; ++j) {
    const __m128 low = _mm_castsi128_ps(row[2 * j]), high = _mm_castsi128_ps(row[2 * j + 1]);
    const __m128 even = _mm_shuffle_ps(low, high, 0x88), odd = _mm_shuffle_ps(low, high, 0xdd);
    out[j] = (vec_u32)_mm_castps_si128(even) + (vec_u32)_mm_castps_si128(odd);
  }
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#elif defined(__ARM_NEON)

#define CORE_TARGET
#define CORE_LAYOUT "i8x8"
enum { ROWS = 4, VECTORS = 4, PANEL = 8, IS_UNSIGNED = 0, A_BYTES = 1, BEGINS_WITH_SUMS = 0 };
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
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < 2; ++j) out[j] = (vec_u32)vpaddq_s32(row[2 * j], row[2 * j + 1]);
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#else

#define CORE_TARGET
#define CORE_LAYOUT "i8x4"
enum { ROWS = 2, VECTORS = 4, PANEL = 4, IS_UNSIGNED = 0, A_BYTES = 1, BEGINS_WITH_SUMS = 0 };
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
ALWAYS_INLINE void in_order(const sums row[VECTORS], vec_u32 out[PANEL / LANES]) {
  for (int j = 0; j < VECTORS; ++j) out[0][j] = row[j];
}
ALWAYS_INLINE a_element to_a(int8_t x) {
  return x;
}

#endif

enum { VECTOR_BYTES = 4 * PANEL / VECTORS };  // of B that one vector of sums goes with

// Keeps the compiler from working out the addresses of all rows at once, for which there are no registers.
#define HIDE(pointer) __asm__("" : "+r"(pointer))

ALWAYS_INLINE void add_sums(const int32_t *before, vec_u32 row[PANEL / LANES]) {
  VEC_UNROLL
  for (int j = 0; j < PANEL / LANES; ++j) {
    vec_u32 old;
    memcpy(&old, before + j * LANES, sizeof old);
    row[j] += old;
  }
}

ALWAYS_INLINE void store_direct(const vec_u32 row[PANEL / LANES], vec x, const float *w, const float *bias,
                                float *out) {
  VEC_UNROLL
  for (int j = 0; j < PANEL / LANES; ++j) {
    vec v = __builtin_convertvector((vec_i32)row[j], vec) * x * vec_load(w + j * LANES);
    if (bias) v += vec_load(bias + j * LANES);
    vec_store(out + j * LANES, v);
  }
}

// Adds what sums begin with, where they did not, and stores them.
ALWAYS_INLINE void finish_tile(const graft_gemm_i8_strip *s, const sums sum[ROWS][VECTORS], const int rows,
                               int64_t column) {
  static const int32_t nothing[PANEL] = {0};
  const size_t c_stride = s->c_stride, before_stride = s->accumulate ? c_stride : 0;
  const int32_t *before = s->accumulate ? s->c + column : s->start ? s->start + column : nothing;
  const graft_gemm_i8_direct *d = &s->direct;
  if (d->out && column + PANEL <= s->columns) {
    const float *x = d->x, *w = d->w + column, *bias = d->bias ? d->bias + column : NULL;
    const int64_t x_step = d->x_step;
    const size_t out_stride = d->out_stride;
    float *out = d->out + column;
    VEC_UNROLL
    for (int i = 0; i < rows; ++i) {
      vec_u32 row[PANEL / LANES];
      in_order(sum[i], row);
      if (!BEGINS_WITH_SUMS) add_sums(before, row);
      store_direct(row, vec_all(*x), w, bias, out);
      before += before_stride;
      x += x_step;
      out += out_stride;
      HIDE(before);
      HIDE(x);
      HIDE(out);
    }
    return;
  }
  int32_t *c = s->c + column;
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    vec_u32 row[PANEL / LANES];
    in_order(sum[i], row);
    if (!BEGINS_WITH_SUMS) add_sums(before, row);
    VEC_UNROLL
    for (int j = 0; j < PANEL / LANES; ++j) memcpy(c + j * LANES, &row[j], sizeof row[j]);
    before += before_stride;
    c += c_stride;
    HIDE(before);
    HIDE(c);
  }
}

ALWAYS_INLINE void begin_tile(const graft_gemm_i8_strip *s, sums sum[ROWS][VECTORS], const int rows, int64_t column) {
  static const int32_t nothing[PANEL] = {0};
  const size_t stride = s->accumulate ? s->c_stride : 0;
  const int32_t *before = s->accumulate ? s->c + column : s->start ? s->start + column : nothing;
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) {
      sum[i][j] = (sums){0};
      if (BEGINS_WITH_SUMS) memcpy(&sum[i][j], before + j * LANES, sizeof sum[i][j]);
    }
    before += stride;
    HIDE(before);
  }
}

// One tile of |rows| × PANEL sums; rows is a constant once inlined. Fetches the panel at |next| in step.
CORE_TARGET ALWAYS_INLINE void multiply_tile(const graft_gemm_i8_strip *s, const int rows, int64_t column,
                                             const int8_t *next) {
  const int8_t *b = s->b + (size_t)(column / PANEL) * s->panel_stride;
  const a_element *a = (const a_element *)s->a;
  sums sum[ROWS][VECTORS];
  begin_tile(s, sum, rows, column);
  for (int32_t p = 0; p < s->groups; ++p) {
    terms bj[VECTORS];
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) bj[j] = load_b(b + j * VECTOR_BYTES);
    VEC_UNROLL
    for (int i = 0; i < rows; ++i) {
      const terms ai = load_a(a + i * GRAFT_GEMM_I8_A_STRIDE);
      VEC_UNROLL
      for (int j = 0; j < VECTORS; ++j) sum[i][j] = add_products(sum[i][j], ai, bj[j]);
    }
    for (int byte = 0; byte < 4 * PANEL; byte += 64) __builtin_prefetch(next + byte, 0, 2);
    a += 4;
    b += 4 * PANEL;
    next += 4 * PANEL;
  }
  finish_tile(s, sum, rows, column);
}

CORE_TARGET ALWAYS_INLINE void multiply_strip(const graft_gemm_i8_strip *s, const int rows) {
  const int64_t panels = (s->columns + PANEL - 1) / PANEL;
  for (int64_t i = 0; i < panels; ++i) {
    for (int j = 0; j < 2; ++j) graft_gemm_fetch_ahead(&s->ahead[j], i, panels);
    const int8_t *b = s->b + (size_t)i * s->panel_stride, *next = i + 1 < panels ? b + s->panel_stride : s->next_b;
    multiply_tile(s, rows, i * PANEL, s->next_b ? next : b);
  }
}

#define STRIP(rows)                                                       \
  CORE_TARGET static void multiply_##rows(const graft_gemm_i8_strip *s) { \
    multiply_strip(s, rows);                                              \
  }

STRIP(1)
STRIP(2)
#if defined(__AVX2__) || defined(__ARM_NEON)
STRIP(3)
STRIP(4)
#endif
#if defined(__AVX2__)
STRIP(5)
STRIP(6)
#endif
#if defined(__AVX512F__)
STRIP(7)
STRIP(8)
STRIP(9)
STRIP(10)
STRIP(11)
STRIP(12)
STRIP(13)
STRIP(14)
#endif

static void multiply(const graft_gemm_i8_strip *s) {
  typedef void strip_fn(const graft_gemm_i8_strip *);
  static strip_fn *const table[ROWS] = {
    multiply_1,
    multiply_2,
#if defined(__AVX2__) || defined(__ARM_NEON)
    multiply_3,
    multiply_4,
#endif
#if defined(__AVX2__)
    multiply_5,
    multiply_6,
#endif
#if defined(__AVX512F__)
    multiply_7,
    multiply_8,
    multiply_9,
    multiply_10,
    multiply_11,
    multiply_12,
    multiply_13,
    multiply_14,
#endif
  };
  table[s->rows - 1](s);
}

static void load_row(const int8_t *restrict from, int64_t n, a_element *restrict to) {
  for (int64_t p = 0; p < n; ++p) to[p] = to_a(from[p]);
  for (int64_t p = n; p % 4 != 0; ++p) to[p] = 0;
}

static void load_rows(const int8_t *a, int64_t a_stride, const graft_gemm_block *block, void *out) {
  a_element *to = out;
  const int8_t *from = a + block->row * a_stride + block->column;
  for (int64_t i = 0; i < block->rows; ++i)
    load_row(from + i * a_stride, block->columns, to + i * GRAFT_GEMM_I8_A_STRIDE);
}

// Number |j| of the row and its neighbours: scales, or one value repeated.
ALWAYS_INLINE vec column_scales(const graft_gemm_i8_scales *s, int64_t column, int64_t left) {
  if (!s->w) return vec_all(1);
  if (s->w_step == 0) return vec_all(s->w[0]);
  return left < LANES ? vec_load_n(s->w + column, left) : vec_load(s->w + column);
}

ALWAYS_INLINE vec round_to(vec v, graft_dtype_code type) {
  if (type == GRAFT_DTYPE_BF16) return vec_from_bf16(vec_to_bf16(v));
  if (type != GRAFT_DTYPE_F16) return v;
  uint16_t halves[LANES];
  vec_store_f16(halves, v);
  return vec_load_f16(halves);
}

ALWAYS_INLINE vec in_comfy_order(const graft_gemm_i8_scales *s, vec sum, vec scale, int64_t column, int64_t left) {
  const vec v = round_to(sum * scale, s->rounding);
  if (!s->bias.data) return v;
  const char *bias = (const char *)s->bias.data + column * graft_gemm_element_bytes(s->bias.type);
  const int64_t n = left < LANES ? left : LANES;
  return v + round_to(vec_load_typed_n(bias, s->bias.type, n), s->rounding);
}

static void dequantize_row(const graft_gemm_i8_scales *s, const graft_gemm_block *block, float x, const int64_t *wide,
                           int32_t *c) {
  const vec row_scale = vec_all(x);
  for (int64_t j = 0; j < block->columns; j += LANES) {
    const int64_t left = block->columns - j, column = block->column + j;
    vec_i32 sum;
    memcpy(&sum, c + j, sizeof sum);
    vec v = __builtin_convertvector(sum, vec);
    for (int64_t i = 0; wide && i < LANES && i < left; ++i) v[i] = (float)wide[j + i];
    const vec scale = column_scales(s, column, left);
    v = s->is_comfy ? in_comfy_order(s, v, row_scale * scale, column, left) : v * row_scale * scale;
    memcpy(c + j, &v, sizeof v);
  }
}

// What most products are: scales, perhaps a bias.
static bool is_plain(const graft_gemm_i8_scales *s, const graft_gemm_output *out) {
  return !s->is_comfy && out->activation == GRAFT_GEMM_LINEAR && !out->gate.data && !out->residual.data &&
         (!out->bias.data || (out->bias.column_stride == 1 && out->bias.row_stride == 0));
}

static void store_plain_row(const graft_gemm_i8_scales *s, const graft_gemm_output *out, const graft_gemm_block *block,
                            int64_t row, const int32_t *c) {
  const graft_dtype_code type = out->type, bias_type = out->bias.type;
  const int64_t element = graft_gemm_element_bytes(type), bias_element = graft_gemm_element_bytes(bias_type);
  const int64_t column = block->column, n = block->columns, w_step = s->w_step;
  const vec x = vec_all(s->x[row * s->x_step]), one_w = vec_all(s->w ? s->w[0] : 1);
  const float *w = s->w && w_step ? s->w + column : NULL;
  const char *bias = out->bias.data ? (const char *)out->bias.data + column * bias_element : NULL;
  char *to = (char *)out->data + (row * out->row_stride + column) * element;
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    vec_i32 sum;
    memcpy(&sum, c + j, sizeof sum);
    vec v = __builtin_convertvector(sum, vec) * x * (w ? vec_load(w + j) : one_w);
    if (bias) v += vec_load_typed(bias + j * bias_element, bias_type);
    vec_store_typed(to + j * element, type, v);
  }
  if (j == n) return;
  vec_i32 sum;
  memcpy(&sum, c + j, sizeof sum);
  vec v = __builtin_convertvector(sum, vec) * x * (w ? vec_load_n(w + j, n - j) : one_w);
  if (bias) v += vec_load_typed_n(bias + j * bias_element, bias_type, n - j);
  vec_store_typed_n(to + j * element, type, v, n - j);
}

static void store(const graft_gemm_i8_scales *s, const graft_gemm_output *out, const graft_gemm_block *block,
                  const int64_t *wide, int32_t *c, size_t c_stride) {
  if (!wide && is_plain(s, out)) {
    for (int64_t i = 0; i < block->rows; ++i) store_plain_row(s, out, block, block->row + i, c + (size_t)i * c_stride);
    return;
  }
  for (int64_t i = 0; i < block->rows; ++i) {
    const size_t offset = (size_t)i * c_stride;
    dequantize_row(s, block, s->x[(block->row + i) * s->x_step], wide ? wide + offset : NULL, c + offset);
  }
  GRAFT_TARGETED(graft_gemm_core).store(out, block, (const float *)(const void *)c, c_stride);
}

const graft_gemm_i8_core GRAFT_TARGETED(graft_gemm_i8_core) = {
    .layout = CORE_LAYOUT,
    .floats = &GRAFT_TARGETED(graft_gemm_core),
    .rows_max = ROWS,
    .panel = PANEL,
    .block_columns = 256,
    .a_bytes = A_BYTES,
    .is_unsigned = IS_UNSIGNED,
    .multiply = multiply,
    .load_rows = load_rows,
    .store = store,
};
