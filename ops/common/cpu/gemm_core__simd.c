#include "ops/common/cpu/gemm.h"
#include "ops/common/cpu/transpose.h"
#include "ops/common/cpu/vector_math.h"

// The micro-tile: as many accumulators as leave registers for VECTORS of B and one broadcast element of A.
#if defined(__AVX512F__)
enum { ROWS = 14, VECTORS = 2, BLOCK_COLUMNS = 256 };
#elif defined(__AVX2__)
enum { ROWS = 6, VECTORS = 2, BLOCK_COLUMNS = 128 };
#elif defined(__ARM_NEON)
enum { ROWS = 6, VECTORS = 4, BLOCK_COLUMNS = 128 };
#else
enum { ROWS = 4, VECTORS = 2, BLOCK_COLUMNS = 128 };
#endif
enum { PANEL = VECTORS * LANES, DIRECT_ROWS = 4, SIDE_BY_SIDE = 4, STREAM_AHEAD = 2048 };

// One tile of |rows| × |vectors| vectors; both and the type are constants once inlined.
ALWAYS_INLINE void multiply_tile(const graft_gemm_strip *s, const int rows, const int vectors,
                                 const graft_dtype_code type, int64_t column) {
  const size_t element = type == GRAFT_DTYPE_F32 ? 4 : 2;
  const char *b = (const char *)s->b + (size_t)(column / PANEL) * s->panel_stride * element;
  // Every third row has a pointer, the others lie one or two strides behind it: as many registers as there are.
  const float *a[(ROWS + 2) / 3];
  const int64_t stride = s->a_stride;
  VEC_UNROLL
  for (int i = 0; i < rows; i += 3) a[i / 3] = s->a + i * stride;
  vec sum[ROWS][VECTORS];
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    VEC_UNROLL
    for (int j = 0; j < vectors; ++j) sum[i][j] = (vec){0};
  }
  for (int32_t p = 0; p < s->k; ++p) {
    vec bj[VECTORS];
    VEC_UNROLL
    for (int j = 0; j < vectors; ++j) bj[j] = vec_load_typed(b + (size_t)(j * LANES) * element, type);
    VEC_UNROLL
    for (int i = 0; i < rows; ++i) {
      const vec ai = vec_all(a[i / 3][i % 3 * stride]);
      VEC_UNROLL
      for (int j = 0; j < vectors; ++j) sum[i][j] = vec_madd(ai, bj[j], sum[i][j]);
    }
    // Few rows are bound by memory: ask early for every line of B.
    if (rows <= DIRECT_ROWS && rows < ROWS) {
      for (size_t byte = 0; byte < PANEL * element; byte += 64) __builtin_prefetch(b + STREAM_AHEAD + byte);
    }
    VEC_UNROLL
    for (int i = 0; i < rows; i += 3) ++a[i / 3];
    b += PANEL * element;
  }
  const size_t c_stride = s->c_stride;
  const bool accumulate = s->accumulate;
  float *c = s->c + column;
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    VEC_UNROLL
    for (int j = 0; j < vectors; ++j) {
      float *cij = c + j * LANES;
      vec_store(cij, accumulate ? vec_load(cij) + sum[i][j] : sum[i][j]);
    }
    c += c_stride;
    __asm__("" : "+r"(c));  // one address at a time: there are no registers for those of all rows
  }
}

