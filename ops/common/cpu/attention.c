#include "ops/common/cpu/attention.h"

#include <math.h>

// An item is a head's block of queries. The more of them, the less laying out keys and values weighs; but there should
// be enough items for many threads.
enum { ITEMS_WANTED = 32, QUERIES_WANTED = 112, QUERIES_MOST = 1024 };

// Scratch of one item, in floats. Keys and values are laid out in panels, block by block.
typedef struct layout {
  int64_t block_keys, query_parts, scores_stride;
  int64_t k_columns, v_columns;  // keys and values per row, rounded up to panels
  int64_t strip, scores, k, v, out, largest, sum, mask, end;
} layout;

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
static int64_t at_least(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// Bytes of an element of keys and values in panels, and their terms rounded up to whole groups.
static int64_t element_of(const graft_gemm_core *core) {
  return core->group == 1 ? 4 : 2;
}
static int64_t whole_groups(const graft_gemm_core *core, int64_t terms) {
  return ceil_div(terms, core->group) * core->group;
}

static int64_t query_parts_of(const graft_attention *a) {
  if (a->query_parts > 0) return a->query_parts;
  const int64_t heads = at_least(1, a->batches * a->heads);
  const int64_t parts = at_most(ceil_div(ITEMS_WANTED, heads), a->queries / QUERIES_WANTED);
  return at_least(at_least(parts, 1), ceil_div(a->queries, QUERIES_MOST));
}

static layout layout_of(const graft_attention *a) {
  const graft_gemm_core *core = a->core->gemm;
  layout l = {0};
  // Keys and values of a block share the L2 cache.
  l.block_keys = a->width + a->value_width <= 512 ? core->terms : core->terms / 2;
  l.query_parts = query_parts_of(a);
  const int64_t queries = ceil_div(a->queries, l.query_parts), strip = (int64_t)core->rows_max * GRAFT_GEMM_A_STRIDE;
  l.k_columns = ceil_div(at_most(l.block_keys, a->keys), core->panel) * core->panel;
  l.v_columns = ceil_div(a->value_width, core->panel) * core->panel;
  // Weights take the place of scores: rows of a strip must not overtake them.
  l.scores_stride = at_least(l.block_keys + 16, GRAFT_GEMM_A_STRIDE);
  l.scores = l.strip + strip;
  l.k = l.scores + core->rows_max * l.scores_stride;
  l.v = l.k + l.k_columns * whole_groups(core, a->width) * element_of(core) / 4;
  l.out = l.v + l.v_columns * l.k_columns * element_of(core) / 4;
  l.largest = l.out + (a->row_stride > 0 ? 0 : l.v_columns * queries);
  l.sum = l.largest + queries;
  l.mask = ceil_div(l.sum + queries, 16) * 16;
  l.end = l.mask + l.block_keys;
  return l;
}

int64_t graft_attention_items(const graft_attention *attention) {
  if (attention->queries == 0) return 0;
  return attention->batches * attention->heads * layout_of(attention).query_parts;
}

size_t graft_attention_scratch_bytes(const graft_attention *attention) {
  return (size_t)ceil_div(layout_of(attention).end, 16) * 64;
}

// One item under way.
typedef struct work {
  const graft_attention *attention;
  layout layout;
  float *scratch;
  graft_gemm_matrix q, k, v;  // of this head: [queries, width], [width, keys], [keys, value_width]
  const uint8_t *key_mask;
  const float *added;  // of this head
  float *out;          // of this head and its first query
  int64_t out_stride;
  int64_t first_query, n_queries;
  int64_t first_key, n_keys;  // the block at hand
} work;

static graft_gemm_matrix head_of(const graft_attention_tensor *t, int64_t batch, int64_t head) {
  const int64_t offset = batch * t->batch_stride + head * t->head_stride;
  return (graft_gemm_matrix){.data = (const char *)t->data + offset * graft_gemm_element_bytes(t->type),
                             .type = t->type,
                             .row_stride = t->token_stride,
                             .column_stride = 1};
}

// Where the panels of keys are from channel |k| on.
static float *keys_at(const work *w, int64_t k) {
  return w->scratch + w->layout.k + k * w->layout.k_columns * element_of(w->attention->core->gemm) / 4;
}

static void load_block(work *w) {
  const graft_attention *a = w->attention;
  const graft_gemm_core *core = a->core->gemm;
  for (int64_t k = 0; k < a->width; k += core->terms) {
    const graft_gemm_block block = {
        .row = k, .rows = at_most(core->terms, a->width - k), .column = w->first_key, .columns = w->n_keys};
    core->load_panels(&w->k, &block, keys_at(w, k));
  }
  const graft_gemm_block block = {.row = w->first_key, .rows = w->n_keys, .columns = a->value_width};
  core->load_panels(&w->v, &block, w->scratch + w->layout.v);
  if (!w->key_mask) return;
  int32_t *mask = (int32_t *)(w->scratch + w->layout.mask);
  for (int64_t j = 0; j < w->n_keys; ++j) mask[j] = w->key_mask[w->first_key + j] ? -1 : 0;
}

// |rows| tokens of keys or values from |row| on.
static graft_gemm_ahead ahead_of(const graft_gemm_matrix *matrix, int64_t row, int64_t rows, int64_t width) {
  const int64_t element = graft_gemm_element_bytes(matrix->type),
                stride = at_least(matrix->row_stride, matrix->column_stride);
  return (graft_gemm_ahead){.data = (const char *)matrix->data + row * stride * element,
                            .rows = at_least(rows, 0),
                            .row_bytes = width * element,
                            .stride = stride * element};
}

static void score_strip(const work *w, int64_t query, int32_t rows, graft_gemm_ahead ahead) {
  const graft_attention *a = w->attention;
  const graft_gemm_core *core = a->core->gemm;
  graft_gemm_strip strip = {.a = w->scratch + w->layout.strip,
                            .a_stride = GRAFT_GEMM_A_STRIDE,
                            .b_type = GRAFT_DTYPE_F32,
                            .rows = rows,
                            .columns = w->n_keys,
                            .c = w->scratch + w->layout.scores,
                            .c_stride = (size_t)w->layout.scores_stride,
                            .ahead = {ahead}};
  for (int64_t k = 0; k == 0 || k < a->width; k += core->terms) {
    const graft_gemm_block block = {
        .row = query, .rows = rows, .column = k, .columns = at_most(core->terms, a->width - k)};
    core->load_rows(&w->q, &block, w->scratch + w->layout.strip);
    strip.b = keys_at(w, k);
    strip.k = (int32_t)block.columns;
    strip.panel_stride = (size_t)(whole_groups(core, block.columns) * core->panel);
    strip.accumulate = k > 0;
    core->multiply(&strip);
  }
}

static void attend_strip(const work *w, int64_t row, int32_t rows, const graft_gemm_ahead ahead[2]) {
  const graft_attention *a = w->attention;
  const graft_gemm_core *core = a->core->gemm;
  const layout *l = &w->layout;
  const int64_t query = w->first_query + row;
  const int64_t n_visible = query + a->keys - a->queries + 1 - w->first_key;
  // Nothing of a later block to see; the first block always sets the output.
  if (a->is_causal && w->first_key > 0 && n_visible + rows <= 1) return;
  score_strip(w, query, rows, ahead[0]);
  float *out = w->out + row * w->out_stride;
  const graft_attention_strip scores = {
      .scores = w->scratch + l->scores,
      .scores_stride = l->scores_stride,
      .weights_bytes = (size_t)(whole_groups(core, w->n_keys) * element_of(core)),
      .rest = w->scratch + l->strip,  // queries are not needed any more
      .rows = rows,
      .keys = w->n_keys,
      .n_visible = a->is_causal ? n_visible : w->n_keys,
      .masked = w->key_mask ? (const int32_t *)(w->scratch + l->mask) : NULL,
      .scale = a->scale,
      .added = w->added ? w->added + query * a->added_query_stride + w->first_key : NULL,
      .added_stride = a->added_query_stride,
      .largest = w->scratch + l->largest + row,
      .sum = w->scratch + l->sum + row,
      .out = w->first_key > 0 ? out : NULL,
      .width = a->value_width,
      .out_stride = w->out_stride,
  };
  a->core->weigh(&scores);
  graft_gemm_strip values = {.a = scores.scores,
                             .a_stride = GRAFT_GEMM_A_STRIDE,
                             .b = w->scratch + l->v,
                             .b_type = GRAFT_DTYPE_F32,
                             .rows = rows,
                             .k = (int32_t)w->n_keys,
                             .columns = a->value_width,
                             .panel_stride = (size_t)(whole_groups(core, w->n_keys) * core->panel),
                             .c = out,
                             .c_stride = (size_t)w->out_stride,
                             .accumulate = w->first_key > 0,
                             .ahead = {ahead[1]}};
  core->multiply(&values);
  if (!a->core->has_rest) return;
  values.a = scores.rest;
  values.accumulate = true;
  values.ahead[0] = (graft_gemm_ahead){0};
  core->multiply(&values);
}

static void attend_block(work *w) {
  const graft_attention *a = w->attention;
  const int64_t n_strips = ceil_div(w->n_queries, a->core->gemm->rows_max);
  const int64_t next = w->first_key + w->n_keys, n_next = at_most(w->layout.block_keys, a->keys - next);
  load_block(w);
  for (int64_t i = 0; i < n_strips; ++i) {
    const int64_t row = w->n_queries * i / n_strips, end = w->n_queries * (i + 1) / n_strips;
    const int64_t first = n_next * i / n_strips, n = n_next * (i + 1) / n_strips - first;
    graft_gemm_ahead ahead[2] = {{0}, ahead_of(&w->v, next + first, n, a->value_width)};
    if (a->k_width_stride == 1) ahead[0] = ahead_of(&w->k, next + first, n, a->width);
    attend_strip(w, row, (int32_t)(end - row), ahead);
  }
}

static void finish(const work *w, int64_t batch, int64_t head) {
  const graft_attention *a = w->attention;
  const int64_t offset = batch * a->out.batch_stride + head * a->out.head_stride;
  for (int64_t i = 0; i < w->n_queries; ++i) {
    a->core->normalise(w->out + i * w->out_stride, a->value_width, w->scratch[w->layout.sum + i]);
  }
  if (a->row_stride > 0) return;
  const graft_gemm_output output = {.data = (char *)a->out_data + offset * graft_gemm_element_bytes(a->out.type),
                                    .type = a->out.type,
                                    .row_stride = a->out.token_stride};
  const graft_gemm_block block = {.row = w->first_query, .rows = w->n_queries, .columns = a->value_width};
  a->core->gemm->store(&output, &block, w->out, (size_t)w->out_stride);
}

void graft_attention_run(const graft_attention *attention, int64_t item, void *scratch) {
  const graft_attention *a = attention;
  work w = {.attention = a, .layout = layout_of(a), .scratch = scratch};
  const int64_t parts = w.layout.query_parts, part = item % parts, head = item / parts % a->heads;
  const int64_t batch = item / parts / a->heads, key_head = head / (a->heads / a->key_heads);
  w.first_query = a->queries * part / parts;
  w.n_queries = a->queries * (part + 1) / parts - w.first_query;
  w.q = head_of(&a->q, batch, head);
  w.k = head_of(&a->k, batch, key_head);
  w.k.column_stride = w.k.row_stride;
  w.k.row_stride = a->k_width_stride;
  w.v = head_of(&a->v, batch, key_head);
  w.out = a->row_stride > 0 ? a->rows + head * a->value_width : w.scratch + w.layout.out;
  w.out_stride = a->row_stride > 0 ? a->row_stride : w.layout.v_columns;
  if (a->added) w.added = a->added + batch * a->added_batch_stride + head * a->added_head_stride;
  if (a->key_mask) w.key_mask = a->key_mask + batch * a->key_mask_stride;
  for (int64_t i = 0; i < w.n_queries; ++i) {
    w.scratch[w.layout.largest + i] = -HUGE_VALF;
    w.scratch[w.layout.sum + i] = 0.0f;
  }
  int64_t seen = a->keys;
  if (a->is_causal) seen = at_least(1, at_most(seen, w.first_query + w.n_queries + a->keys - a->queries));
  for (; w.first_key == 0 || w.first_key < seen; w.first_key += w.layout.block_keys) {
    w.n_keys = at_most(w.layout.block_keys, a->keys - w.first_key);
    attend_block(&w);
  }
  finish(&w, batch, head);
}
