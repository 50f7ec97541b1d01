// gemm_i8_tile.h — the body of a core of gemm_i8.h, included once by each file that builds one. Before it they define
//
//   CORE                      the core's name
//   CORE_TARGET, CORE_LAYOUT  attributes of functions that use its instructions; the layout of weights it packs
//   CORE_REQUIRES             features of the processor
//   CORE_BETTER               pointer to a core of the same target that needs more, or NULL
//   CORE_ROWS, VECTORS, PANEL the tile: rows, vectors of sums beside each other, and how many columns these are
//   GROUP, PAIR, A_BYTES      terms that one instruction takes, rows of A that it takes, bytes of an element of a strip
//   IS_UNSIGNED               whether it takes A + 128
//   BEGINS_WITH_SUMS          whether vectors of sums are in the order of columns, and so can be loaded
//   sums, terms, a_element    vectors of plain GNU C: those of intrinsics may alias anything, which keeps a tile of
//                             them in memory
//   load_a, load_b, add_products, in_order, to_a
//
// With PAIR rows to an instruction, a strip has the groups of PAIR rows beside each other.
#ifndef GRAFT_OPS_COMMON_CPU_GEMM_I8_TILE_H
#define GRAFT_OPS_COMMON_CPU_GEMM_I8_TILE_H

enum { UNITS = CORE_ROWS / PAIR, PANEL_VECTORS = PANEL / LANES, VECTOR_BYTES = GROUP * PANEL / VECTORS };
enum { SIDE_BY_SIDE = 4, STREAM_AHEAD = 2048 };

// Keeps the compiler from working out the addresses of all rows at once, for which there are no registers.
#define HIDE(pointer) __asm__("" : "+r"(pointer))

ALWAYS_INLINE void add_sums(const int32_t *before, vec_u32 row[PANEL_VECTORS]) {
  VEC_UNROLL
  for (int j = 0; j < PANEL_VECTORS; ++j) {
    vec_u32 old;
    memcpy(&old, before + j * LANES, sizeof old);
    row[j] += old;
  }
}

ALWAYS_INLINE void store_direct(const vec_u32 row[PANEL_VECTORS], vec x, const float *w, const float *bias,
                                float *out) {
  VEC_UNROLL
  for (int j = 0; j < PANEL_VECTORS; ++j) {
    vec v = __builtin_convertvector((vec_i32)row[j], vec) * x * vec_load(w + j * LANES);
    if (bias) v += vec_load(bias + j * LANES);
    vec_store(out + j * LANES, v);
  }
}

ALWAYS_INLINE void store_sums(const vec_u32 row[PANEL_VECTORS], int32_t *c) {
  VEC_UNROLL
  for (int j = 0; j < PANEL_VECTORS; ++j) memcpy(c + j * LANES, &row[j], sizeof row[j]);
}

// What the sums of the tile's first row begin with; those of the others lie |out_stride| further each.
ALWAYS_INLINE const int32_t *beginning_of(const graft_gemm_i8_strip *s, int64_t column, size_t *out_stride) {
  static const int32_t nothing[PANEL] = {0};
  *out_stride = s->accumulate ? s->c_stride : 0;
  if (s->accumulate) return s->c + column;
  return s->start ? s->start + column : nothing;
}

ALWAYS_INLINE void begin_tile(const graft_gemm_i8_strip *s, sums sum[][VECTORS], const int rows, int64_t column) {
  size_t stride;
  const int32_t *before = beginning_of(s, column, &stride);
  VEC_UNROLL
  for (int i = 0; i * PAIR < rows; ++i) {
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) {
      sum[i][j] = (sums){0};
      if (BEGINS_WITH_SUMS) memcpy(&sum[i][j], before + j * LANES, sizeof(vec_u32));
    }
    before += stride;
    HIDE(before);
  }
}

// Adds what sums begin with, where they did not, and stores them.
ALWAYS_INLINE void finish_tile(const graft_gemm_i8_strip *s, const sums sum[][VECTORS], const int rows,
                               int64_t column) {
  size_t before_stride;
  const int32_t *before = beginning_of(s, column, &before_stride);
  const graft_gemm_i8_direct *d = &s->direct;
  vec_u32 row[PAIR][PANEL_VECTORS];
  if (d->out && column + PANEL <= s->columns) {
    const graft_gemm_i8_scale *x = d->x;
    const float *w = d->w + column, *bias = d->bias ? d->bias + column : NULL;
    const int64_t x_step = d->x_step;
    const size_t stride = d->out_stride;
    float *out = d->out + column;
    VEC_UNROLL
    for (int i = 0; i < rows; ++i) {
      if (i % PAIR == 0) in_order(sum[i / PAIR], row);
      if (!BEGINS_WITH_SUMS) add_sums(before, row[i % PAIR]);
      store_direct(row[i % PAIR], vec_all(*x), w, bias, out);
      before += before_stride, x += x_step, out += stride;
      HIDE(before);
      HIDE(x);
      HIDE(out);
    }
    return;
  }
  const size_t stride = s->c_stride;
  int32_t *c = s->c + column;
  VEC_UNROLL
  for (int i = 0; i < rows; ++i) {
    if (i % PAIR == 0) in_order(sum[i / PAIR], row);
    if (!BEGINS_WITH_SUMS) add_sums(before, row[i % PAIR]);
    store_sums(row[i % PAIR], c);
    before += before_stride, c += stride;
    HIDE(before);
    HIDE(c);
  }
}