// A single row times SIDE_BY_SIDE panels: as many streams from memory at once.
ALWAYS_INLINE void multiply_row(const graft_gemm_strip *s, const graft_dtype_code type, int64_t column) {
  const size_t element = type == GRAFT_DTYPE_F32 ? 4 : 2, panel_bytes = s->panel_stride * element;
  const char *b = (const char *)s->b + (size_t)(column / PANEL) * panel_bytes;
  vec sum[SIDE_BY_SIDE][VECTORS];
  VEC_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) sum[i][j] = (vec){0};
  }
  for (int32_t p = 0; p < s->k; ++p, b += PANEL * element) {
    const vec a = vec_all(s->a[p]);
    VEC_UNROLL
    for (int i = 0; i < SIDE_BY_SIDE; ++i) {
      const char *bi = b + (size_t)i * panel_bytes;
      VEC_UNROLL
      for (int j = 0; j < VECTORS; ++j) {
        sum[i][j] = vec_madd(a, vec_load_typed(bi + (size_t)(j * LANES) * element, type), sum[i][j]);
      }
      for (size_t byte = 0; byte < PANEL * element; byte += 64) __builtin_prefetch(bi + STREAM_AHEAD + byte);
    }
  }
  float *c = s->c + column;
  VEC_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) {
      float *cj = c + i * PANEL + j * LANES;
      vec_store(cj, s->accumulate ? vec_load(cj) + sum[i][j] : sum[i][j]);
    }
  }
}

ALWAYS_INLINE void multiply_strip(const graft_gemm_strip *s, const int rows, const graft_dtype_code type) {
  const int64_t panels = (s->columns + PANEL - 1) / PANEL;
  int64_t i = 0;
  for (; rows == 1 && i + SIDE_BY_SIDE <= panels; i += SIDE_BY_SIDE) multiply_row(s, type, i * PANEL);
  for (; i < panels; ++i) {
    for (int j = 0; j < GRAFT_GEMM_N_AHEAD; ++j) graft_gemm_fetch_ahead(&s->ahead[j], i, panels);
    if (s->columns - i * PANEL > PANEL / 2) multiply_tile(s, rows, VECTORS, type, i * PANEL);
    else multiply_tile(s, rows, VECTORS / 2, type, i * PANEL);
  }
}

#define STRIP_F32(rows)                                        \
  static void multiply_f32_##rows(const graft_gemm_strip *s) { \
    multiply_strip(s, rows, GRAFT_DTYPE_F32);                  \
  }
#define STRIP_DIRECT(rows)                                      \
  STRIP_F32(rows)                                               \
  static void multiply_bf16_##rows(const graft_gemm_strip *s) { \
    multiply_strip(s, rows, GRAFT_DTYPE_BF16);                  \
  }                                                             \
  static void multiply_f16_##rows(const graft_gemm_strip *s) {  \
    multiply_strip(s, rows, GRAFT_DTYPE_F16);                   \
  }

STRIP_DIRECT(1)
STRIP_DIRECT(2)
STRIP_DIRECT(3)
STRIP_DIRECT(4)
#if defined(__AVX2__) || defined(__ARM_NEON)
STRIP_F32(5)
STRIP_F32(6)
#endif
#if defined(__AVX512F__)
STRIP_F32(7)
STRIP_F32(8)
STRIP_F32(9)
STRIP_F32(10)
STRIP_F32(11)
STRIP_F32(12)
STRIP_F32(13)
STRIP_F32(14)
#endif

static void multiply(const graft_gemm_strip *s) {
  typedef void strip_fn(const graft_gemm_strip *);
  static strip_fn *const f32[ROWS] = {
    multiply_f32_1,
    multiply_f32_2,
    multiply_f32_3,
    multiply_f32_4,
#if defined(__AVX2__) || defined(__ARM_NEON)
    multiply_f32_5,
    multiply_f32_6,
#endif
#if defined(__AVX512F__)
    multiply_f32_7,
    multiply_f32_8,
    multiply_f32_9,
    multiply_f32_10,
    multiply_f32_11,
    multiply_f32_12,
    multiply_f32_13,
    multiply_f32_14,
#endif
  };
  static strip_fn *const bf16[DIRECT_ROWS] = {multiply_bf16_1, multiply_bf16_2, multiply_bf16_3, multiply_bf16_4};
  static strip_fn *const f16[DIRECT_ROWS] = {multiply_f16_1, multiply_f16_2, multiply_f16_3, multiply_f16_4};
  strip_fn *const *table = s->b_type == GRAFT_DTYPE_BF16 ? bf16 : s->b_type == GRAFT_DTYPE_F16 ? f16 : f32;
  table[s->rows - 1](s);
}

