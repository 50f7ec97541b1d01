#include "ops/common/cpu/gemm_i8.h"

#include <string.h>

// As in gemm.c; laying out B costs nothing here, so that parts may have few rows.
enum { ITEMS_WANTED = 48, ROWS_WANTED = 28, ROWS_MOST = 512, PANELS_WANTED = 2, MAX_BLOCK_COLUMNS = 256 };
enum { ROW_PANELS_WANTED = 4 };  // a single row takes several panels at once

typedef struct split {
  int64_t strips, panels, m_parts, n_parts;
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
static int64_t part_begin(int64_t n, int64_t parts, int64_t i) {
  return n / parts * i + at_most(i, n % parts);
}

static split split_of(const graft_gemm_i8 *g) {
  const graft_gemm_i8_core *core = g->core;
  split s = {.strips = ceil_div(g->m, core->rows_max), .panels = graft_gemm_i8_panels(core, g->n)};
  s.n_parts = ceil_div(s.panels * core->panel, core->block_columns);
  if (s.n_parts == 0 || s.strips == 0) return s;
  s.m_parts = at_most(ceil_div(ITEMS_WANTED, s.n_parts), at_least(1, g->m / ROWS_WANTED));
  s.m_parts = at_least(s.m_parts, ceil_div(g->m, ROWS_MOST));
  const int64_t panels_wanted = g->m == 1 ? ROW_PANELS_WANTED : PANELS_WANTED;
  const int64_t n_parts = at_most(ceil_div(ITEMS_WANTED, s.m_parts), ceil_div(s.panels, panels_wanted));
  s.n_parts = at_least(s.n_parts, n_parts);
  return s;
}

static graft_gemm_block rectangle_of(const graft_gemm_i8 *g, const split *s, int64_t item) {
  const int64_t i = item % s->m_parts, j = item / s->m_parts, panel = g->core->panel;
  const int64_t row = part_begin(g->m, s->strips, part_begin(s->strips, s->m_parts, i));
  const int64_t end = part_begin(g->m, s->strips, part_begin(s->strips, s->m_parts, i + 1));
  const int64_t column = part_begin(s->panels, s->n_parts, j) * panel;
  return (graft_gemm_block){.row = row,
                            .rows = end - row,
                            .column = column,
                            .columns = at_most(g->n, part_begin(s->panels, s->n_parts, j + 1) * panel) - column};
}

const graft_gemm_i8_core *graft_gemm_i8_core_for(const graft_gemm_i8_core *core, uint64_t features) {
  const graft_gemm_i8_core *best = core;
  for (; core; core = core->better) {
    if ((core->required_features & ~features) == 0) best = core;
  }
  return best;
}

int64_t graft_gemm_i8_panels(const graft_gemm_i8_core *core, int64_t n) {
  return ceil_div(n, core->panel);
}

static int64_t n_chunks(int64_t k) {
  return at_least(1, ceil_div(k, GRAFT_GEMM_I8_CHUNK));
}

static int64_t panel_bytes(const graft_gemm_i8_core *core, int64_t k) {
  return ceil_div(k, core->group) * core->group * core->panel;
}

// Where the start values of a packed weight are.
static int64_t starts_offset(const graft_gemm_i8_core *core, int64_t n, int64_t k) {
  return graft_gemm_i8_panels(core, n) * panel_bytes(core, k);
}

size_t graft_gemm_i8_packed_bytes(const graft_gemm_i8_core *core, int64_t n, int64_t k) {
  const int64_t columns = graft_gemm_i8_panels(core, n) * core->panel;
  const int64_t starts = core->is_unsigned ? n_chunks(k) * columns * (int64_t)sizeof(int32_t) : 0;
  return (size_t)(starts_offset(core, n, k) + starts);
}

static void pack_column(const graft_gemm_i8_core *core, const graft_gemm_i8_weight *w, int64_t column, int8_t *out) {
  const int8_t *from = w->data + (column - w->first_row) * w->row_stride;
  int64_t p = 0;
  if (core->group == 4) {
    for (; p + 4 <= w->k; p += 4) memcpy(out + p * core->panel, from + p, 4);
  } else {
    for (; p + 8 <= w->k; p += 8) memcpy(out + p * core->panel, from + p, 8);
  }
  memcpy(out + p * core->panel, from + p, (size_t)(w->k - p));
}

static uint32_t column_sum(const graft_gemm_i8_weight *w, int64_t column, int64_t first, int64_t end) {
  const int8_t *from = w->data + (column - w->first_row) * w->row_stride;
  uint32_t sum = 0;
  for (int64_t p = first; p < end; ++p) sum += (uint32_t)from[p];
  return sum;
}

static void pack_starts(const graft_gemm_i8_core *core, const graft_gemm_i8_weight *w, int64_t column, void *out) {
  const int64_t columns = graft_gemm_i8_panels(core, w->n) * core->panel;
  char *starts = (char *)out + starts_offset(core, w->n, w->k);
  for (int64_t chunk = 0; chunk < n_chunks(w->k); ++chunk) {
    const int64_t first = chunk * GRAFT_GEMM_I8_CHUNK;
    uint32_t start = 0;
    if (column < w->n) start = 0u - 128u * column_sum(w, column, first, at_most(w->k, first + GRAFT_GEMM_I8_CHUNK));
    memcpy(starts + (size_t)(chunk * columns + column) * sizeof start, &start, sizeof start);
  }
}

void graft_gemm_i8_pack_panel(const graft_gemm_i8_core *core, const graft_gemm_i8_weight *weight, int64_t panel,
                              void *out) {
  const int64_t bytes = panel_bytes(core, weight->k);
  int8_t *to = (int8_t *)out + panel * bytes;
  memset(to, 0, (size_t)bytes);
  for (int32_t j = 0; j < core->panel; ++j) {
    const int64_t column = panel * core->panel + j;
    if (column < weight->n) pack_column(core, weight, column, to + core->group * j);
    if (core->is_unsigned) pack_starts(core, weight, column, out);
  }
}

void graft_gemm_i8_pack(const graft_gemm_i8_core *core, const graft_gemm_i8_weight *weight, void *out) {
  const int64_t n = graft_gemm_i8_panels(core, weight->n);
  for (int64_t panel = 0; panel < n; ++panel) graft_gemm_i8_pack_panel(core, weight, panel, out);
}

int64_t graft_gemm_i8_items(const graft_gemm_i8 *gemm) {
  const split s = split_of(gemm);
  return s.m_parts * s.n_parts;
}

static size_t a_bytes(const graft_gemm_i8_core *core) {
  return (size_t)core->rows_max * GRAFT_GEMM_I8_A_STRIDE * (size_t)core->a_bytes;
}

// Elements of the tile of sums: all strips of an item where they are visited more than once, else one.
static size_t c_elements(const graft_gemm_i8 *gemm, const split *s) {
  const int64_t strips = gemm->k > GRAFT_GEMM_I8_K ? ceil_div(s->strips, s->m_parts) : 1;
  return (size_t)(strips * gemm->core->rows_max * gemm->core->block_columns);
}

// With |n_c| elements in the tile of sums.
static size_t scratch_bytes(const graft_gemm_i8_core *core, int64_t k, size_t n_c) {
  const size_t wide = k > GRAFT_GEMM_I8_CHUNK ? sizeof(int64_t) : 0;
  return (a_bytes(core) + n_c * (sizeof(int32_t) + wide) + 63) & ~(size_t)63;
}

size_t graft_gemm_i8_scratch_bytes(const graft_gemm_i8 *gemm) {
  const split s = split_of(gemm);
  if (s.m_parts * s.n_parts == 0) return 0;
  return scratch_bytes(gemm->core, gemm->k, c_elements(gemm, &s));
}

int64_t graft_gemm_i8_few_rows(const graft_gemm_i8_core *core) {
  return GRAFT_GEMM_I8_MOST_FEW_ROWS / core->rows_max * core->rows_max;
}

static size_t few_elements(const graft_gemm_i8_core *core) {
  return (size_t)(graft_gemm_i8_few_rows(core) * core->block_columns);
}

size_t graft_gemm_i8_few_scratch_bytes(const graft_gemm_i8_core *core, int64_t k) {
  return scratch_bytes(core, k, few_elements(core));
}

// An item at work.
typedef struct tile {
  graft_gemm_block area;
  int64_t n_strips;
  bool has_a;  // the only strip of A is there already
  void *a;
  int32_t *c;
  int64_t *wide;  // NULL: sums fit in 32 bits
  float w[MAX_BLOCK_COLUMNS], bias[MAX_BLOCK_COLUMNS];
  graft_gemm_i8_direct direct;  // of the first row
} tile;

static graft_gemm_block strip_of(const tile *t, int64_t i) {
  const int64_t begin = part_begin(t->area.rows, t->n_strips, i), end = part_begin(t->area.rows, t->n_strips, i + 1);
  graft_gemm_block strip = t->area;
  strip.row += begin;
  strip.rows = end - begin;
  return strip;
}

// Where the sums of a strip lie in the tile.
static size_t c_offset(const graft_gemm_i8 *g, const tile *t, const graft_gemm_block *strip) {
  return g->k > GRAFT_GEMM_I8_K ? (size_t)(strip->row - t->area.row) * (size_t)g->core->block_columns : 0;
}

// Results that are float32 sums times scales, perhaps plus a bias, need no second pass.
static void prepare_direct(const graft_gemm_i8 *g, tile *t) {
  const graft_gemm_i8_scales *scales = &g->scales;
  const graft_gemm_output *out = &g->out;
  if (t->wide || scales->is_comfy || out->type != GRAFT_DTYPE_F32 || out->activation != GRAFT_GEMM_LINEAR) return;
  if (out->gate.data || out->residual.data || (out->bias.data && out->bias.row_stride != 0)) return;
  if (out->bias.data && out->bias.column_stride != 1) return;
  const int64_t column = t->area.column;
  const bool is_row = scales->w && scales->w_step == 1;
  for (int64_t j = 0; !is_row && j < t->area.columns; ++j) t->w[j] = scales->w ? scales->w[0] : 1;
  t->direct = (graft_gemm_i8_direct){.out = (float *)out->data + t->area.row * out->row_stride + column,
                                     .out_stride = (size_t)out->row_stride,
                                     .x = scales->x + t->area.row * scales->x_step,
                                     .x_step = scales->x_step,
                                     .w = is_row ? scales->w + column : t->w};
  if (!out->bias.data) return;
  g->core->floats->expand(graft_gemm_matrix_at(out->bias, 0, column).data, out->bias.type, (size_t)t->area.columns,
                          t->bias);
  t->direct.bias = t->bias;
}

static graft_gemm_i8_direct direct_of(const tile *t, const graft_gemm_block *strip) {
  graft_gemm_i8_direct direct = t->direct;
  const int64_t row = strip->row - t->area.row;
  if (!direct.out) return direct;
  direct.out += (size_t)row * direct.out_stride;
  direct.x += row * direct.x_step;
  return direct;
}

// Stores what the micro-kernel left in |c|.
static void finish(const graft_gemm_i8 *g, const tile *t, const graft_gemm_block *strip) {
  const size_t stride = (size_t)g->core->block_columns, offset = c_offset(g, t, strip);
  graft_gemm_block rest = *strip;
  const int64_t done = t->direct.out ? strip->columns / g->core->panel * g->core->panel : 0;
  rest.column += done;
  rest.columns -= done;
  if (rest.columns == 0) return;
  g->core->store(&g->scales, &g->out, &rest, t->wide ? t->wide + offset : NULL, t->c + offset + done, stride);
}

// Adds the sums of chunk |chunk| to the wide ones.
static void widen(const graft_gemm_i8 *g, const tile *t, const graft_gemm_block *strip, int64_t chunk) {
  const size_t stride = (size_t)g->core->block_columns, offset = c_offset(g, t, strip);
  for (int64_t i = 0; i < strip->rows; ++i) {
    const int32_t *c = t->c + offset + (size_t)i * stride;
    int64_t *wide = t->wide + offset + (size_t)i * stride;
    for (int64_t j = 0; j < strip->columns; ++j) wide[j] = (chunk > 0 ? wide[j] : 0) + c[j];
  }
}

// |n_k| terms of a strip's rows of A from |k| on.
static graft_gemm_ahead a_ahead(const graft_gemm_i8 *g, const graft_gemm_block *strip, int64_t k, int64_t n_k) {
  return (graft_gemm_ahead){.data = (const char *)g->a + strip->row * g->a_stride + k,
                            .rows = n_k > 0 ? strip->rows : 0,
                            .row_bytes = n_k,
                            .stride = g->a_stride};
}

// Where a strip's results go.
static graft_gemm_ahead out_ahead(const graft_gemm_i8 *g, const graft_gemm_block *strip) {
  const int64_t element = graft_gemm_element_bytes(g->out.type);
  return (graft_gemm_ahead){
      .data = (const char *)g->out.data + (strip->row * g->out.row_stride + strip->column) * element,
      .rows = strip->rows,
      .row_bytes = strip->columns * element,
      .stride = g->out.row_stride * element};
}

// Terms |k| … k + n_k of all strips, which lie in one chunk.
static void run_block(const graft_gemm_i8 *g, const tile *t, int64_t k, int64_t n_k) {
  const graft_gemm_i8_core *core = g->core;
  const int64_t chunk = k / GRAFT_GEMM_I8_CHUNK, columns = graft_gemm_i8_panels(core, g->n) * core->panel;
  const bool ends_chunk = k + n_k == g->k || (k + n_k) % GRAFT_GEMM_I8_CHUNK == 0;
  const int8_t *b = g->b;
  graft_gemm_i8_strip strip = {.a = t->a,
                               .b = b + t->area.column / core->panel * panel_bytes(core, g->k) + k * core->panel,
                               .groups = (int32_t)ceil_div(n_k, core->group),
                               .columns = t->area.columns,
                               .panel_stride = (size_t)panel_bytes(core, g->k),
                               .c_stride = (size_t)core->block_columns,
                               .accumulate = k % GRAFT_GEMM_I8_CHUNK != 0};
  if (core->is_unsigned) {
    const void *starts = b + starts_offset(core, g->n, g->k);
    strip.start = (const int32_t *)starts + chunk * columns + t->area.column;
  }
  for (int64_t i = 0; i < t->n_strips; ++i) {
    const graft_gemm_block area = strip_of(t, i);
    const graft_gemm_block terms = {.row = area.row, .rows = area.rows, .column = k, .columns = n_k};
    if (!t->has_a) core->load_rows(g->a, g->a_stride, &terms, t->a);
    strip.rows = (int32_t)area.rows;
    strip.c = t->c + c_offset(g, t, &area);
    const int64_t next = k + n_k, n_next = at_most(GRAFT_GEMM_I8_K, g->k - next);
    const graft_gemm_block after = strip_of(t, i + 1 < t->n_strips ? i + 1 : 0);
    strip.ahead[0] = i + 1 < t->n_strips ? a_ahead(g, &after, k, n_k) : a_ahead(g, &after, next, n_next);
    if (next == g->k) {
      strip.ahead[1] = out_ahead(g, &area);
      strip.direct = direct_of(t, &area);
    }
    strip.next_b = i == 0 ? strip.b + (n_next > 0 ? n_k * core->panel : 0) : NULL;
    core->multiply(&strip);
    if (t->wide && ends_chunk) widen(g, t, &area, chunk);
    if (k + n_k == g->k) finish(g, t, &area);
  }
}

// |n_c| as for scratch_bytes.
static void run_area(const graft_gemm_i8 *gemm, const graft_gemm_block *area, bool has_a, size_t n_c, void *scratch) {
  const graft_gemm_i8_core *core = gemm->core;
  tile t;
  t.area = *area;
  t.has_a = has_a;
  t.a = scratch;
  t.wide = NULL;
  t.direct = (graft_gemm_i8_direct){0};
  t.n_strips = ceil_div(t.area.rows, core->rows_max);
  char *next = (char *)scratch + a_bytes(core);
  if (gemm->k > GRAFT_GEMM_I8_CHUNK) {
    t.wide = (int64_t *)(void *)next;
    next += n_c * sizeof *t.wide;
  }
  t.c = (int32_t *)(void *)next;
  prepare_direct(gemm, &t);
  // A product of no terms still has an output: one pass with an empty block.
  for (int64_t k = 0; k == 0 || k < gemm->k; k += GRAFT_GEMM_I8_K) {
    run_block(gemm, &t, k, at_most(GRAFT_GEMM_I8_K, gemm->k - k));
  }
}

void graft_gemm_i8_run(const graft_gemm_i8 *gemm, int64_t item, void *scratch) {
  const split s = split_of(gemm);
  const graft_gemm_block area = rectangle_of(gemm, &s, item);
  run_area(gemm, &area, false, c_elements(gemm, &s), scratch);
}

void graft_gemm_i8_run_few(const graft_gemm_i8 *gemm, int64_t column, int64_t end, bool has_a, void *scratch) {
  const graft_gemm_i8_core *core = gemm->core;
  const bool keeps_a = gemm->m <= core->rows_max && gemm->k <= GRAFT_GEMM_I8_K;
  for (int64_t first = column; first < end; first += core->block_columns) {
    const graft_gemm_block area = {
        .rows = gemm->m, .column = first, .columns = at_most(core->block_columns, end - first)};
    run_area(gemm, &area, keeps_a && (has_a || first > column), few_elements(core), scratch);
  }
}
