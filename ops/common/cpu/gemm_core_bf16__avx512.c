// A core of gemm.h that multiplies bf16 by bf16 in pairs of terms, which are added to float32 sums (AVX512-BF16). Rows
// of A and panels of B stay bf16; panels are [k / 2][panel][2]. The instruction takes subnormal numbers for 0.
#include "ops/common/cpu/gemm.h"
#include "ops/common/cpu/pairs.h"
#include "ops/common/cpu/unroll.h"

#define CORE_TARGET __attribute__((target("avx512bf16")))

enum { ROWS = 14, VECTORS = 2, PANEL = VECTORS * LANES, TERMS = 2 * GRAFT_GEMM_K, A_STRIDE = 2 * GRAFT_GEMM_A_STRIDE };
enum { SIDE_BY_SIDE = 4, STREAM_AHEAD = 2048 };

CORE_TARGET ALWAYS_INLINE vec add_products(vec sum, vec_i32 a, vec_i32 b) {
  return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

ALWAYS_INLINE vec_i32 load_pairs(const uint16_t *b) {
  vec_i32 v;
  memcpy(&v, b, sizeof v);
  return v;
}

ALWAYS_INLINE vec_i32 repeat_pair(const uint16_t *a) {
  int32_t pair;
  memcpy(&pair, a, sizeof pair);
  return pair - (vec_i32){0};
}

// One tile of |rows| × PANEL sums; rows is a constant once inlined. Fetches the panel at |next| in step.
CORE_TARGET ALWAYS_INLINE void multiply_tile(const graft_gemm_strip *s, const int rows, int64_t column,
                                             const uint16_t *next) {
  const uint16_t *b = (const uint16_t *)s->b + (size_t)(column / PANEL) * s->panel_stride;
  // Every third row has a pointer, the others lie one or two strides behind it: as many registers as there are.
  const uint16_t *a[(ROWS + 2) / 3];
  const int64_t stride = 2 * s->a_stride;
  VEC_UNROLL
  for (int i = 0; i < rows; i += 3) a[i / 3] = (const uint16_t *)(const void *)s->a + i * stride;
  const size_t c_stride = s->c_stride;
  const bool accumulate = s->accumulate;
  float *c = s->c + column;
  const float *before = c;
  vec sum[ROWS][VECTORS];
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) sum[i][j] = accumulate ? vec_load(before + j * LANES) : (vec){0};
    before += c_stride;
    __asm__("" : "+r"(before));  // one address at a time: there are no registers for those of all rows
  }
  for (int32_t p = 0; p < s->k; p += 2) {
    vec_i32 bj[VECTORS];
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) bj[j] = load_pairs(b + 2 * j * LANES);
    VEC_UNROLL
    for (int i = 0; i < rows; ++i) {
      const vec_i32 ai = repeat_pair(a[i / 3] + i % 3 * stride);
      VEC_UNROLL
      for (int j = 0; j < VECTORS; ++j) sum[i][j] = add_products(sum[i][j], ai, bj[j]);
    }
    for (int j = 0; j < VECTORS; ++j) __builtin_prefetch(next + 2 * j * LANES, 0, 2);
    VEC_UNROLL
    for (int i = 0; i < rows; i += 3) a[i / 3] += 2;
    b += 2 * PANEL;
    next += 2 * PANEL;
  }
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) vec_store(c + j * LANES, sum[i][j]);
    c += c_stride;
    __asm__("" : "+r"(c));
  }
}

// A single row times SIDE_BY_SIDE panels: as many streams from memory at once.
CORE_TARGET ALWAYS_INLINE void multiply_row(const graft_gemm_strip *s, int64_t column) {
  const uint16_t *b = (const uint16_t *)s->b + (size_t)(column / PANEL) * s->panel_stride;
  const uint16_t *a = (const uint16_t *)(const void *)s->a;
  float *c = s->c + column;
  vec sum[SIDE_BY_SIDE][VECTORS];
  VEC_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) sum[i][j] = s->accumulate ? vec_load(c + i * PANEL + j * LANES) : (vec){0};
  }
  for (int32_t p = 0; p < s->k; p += 2, a += 2, b += 2 * PANEL) {
    const vec_i32 pair = repeat_pair(a);
    VEC_UNROLL
    for (int i = 0; i < SIDE_BY_SIDE; ++i) {
      const uint16_t *bi = b + (size_t)i * s->panel_stride;
      VEC_UNROLL
      for (int j = 0; j < VECTORS; ++j) {
        sum[i][j] = add_products(sum[i][j], pair, load_pairs(bi + 2 * j * LANES));
        __builtin_prefetch((const char *)(bi + 2 * j * LANES) + STREAM_AHEAD);
      }
    }
  }
  VEC_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) vec_store(c + i * PANEL + j * LANES, sum[i][j]);
  }
}

CORE_TARGET ALWAYS_INLINE void multiply_strip(const graft_gemm_strip *s, const int rows) {
  const int64_t panels = (s->columns + PANEL - 1) / PANEL;
  const uint16_t *b = s->b;
  int64_t i = 0;
  for (; rows == 1 && i + SIDE_BY_SIDE <= panels; i += SIDE_BY_SIDE) multiply_row(s, i * PANEL);
  for (; i < panels; ++i) {
    for (int j = 0; j < GRAFT_GEMM_N_AHEAD; ++j) graft_gemm_fetch_ahead(&s->ahead[j], i, panels);
    // After the last panel, the first one's next block.
    const uint16_t *next = i + 1 < panels ? b + (size_t)(i + 1) * s->panel_stride : b + (s->k + s->k % 2) * PANEL;
    multiply_tile(s, rows, i * PANEL, next);
  }
}