// How elements travel into panels: with or without becoming float32.
typedef enum transfer { RAW32, RAW16, FROM_BF16, FROM_F16 } transfer;

ALWAYS_INLINE vec_u32 read_lanes(const void *p, const transfer how) {
  if (how == RAW16) return vec_widen_u16(p);
  if (how == FROM_BF16) return (vec_u32)vec_load_bf16(p);
  if (how == FROM_F16) return (vec_u32)vec_load_f16(p);
  return (vec_u32)vec_load((const float *)p);
}

ALWAYS_INLINE void write_lanes(char *p, vec_u32 v, const transfer how) {
  if (how == RAW16) vec_narrow_u16(p, v);
  else memcpy(p, &v, sizeof v);
}

// A square of LANES × LANES elements, read along k and written along columns.
ALWAYS_INLINE void transpose_square(const char *source, size_t column_bytes, char *out, size_t row_bytes,
                                    const transfer how) {
  vec_u32 t[LANES];
  VEC_UNROLL
  for (int i = 0; i < LANES; ++i) t[i] = read_lanes(source + (size_t)i * column_bytes, how);
  vec_transpose(t);
  VEC_UNROLL
  for (int i = 0; i < LANES; ++i) write_lanes(out + (size_t)i * row_bytes, t[i], how);
}

// Part of one matrix on its way into one panel.
typedef struct panel_source {
  const char *data;  // first element
  int64_t row_bytes, column_bytes;
  int32_t k, columns;
} panel_source;

// One row of a panel, element by element: edges, and matrices without a dense dimension.
ALWAYS_INLINE void fill_row(const panel_source *s, int32_t row, char *out, const transfer how) {
  const size_t in_bytes = how == RAW32 ? 4 : 2, out_bytes = how == RAW16 ? 2 : 4;
  char elements[PANEL * 4] = {0};
  const char *from = s->data + row * s->row_bytes;
  for (int32_t j = 0; j < s->columns; ++j) memcpy(elements + j * in_bytes, from + j * s->column_bytes, in_bytes);
  for (size_t j = 0; j < PANEL; j += LANES) {
    write_lanes(out + j * out_bytes, read_lanes(elements + j * in_bytes, how), how);
  }
}

ALWAYS_INLINE void fill_panel(const panel_source *s, char *out, const transfer how) {
  const int64_t in_bytes = how == RAW32 ? 4 : 2;
  const size_t out_bytes = how == RAW16 ? 2 : 4, row_bytes = PANEL * out_bytes;
  const bool is_whole = s->columns == PANEL;
  int32_t row = 0;
  if (is_whole && s->column_bytes == in_bytes) {
    for (; row < s->k; ++row) {
      for (size_t j = 0; j < PANEL; j += LANES) {
        const char *from = s->data + row * s->row_bytes + (int64_t)j * in_bytes;
        write_lanes(out + (size_t)row * row_bytes + j * out_bytes, read_lanes(from, how), how);
      }
    }
  } else if (is_whole && s->row_bytes == in_bytes) {
    for (; row + LANES <= s->k; row += LANES) {
      for (size_t j = 0; j < PANEL; j += LANES) {
        transpose_square(s->data + row * in_bytes + (int64_t)j * s->column_bytes, (size_t)s->column_bytes,
                         out + (size_t)row * row_bytes + j * out_bytes, row_bytes, how);
      }
    }
  }
  for (; row < s->k; ++row) fill_row(s, row, out + (size_t)row * row_bytes, how);
}

