#include "ops/common/cpu/gemm.h"

// Enough items to keep many threads busy to the end, as long as that costs little: the fewer rows an item has, the more
// laying out its block of B weighs; the fewer columns, the more copying A does.
enum { ITEMS_WANTED = 32, ROWS_WANTED = 84, ROWS_MOST = 256, PANELS_WANTED = 2, ROW_PANELS_WANTED = 4 };

// How an output is cut: into |m_parts| × |n_parts| rectangles of whole strips and whole units of |unit| columns.
typedef struct split {
  int64_t strips, unit, units, m_parts, n_parts;
} split;

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
static int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Where part |i| of |parts| begins when |n| things are dealt out evenly.
static int64_t part_begin(int64_t n, int64_t parts, int64_t i) {
  return n / parts * i + at_most(i, n % parts);
}

// Columns that are never parted: a panel, or as many as are whole groups of |columns|, or else all. More than a block
// has where there is no such number.
static int64_t unit_of(const graft_gemm_core *core, int64_t n, int64_t columns) {
  int64_t unit = columns;
  while (unit % core->panel != 0 && unit <= core->block_columns) unit += columns;
  return unit <= core->block_columns ? unit : ceil_div(n, core->panel) * core->panel;
}

bool graft_gemm_can_finish(const graft_gemm_core *core, int64_t n, int64_t columns) {
  return unit_of(core, n, columns) <= core->block_columns;
}

static split split_of(const graft_gemm *g) {
  const graft_gemm_core *core = g->core;
  const int64_t unit = g->finish ? unit_of(core, g->n, g->finish_columns) : core->panel;
  split s = {.strips = ceil_div(g->m, core->rows_max), .unit = unit, .units = ceil_div(g->n, unit)};
  s.n_parts = ceil_div(s.units, core->block_columns / unit);
  if (s.n_parts == 0 || s.strips == 0) return s;
  const int64_t affordable = at_least(1, g->m / ROWS_WANTED);
  s.m_parts = at_most(ceil_div(ITEMS_WANTED, s.n_parts), affordable);
  s.m_parts = at_least(s.m_parts, ceil_div(g->m, ROWS_MOST));
  // A single row takes several panels at once.
  const int64_t panels_wanted = g->m == 1 ? ROW_PANELS_WANTED : PANELS_WANTED;
  const int64_t units_wanted = at_least(1, panels_wanted * core->panel / unit);
  const int64_t n_parts = at_most(ceil_div(ITEMS_WANTED, s.m_parts), ceil_div(s.units, units_wanted));
  s.n_parts = at_least(s.n_parts, n_parts);
  // Two threads share an odd number of equal items badly.
  if (s.n_parts > 1 && s.n_parts < s.units) s.n_parts += s.m_parts * s.n_parts % 2;
  if (unit > core->panel && s.m_parts > 1 && s.m_parts < s.strips) s.m_parts += s.m_parts * s.n_parts % 2;
  return s;
}

static graft_gemm_block rectangle_of(const graft_gemm *g, const split *s, int64_t item) {
  const int64_t i = item % s->m_parts, j = item / s->m_parts;
  const int64_t first = part_begin(s->strips, s->m_parts, i), end = part_begin(s->strips, s->m_parts, i + 1);
  const int64_t row = part_begin(g->m, s->strips, first);
  const int64_t column = part_begin(s->units, s->n_parts, j) * s->unit;
  return (graft_gemm_block){
      .row = row,
      .rows = part_begin(g->m, s->strips, end) - row,
      .column = column,
      .columns = at_most(g->n, part_begin(s->units, s->n_parts, j + 1) * s->unit) - column,
  };
}

// Rows of a panel of |k| terms.
static int64_t panel_rows(const graft_gemm_core *core, int64_t k) {
  return ceil_div(k, core->group) * core->group;
}

size_t graft_gemm_packed_bytes(const graft_gemm_core *core, graft_dtype_code type, int64_t n, int64_t k) {
  return (size_t)(ceil_div(n, core->panel) * core->panel) * (size_t)panel_rows(core, k) *
         (type == GRAFT_DTYPE_F32 ? 4 : 2);
}

void graft_gemm_pack(const graft_gemm_core *core, const graft_gemm_matrix *b, int64_t n, int64_t k, void *out) {
  const graft_gemm_block all = {.rows = k, .columns = n};
  core->pack_panels(b, &all, out);
}

int64_t graft_gemm_items(const graft_gemm *gemm) {
  const split s = split_of(gemm);
  return s.m_parts * s.n_parts;
}