// One tile of |rows| × PANEL sums; rows is a constant once inlined. Fetches the panel at |next| in step.
CORE_TARGET ALWAYS_INLINE void multiply_tile(const graft_gemm_i8_strip *s, const int rows, int64_t column,
                                             const int8_t *next) {
  const int8_t *b = s->b + (size_t)(column / PANEL) * s->panel_stride;
  const a_element *a = (const a_element *)s->a;
  sums sum[UNITS][VECTORS];
  begin_tile(s, sum, rows, column);
  for (int32_t p = 0; p < s->groups; ++p) {
    terms bj[VECTORS];
    VEC_UNROLL
    for (int j = 0; j < VECTORS; ++j) bj[j] = load_b(b + j * VECTOR_BYTES);
    VEC_UNROLL
    for (int i = 0; i * PAIR < rows; ++i) {
      const terms ai = load_a(a + i * PAIR * GRAFT_GEMM_I8_A_STRIDE);
      VEC_UNROLL
      for (int j = 0; j < VECTORS; ++j) sum[i][j] = add_products(sum[i][j], ai, bj[j]);
    }
    for (int byte = 0; byte < GROUP * PANEL; byte += 64) __builtin_prefetch(next + byte, 0, 2);
    a += GROUP * PAIR;
    b += GROUP * PANEL;
    next += GROUP * PANEL;
  }
  finish_tile(s, sum, rows, column);
}

// A single row times SIDE_BY_SIDE panels: as many streams from memory at once.
CORE_TARGET ALWAYS_INLINE void multiply_row(const graft_gemm_i8_strip *s, int64_t column) {
  const int8_t *b = s->b + (size_t)(column / PANEL) * s->panel_stride;
  const a_element *a = (const a_element *)s->a;
  sums sum[SIDE_BY_SIDE][1][VECTORS];
  VEC_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; ++i) begin_tile(s, sum[i], 1, column + i * PANEL);
  for (int32_t p = 0; p < s->groups; ++p, a += GROUP * PAIR, b += GROUP * PANEL) {
    const terms group = load_a(a);
    VEC_UNROLL
    for (int i = 0; i < SIDE_BY_SIDE; ++i) {
      const int8_t *bi = b + (size_t)i * s->panel_stride;
      VEC_UNROLL
      for (int j = 0; j < VECTORS; ++j) sum[i][0][j] = add_products(sum[i][0][j], group, load_b(bi + j * VECTOR_BYTES));
      for (int byte = 0; byte < GROUP * PANEL; byte += 64) __builtin_prefetch(bi + STREAM_AHEAD + byte);
    }
  }
  VEC_UNROLL
  for (int i = 0; i < SIDE_BY_SIDE; ++i) finish_tile(s, sum[i], 1, column + i * PANEL);
}

CORE_TARGET ALWAYS_INLINE void multiply_strip(const graft_gemm_i8_strip *s, const int rows) {
  const int64_t panels = (s->columns + PANEL - 1) / PANEL;
  int64_t i = 0;
  for (; rows == 1 && i + SIDE_BY_SIDE <= panels; i += SIDE_BY_SIDE) multiply_row(s, i * PANEL);
  for (; i < panels; ++i) {
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
#if CORE_ROWS >= 4
STRIP(3)
STRIP(4)
#endif
#if CORE_ROWS >= 6
STRIP(5)
STRIP(6)
#endif
#if CORE_ROWS >= 8
STRIP(7)
STRIP(8)
#endif
#if CORE_ROWS >= 14
STRIP(9)
STRIP(10)
STRIP(11)
STRIP(12)
STRIP(13)
STRIP(14)
#endif

static void multiply(const graft_gemm_i8_strip *s) {
  typedef void strip_fn(const graft_gemm_i8_strip *);
  static strip_fn *const table[CORE_ROWS] = {
    multiply_1,
    multiply_2,
#if CORE_ROWS >= 4
    multiply_3,
    multiply_4,
#endif
#if CORE_ROWS >= 6
    multiply_5,
    multiply_6,
#endif
#if CORE_ROWS >= 8
    multiply_7,
    multiply_8,
#endif
#if CORE_ROWS >= 14
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

// Copies a row of A; groups of terms lie |GROUP * PAIR| elements apart.
ALWAYS_INLINE void load_row(const int8_t *restrict from, int64_t n, a_element *restrict to) {
  int64_t p = 0;
  if (PAIR == 1) {
    for (; p < n; ++p) to[p] = to_a(from[p]);
    for (; p % GROUP != 0; ++p) to[p] = 0;
    return;
  }
  for (; p + GROUP <= n; p += GROUP) memcpy(to + p * PAIR, from + p, GROUP);
  if (p == n) return;
  memset(to + p * PAIR, 0, GROUP);
  memcpy(to + p * PAIR, from + p, (size_t)(n - p));
}

static void load_rows(const int8_t *a, int64_t a_stride, const graft_gemm_block *block, void *out) {
  const int8_t *from = a + block->row * a_stride + block->column;
  for (int64_t i = 0; i < block->rows; ++i) {
    a_element *to = (a_element *)out + i / PAIR * PAIR * GRAFT_GEMM_I8_A_STRIDE + i % PAIR * GROUP;
    load_row(from + i * a_stride, block->columns, to);
  }
}

const graft_gemm_i8_core CORE = {
    .layout = CORE_LAYOUT,
    .required_features = CORE_REQUIRES,
    .better = CORE_BETTER,
    .floats = &GRAFT_TARGETED(graft_gemm_core),
    .rows_max = CORE_ROWS,
    .panel = PANEL,
    .group = GROUP,
    .block_columns = 256,
    .a_bytes = A_BYTES,
    .is_unsigned = IS_UNSIGNED,
    .multiply = multiply,
    .load_rows = load_rows,
    .store = GRAFT_TARGETED(graft_gemm_i8_store),
};

#endif