#define STRIP(rows)                                                    \
  CORE_TARGET static void multiply_##rows(const graft_gemm_strip *s) { \
    multiply_strip(s, rows);                                           \
  }

STRIP(1)
STRIP(2)
STRIP(3)
STRIP(4)
STRIP(5)
STRIP(6)
STRIP(7)
STRIP(8)
STRIP(9)
STRIP(10)
STRIP(11)
STRIP(12)
STRIP(13)
STRIP(14)

static void multiply(const graft_gemm_strip *s) {
  typedef void strip_fn(const graft_gemm_strip *);
  static strip_fn *const table[ROWS] = {
      multiply_1, multiply_2, multiply_3,  multiply_4,  multiply_5,  multiply_6,  multiply_7,
      multiply_8, multiply_9, multiply_10, multiply_11, multiply_12, multiply_13, multiply_14,
  };
  table[s->rows - 1](s);
}

static uint16_t element_at(const graft_gemm_matrix *x, int64_t row, int64_t column) {
  uint16_t bits;
  memcpy(&bits, graft_gemm_matrix_at(*x, row, column).data, sizeof bits);
  return bits;
}

// An odd last term gets a partner of 0.
static void load_rows(const graft_gemm_matrix *a, const graft_gemm_block *block, float *out) {
  uint16_t *to = (uint16_t *)(void *)out;
  const int64_t n = block->columns;
  for (int64_t i = 0; i < block->rows; ++i, to += A_STRIDE) {
    if (a->column_stride == 1) {
      memcpy(to, graft_gemm_matrix_at(*a, block->row + i, block->column).data, (size_t)n * sizeof *to);
    } else {
      for (int64_t p = 0; p < n; ++p) to[p] = element_at(a, block->row + i, block->column + p);
    }
    if (n % 2) to[n] = 0;
  }
}

static void fill_pairs(const graft_gemm_matrix *b, const graft_gemm_block *block, uint16_t *out) {
  const int64_t k = block->rows, panel_elements = (k + k % 2) * PANEL;
  for (int64_t j = 0; j < block->columns; j += PANEL, out += panel_elements) {
    const int64_t n = block->columns - j < PANEL ? block->columns - j : PANEL;
    memset(out, 0, (size_t)panel_elements * sizeof *out);
    for (int64_t p = 0; p < k; ++p) {
      uint16_t *to = out + p / 2 * 2 * PANEL + p % 2;
      for (int64_t i = 0; i < n; ++i) to[2 * i] = element_at(b, block->row + p, block->column + j + i);
    }
  }
}

// Rows of B that are dense: pairs of them are interleaved.
static void interleave_rows(const graft_gemm_matrix *b, const graft_gemm_block *block, uint16_t *out) {
  for (int64_t j = 0; j < block->columns; j += PANEL) {
    const int64_t n = block->columns - j < PANEL ? block->columns - j : PANEL;
    const uint16_t *from = graft_gemm_matrix_at(*b, block->row, block->column + j).data;
    for (int64_t p = 0; p < block->rows; p += 2, from += 2 * b->row_stride, out += 2 * PANEL) {
      const vec_halves even = vec_load_halves(from, 0, n);
      const vec_halves odd = p + 1 < block->rows ? vec_load_halves(from + b->row_stride, 0, n) : (vec_halves){0};
      const vec_u32 low = vec_low_pairs(even, odd), high = vec_high_pairs(even, odd);
      memcpy(out, &low, sizeof low);
      memcpy(out + PANEL, &high, sizeof high);
    }
  }
}

// Pairs along a dense k are elements of 32 bits of a matrix of half as many rows, which another core transposes well.
static void pack_panels(const graft_gemm_matrix *b, const graft_gemm_block *block, void *out) {
  if (b->column_stride == 1) {
    interleave_rows(b, block, out);
    return;
  }
  if (b->row_stride != 1 || b->column_stride % 2 || block->rows % 2 || block->row % 2) {
    fill_pairs(b, block, out);
    return;
  }
  const graft_gemm_matrix pairs = {.data = graft_gemm_matrix_at(*b, block->row, block->column).data,
                                   .type = GRAFT_DTYPE_F32,
                                   .row_stride = 1,
                                   .column_stride = b->column_stride / 2};
  const graft_gemm_block halved = {.rows = block->rows / 2, .columns = block->columns};
  graft_gemm_core__avx512.pack_panels(&pairs, &halved, out);
}

static void load_panels(const graft_gemm_matrix *b, const graft_gemm_block *block, float *out) {
  pack_panels(b, block, out);
}

static void expand(const void *source, graft_dtype_code type, size_t n, float *out) {
  graft_gemm_core__avx512.expand(source, type, n, out);
}

static void store(const graft_gemm_output *out, const graft_gemm_block *block, const float *c, size_t c_stride) {
  graft_gemm_core__avx512.store(out, block, c, c_stride);
}

const graft_gemm_core graft_gemm_core__avx512_bf16 = {
    .target = "avx512",
    .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16,
    .rows_max = ROWS,
    .direct_rows_max = INT32_MAX,
    .panel = PANEL,
    .block_columns = 256,
    .terms = TERMS,
    .group = 2,
    .a_type = GRAFT_DTYPE_BF16,
    .multiply = multiply,
    .load_rows = load_rows,
    .load_panels = load_panels,
    .pack_panels = pack_panels,
    .expand = expand,
    .store = store,
};