static void fill_panels(const graft_gemm_matrix *b, const graft_gemm_block *block, transfer how, void *out) {
  const int64_t element = how == RAW32 ? 4 : 2;
  char *panel = out;
  for (int64_t j = 0; j < block->columns; j += PANEL) {
    const int64_t left = block->columns - j;
    const int64_t offset = block->row * b->row_stride + (block->column + j) * b->column_stride;
    const panel_source source = {.data = (const char *)b->data + offset * element,
                                 .row_bytes = b->row_stride * element,
                                 .column_bytes = b->column_stride * element,
                                 .k = (int32_t)block->rows,
                                 .columns = left < PANEL ? (int32_t)left : PANEL};
    switch (how) {
      case RAW32: fill_panel(&source, panel, RAW32); break;
      case RAW16: fill_panel(&source, panel, RAW16); break;
      case FROM_BF16: fill_panel(&source, panel, FROM_BF16); break;
      case FROM_F16: fill_panel(&source, panel, FROM_F16); break;
    }
    panel += (size_t)block->rows * PANEL * (how == RAW16 ? 2 : 4);
  }
}

static void load_panels(const graft_gemm_matrix *b, const graft_gemm_block *block, float *out) {
  fill_panels(b, block, b->type == GRAFT_DTYPE_BF16 ? FROM_BF16 : b->type == GRAFT_DTYPE_F16 ? FROM_F16 : RAW32, out);
}

static void pack_panels(const graft_gemm_matrix *b, const graft_gemm_block *block, void *out) {
  fill_panels(b, block, b->type == GRAFT_DTYPE_F32 ? RAW32 : RAW16, out);
}

static void expand(const void *source, graft_dtype_code type, size_t n, float *out) {
  const size_t element = type == GRAFT_DTYPE_F32 ? 4 : 2;
  const char *from = source;
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(out + i, vec_load_typed(from + i * element, type));
  const int64_t left = (int64_t)(n - i);
  if (left > 0) vec_store_n(out + i, vec_load_typed_n(from + i * element, type, left), left);
}

// Column by column: for a matrix whose columns are dense, and slowly but surely for any other.
static void load_columns(const graft_gemm_matrix *a, const graft_gemm_block *block, float *out) {
  float column[ROWS];
  for (int64_t p = 0; p < block->columns; ++p) {
    const graft_gemm_matrix from = graft_gemm_matrix_at(*a, block->row, block->column + p);
    if (from.row_stride == 1) {
      expand(from.data, from.type, (size_t)block->rows, column);
    } else {
      for (int64_t i = 0; i < block->rows; ++i) expand(graft_gemm_matrix_at(from, i, 0).data, from.type, 1, column + i);
    }
    for (int64_t i = 0; i < block->rows; ++i) out[i * GRAFT_GEMM_A_STRIDE + p] = column[i];
  }
}

static void load_rows(const graft_gemm_matrix *a, const graft_gemm_block *block, float *out) {
  if (a->column_stride != 1) {
    load_columns(a, block, out);
    return;
  }
  for (int64_t i = 0; i < block->rows; ++i) {
    const graft_gemm_matrix row = graft_gemm_matrix_at(*a, block->row + i, block->column);
    expand(row.data, row.type, (size_t)block->columns, out + i * GRAFT_GEMM_A_STRIDE);
  }
}

// What bias, gate or residual has for one row of a block: copies, so that storing the output does not force them to be
// loaded again.
typedef struct addend {
  const char *at;  // NULL: none
  graft_dtype_code type;
  bool is_repeated;
  vec value;  // then
} addend;

ALWAYS_INLINE addend addend_of(const graft_gemm_matrix *x, int64_t row, int64_t column, bool is_f32) {
  if (!x->data) return (addend){0};
  addend a = {.at = graft_gemm_matrix_at(*x, row, column).data, .type = x->type, .is_repeated = x->column_stride == 0};
  if (is_f32) a.type = GRAFT_DTYPE_F32;
  if (a.is_repeated) a.value = vec_all(vec_load_typed_n(a.at, a.type, 1)[0]);
  return a;
}

ALWAYS_INLINE vec addend_at(addend a, int64_t j, int64_t n) {
  if (a.is_repeated) return a.value;
  const char *from = a.at + j * graft_gemm_element_bytes(a.type);
  return n < LANES ? vec_load_typed_n(from, a.type, n) : vec_load_typed(from, a.type);
}