static size_t a_floats(const graft_gemm_core *core) {
  return (size_t)core->rows_max * GRAFT_GEMM_A_STRIDE;
}
static size_t b_floats(const graft_gemm_core *core) {
  return (size_t)core->block_columns * GRAFT_GEMM_K;
}

size_t graft_gemm_scratch_bytes(const graft_gemm *gemm) {
  const split s = split_of(gemm);
  if (s.m_parts * s.n_parts == 0) return 0;
  const int64_t strips = gemm->k > gemm->core->terms ? ceil_div(s.strips, s.m_parts) : 1;
  const size_t c_floats = (size_t)(strips * gemm->core->rows_max * gemm->core->block_columns);
  return (a_floats(gemm->core) + b_floats(gemm->core) + c_floats) * sizeof(float);
}

// Points |strip| at a block of B: where it lies packed in a type the micro-kernel reads, or at its copy in |scratch|.
static void provide_b(const graft_gemm *g, const graft_gemm_block *block, int64_t rows, float *scratch,
                      graft_gemm_strip *strip) {
  const graft_gemm_core *core = g->core;
  strip->b = scratch;
  strip->b_type = GRAFT_DTYPE_F32;
  strip->panel_stride = (size_t)(panel_rows(core, block->rows) * core->panel);
  if (g->load_b) {
    g->load_b(core, g->b_context, block, scratch);
    return;
  }
  if (!g->b_is_packed) {
    core->load_panels(&g->b, block, scratch);
    return;
  }
  const int64_t k = panel_rows(core, g->k);
  const size_t element = (size_t)graft_gemm_element_bytes(g->b.type), stride = (size_t)(k * core->panel);
  const char *packed = (const char *)g->b.data + (size_t)(block->column * k + block->row * core->panel) * element;
  if (g->b.type == GRAFT_DTYPE_F32 || rows <= core->direct_rows_max) {
    strip->b = packed;
    strip->b_type = g->b.type;
    strip->panel_stride = stride;
    return;
  }
  for (int64_t j = 0; j < block->columns; j += core->panel) {
    core->expand(packed, g->b.type, strip->panel_stride, scratch);
    packed += stride * element;
    scratch += strip->panel_stride;
  }
}

// A strip's rows of A as they lie in memory; nothing where they are not dense.
static graft_gemm_ahead a_ahead(const graft_gemm *g, const graft_gemm_block *block) {
  const int64_t element = graft_gemm_element_bytes(g->a.type);
  if (g->a.column_stride != 1) return (graft_gemm_ahead){0};
  return (graft_gemm_ahead){.data = graft_gemm_matrix_at(g->a, block->row, block->column).data,
                            .rows = block->rows,
                            .row_bytes = block->columns * element,
                            .stride = g->a.row_stride * element};
}

// Part |i| of |parts| of what laying out a block of B reads.
static graft_gemm_ahead b_ahead(const graft_gemm *g, const graft_gemm_block *block, int64_t i, int64_t parts) {
  if (block->rows <= 0) return (graft_gemm_ahead){0};
  if (g->load_b) return g->b_ahead(g->b_context, block, i, parts);
  // For few rows the micro-kernel looks ahead itself.
  if (!g->b_is_packed || g->m <= g->core->direct_rows_max) return (graft_gemm_ahead){0};
  const int64_t panel = g->core->panel, element = graft_gemm_element_bytes(g->b.type);
  const int64_t first = part_begin(block->rows, parts, i), end = part_begin(block->rows, parts, i + 1);
  const int64_t offset = block->column * g->k + (block->row + first) * panel;
  return (graft_gemm_ahead){.data = (const char *)g->b.data + offset * element,
                            .rows = ceil_div(block->columns, panel),
                            .row_bytes = (end - first) * panel * element,
                            .stride = g->k * panel * element};
}

// Where a strip's finished rows go.
static graft_gemm_ahead out_ahead(const graft_gemm *g, const graft_gemm_block *block) {
  if (!g->out.data) return (graft_gemm_ahead){0};
  const int64_t element = graft_gemm_element_bytes(g->out.type);
  return (graft_gemm_ahead){
      .data = (const char *)g->out.data + (block->row * g->out.row_stride + block->column) * element,
      .rows = block->rows,
      .row_bytes = block->columns * element,
      .stride = g->out.row_stride * element};
}

// What a gate or residual has for a strip; nothing where it is repeated, or lies where the output does.
static graft_gemm_ahead addend_ahead(const graft_gemm *g, const graft_gemm_matrix *x, const graft_gemm_block *block) {
  if (!x->data || x->row_stride == 0 || x->column_stride != 1 || x->data == g->out.data) return (graft_gemm_ahead){0};
  const int64_t element = graft_gemm_element_bytes(x->type);
  return (graft_gemm_ahead){.data = graft_gemm_matrix_at(*x, block->row, block->column).data,
                            .rows = block->rows,
                            .row_bytes = block->columns * element,
                            .stride = x->row_stride * element};
}