ALWAYS_INLINE vec activate(vec v, graft_gemm_activation activation) {
  switch (activation) {
    case GRAFT_GEMM_LINEAR: return v;
    case GRAFT_GEMM_SILU: return vec_silu(v);
    case GRAFT_GEMM_GELU: return 0.5f * v * (1.0f + vec_erf(0.707106781f * v));
    case GRAFT_GEMM_GELU_TANH: return vec_times_sigmoid(v, 1.59576912f * (v + 0.044715f * (v * v * v)));
  }
  return v;
}

typedef struct addends {
  addend bias, gate, residual;
} addends;

ALWAYS_INLINE vec finish(addends a, vec v, int64_t j, int64_t n, graft_gemm_activation activation) {
  if (a.bias.at) v += addend_at(a.bias, j, n);
  v = activate(v, activation);
  if (a.gate.at) v *= addend_at(a.gate, j, n);
  return a.residual.at ? v + addend_at(a.residual, j, n) : v;
}

// |activation|, and whether all that is read and written |is_f32|, are known where this is inlined.
ALWAYS_INLINE void store_as(const graft_gemm_output *out, const graft_gemm_block *block, const float *c,
                            size_t c_stride, graft_gemm_activation activation, bool is_f32) {
  const graft_dtype_code type = is_f32 ? GRAFT_DTYPE_F32 : out->type;
  const int64_t element = graft_gemm_element_bytes(type), n = block->columns;
  for (int64_t i = block->row; i < block->row + block->rows; ++i, c += c_stride) {
    char *to = (char *)out->data + (i * out->row_stride + block->column) * element;
    const addends a = {addend_of(&out->bias, i, block->column, is_f32), addend_of(&out->gate, i, block->column, is_f32),
                       addend_of(&out->residual, i, block->column, is_f32)};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
      vec_store_typed(to + j * element, type, finish(a, vec_load(c + j), j, LANES, activation));
    }
    if (j < n) vec_store_typed_n(to + j * element, type, finish(a, vec_load(c + j), j, n - j, activation), n - j);
  }
}

static bool is_f32_or_none(const graft_gemm_matrix *x) {
  return !x->data || x->type == GRAFT_DTYPE_F32;
}

ALWAYS_INLINE void store_with(const graft_gemm_output *out, const graft_gemm_block *block, const float *c,
                              size_t c_stride, graft_gemm_activation activation) {
  const bool is_f32 = out->type == GRAFT_DTYPE_F32 && is_f32_or_none(&out->bias) && is_f32_or_none(&out->gate) &&
                      is_f32_or_none(&out->residual);
  if (is_f32) {
    store_as(out, block, c, c_stride, activation, true);
  } else {
    store_as(out, block, c, c_stride, activation, false);
  }
}

static void store(const graft_gemm_output *out, const graft_gemm_block *block, const float *c, size_t c_stride) {
  switch (out->activation) {
    case GRAFT_GEMM_LINEAR: store_with(out, block, c, c_stride, GRAFT_GEMM_LINEAR); break;
    case GRAFT_GEMM_SILU: store_with(out, block, c, c_stride, GRAFT_GEMM_SILU); break;
    case GRAFT_GEMM_GELU: store_with(out, block, c, c_stride, GRAFT_GEMM_GELU); break;
    case GRAFT_GEMM_GELU_TANH: store_with(out, block, c, c_stride, GRAFT_GEMM_GELU_TANH); break;
  }
}

const graft_gemm_core GRAFT_TARGETED(graft_gemm_core) = {
    .target = GRAFT_QUOTE(GRAFT_TARGET),
    .required_features = GRAFT_TARGET_REQUIRES,
    .rows_max = ROWS,
    .direct_rows_max = DIRECT_ROWS,
    .panel = PANEL,
    .block_columns = BLOCK_COLUMNS,
    .terms = GRAFT_GEMM_K,
    .group = 1,
    .a_type = GRAFT_DTYPE_F32,
    .multiply = multiply,
    .load_rows = load_rows,
    .load_panels = load_panels,
    .pack_panels = pack_panels,
    .expand = expand,
    .store = store,
};