// Strip |i| of |n_strips| of a tile, for terms |k| … k + n_k.
static graft_gemm_block a_block_of(const graft_gemm_block *tile, int64_t n_strips, int64_t i, int64_t k, int64_t n_k) {
  const int64_t begin = part_begin(tile->rows, n_strips, i), end = part_begin(tile->rows, n_strips, i + 1);
  return (graft_gemm_block){.row = tile->row + begin, .rows = end - begin, .column = k, .columns = n_k};
}

// Whether rows of A can be read where they lie: of the right type, dense, in whole groups, and not so far apart that a
// strip's rows all share the same few sets of the L1 cache, which repeat every 4096 bytes.
static bool reads_in_place(const graft_gemm *g) {
  const int64_t apart = g->a.row_stride * graft_gemm_element_bytes(g->a.type) % 4096, least = 128;
  return g->a.type == g->core->a_type && g->a.column_stride == 1 && g->a.row_stride % g->core->group == 0 &&
         g->k % g->core->group == 0 && apart >= least && apart <= 4096 - least;
}

// Points |strip| at its rows of A, or at a copy of them in |scratch|.
static void provide_a(const graft_gemm *g, const graft_gemm_block *block, float *scratch, graft_gemm_strip *strip) {
  strip->rows = (int32_t)block->rows;
  if (reads_in_place(g)) {
    strip->a = graft_gemm_matrix_at(g->a, block->row, block->column).data;
    strip->a_stride = g->a.row_stride / g->core->group;
    return;
  }
  g->core->load_rows(&g->a, block, scratch);
  strip->a = scratch;
  strip->a_stride = GRAFT_GEMM_A_STRIDE;
}

static void store(const graft_gemm *g, const graft_gemm_block *block, float *c, size_t c_stride) {
  if (g->finish) g->finish(g->finish_context, block, c, c_stride);
  else g->core->store(&g->out, block, c, c_stride);
}

void graft_gemm_run(const graft_gemm *gemm, int64_t item, void *scratch) {
  const graft_gemm_core *core = gemm->core;
  const split s = split_of(gemm);
  const graft_gemm_block tile = rectangle_of(gemm, &s, item);
  const int64_t n_strips = ceil_div(tile.rows, core->rows_max), k = gemm->k, terms = core->terms;
  float *const a = scratch, *const b = a + a_floats(core), *const c = b + b_floats(core);
  graft_gemm_strip strip = {.columns = tile.columns, .c_stride = (size_t)core->block_columns};
  // A product of no terms still has an output: one pass with an empty block.
  for (int64_t done = 0; done == 0 || done < k; done += terms) {
    strip.k = (int32_t)at_most(terms, k - done);
    strip.accumulate = done > 0;
    const bool is_last = done + terms >= k;
    const graft_gemm_block b_block = {.row = done, .rows = strip.k, .column = tile.column, .columns = tile.columns};
    graft_gemm_block b_next = b_block;
    b_next.row += strip.k;
    b_next.rows = at_most(terms, k - b_next.row);
    provide_b(gemm, &b_block, tile.rows, b, &strip);
    for (int64_t i = 0; i < n_strips; ++i) {
      const graft_gemm_block a_block = a_block_of(&tile, n_strips, i, done, strip.k);
      provide_a(gemm, &a_block, a, &strip);
      strip.c = c + (k > terms ? (size_t)(a_block.row - tile.row) * strip.c_stride : 0);
      const graft_gemm_block a_next = i + 1 < n_strips ? a_block_of(&tile, n_strips, i + 1, done, strip.k)
                                                       : a_block_of(&tile, n_strips, 0, b_next.row, b_next.rows);
      strip.ahead[0] = a_ahead(gemm, &a_next);
      strip.ahead[1] = b_ahead(gemm, &b_next, i, n_strips);
      const graft_gemm_block out = {
          .row = a_block.row, .rows = a_block.rows, .column = tile.column, .columns = tile.columns};
      if (is_last) {
        strip.ahead[2] = out_ahead(gemm, &out);
        strip.ahead[3] = addend_ahead(gemm, &gemm->out.gate, &out);
        strip.ahead[4] = addend_ahead(gemm, &gemm->out.residual, &out);
      }
      core->multiply(&strip);
      if (is_last) store(gemm, &out, strip.c, strip.c_stride);
    }
  }
}
