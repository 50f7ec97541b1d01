#include "ops/common/cpu/conv.h"
#include "ops/common/cpu/pairs.h"
#include "ops/common/cpu/unroll.h"

#if defined(__AVX512F__)
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif defined(__AVX2__)
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14
#else
#define EVEN_LANES 0, 2, 4, 6
#endif

// Neighbouring output pixels of one row, and where they go within a block of panels.
typedef struct run {
  int64_t row, column;  // of the image, under the kernel's first element
  int64_t n;
  int64_t lane;  // of |out|, where the first pixel goes
  void *out;
  int64_t panel, panel_elements;  // columns of a panel, and elements from panel to panel
} run;

// An element of the kernel in one channel, which makes a row of the window matrix, and what it lies over at the first
// pixel of a run. They are ordered as weights are: channel, then kernel row, then kernel column.
typedef struct tap {
  int64_t channel, down, across;
  int64_t y, column;  // of the image
  int64_t offset;     // of that row's first pixel, in elements of x
} tap;

static inline tap tap_of(const graft_conv *c, const run *r, int64_t row) {
  const int64_t area = c->kernel[0] * c->kernel[1];
  tap t = {.channel = row / area, .down = row % area / c->kernel[1], .across = row % c->kernel[1]};
  t.y = r->row + t.down * c->dilation[0];
  t.column = r->column + t.across * c->dilation[1];
  t.offset = t.channel * c->channel_stride + t.y * c->row_stride;
  return t;
}

static inline void move_on(const graft_conv *c, const run *r, tap *t) {
  t->column += c->dilation[1];
  if (++t->across < c->kernel[1]) return;
  t->across = 0;
  t->column = r->column;
  t->y += c->dilation[0];
  t->offset += c->dilation[0] * c->row_stride;
  if (++t->down < c->kernel[0]) return;
  t->down = 0;
  t->y = r->row;
  t->offset = ++t->channel * c->channel_stride + t->y * c->row_stride;
}

// The image row under a tap, and which of its pixels is the first of the run. No data: a row of padding.
typedef struct source {
  const char *data;
  int64_t column;
} source;

static inline source source_of(const graft_conv *c, const tap *t) {
  if (t->y < 0 || t->y >= c->size[0]) return (source){NULL, t->column};
  return (source){(const char *)c->x + t->offset * graft_gemm_element_bytes(c->x_type), t->column};
}

// Asks for the image row that the next channel but one has under |t|. What was fetched long before may be gone:
// channels that are a power of two apart share a few sets of the caches. Inline, because GCC drops calls that do
// nothing but this.
ALWAYS_INLINE void fetch_later_channel(const graft_conv *c, const run *r, const tap *t) {
  enum { CHANNELS = 2 };
  if (t->across > 0 || t->y < 0 || t->y >= c->size[0] || t->channel + CHANNELS >= c->channels) return;
  const int64_t element = graft_gemm_element_bytes(c->x_type), bytes = r->n * c->stride[1] * element;
  const int64_t first = t->offset + CHANNELS * c->channel_stride + t->column;
  const char *from = (const char *)c->x + first * element;
  for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(from + byte);
}

// |n| ≤ LANES elements of an image row from |first| on; zeros where they lie outside.
static inline vec load_neighbours(const graft_conv *c, const char *row, int64_t first, int64_t n) {
  const int64_t element = graft_gemm_element_bytes(c->x_type), width = c->size[1];
  if (first >= 0 && first + LANES <= width && n == LANES) return vec_load_typed(row + first * element, c->x_type);
  const int64_t missing = first < 0 ? -first : 0, end = first + n < width ? first + n : width;
  const int64_t begin = first + missing, inside = end - begin;
  if (inside <= 0 || missing >= n) return (vec){0};
#if defined(__AVX512F__)
  // Lanes that are left out touch no memory.
  const __mmask16 lanes = (__mmask16)(((1u << inside) - 1) << missing);
  if (c->x_type == GRAFT_DTYPE_F32) return (vec)_mm512_maskz_loadu_ps(lanes, row + first * element);
#endif
  float pixels[2 * LANES] = {0};
  vec_store(pixels + missing, vec_load_typed_n(row + begin * element, c->x_type, inside));
  return vec_load(pixels);
}

// The same, |c->stride| apart.
static inline vec load_pixels(const graft_conv *c, const char *row, int64_t first, int64_t n) {
  const int64_t element = graft_gemm_element_bytes(c->x_type), stride = c->stride[1], width = c->size[1];
  if (stride == 1) return load_neighbours(c, row, first, n);
  if (stride == 2 && n == LANES && first >= 0 && first + 2 * LANES <= width) {
    const vec low = vec_load_typed(row + first * element, c->x_type);
    const vec high = vec_load_typed(row + (first + LANES) * element, c->x_type);
    return __builtin_shufflevector(low, high, EVEN_LANES);
  }
  float pixels[LANES] = {0};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t column = first + i * stride;
    if (column >= 0 && column < width) pixels[i] = vec_load_typed_n(row + column * element, c->x_type, 1)[0];
  }
  return vec_load(pixels);
}

// One row of the window matrix, whose first lane in the panels is at |out|.
static void load_some(const graft_conv *c, const run *r, source s, float *out) {
  int64_t lane = r->lane;
  for (int64_t i = 0; i < r->n;) {
    const int64_t room = LANES - lane % LANES, left = r->n - i, n = room < left ? room : left;
    const vec v = s.data ? load_pixels(c, s.data, s.column + i * c->stride[1], n) : (vec){0};
    if (n < LANES) vec_store_n(out + lane, v, n);
    else vec_store(out + lane, v);
    i += n;
    lane += n;
    if (lane < r->panel) continue;
    lane = 0;
    out += r->panel_elements;
  }
}

// Whether pixels fill whole panels and are neighbours in the image, of which all vectors of |lanes| have some under
// every tap, and all but the first and the last have nothing else: what most are.
static bool is_whole(const graft_conv *c, const run *r, int64_t lanes) {
  const int64_t last_column = r->column + (c->kernel[1] - 1) * c->dilation[1];
  return c->stride[1] == 1 && r->lane == 0 && r->n % r->panel == 0 && r->column > -lanes &&
         last_column + r->n < c->size[1] + lanes;
}

static void load_panels(const graft_conv *c, const run *r, source s, float *out) {
  const int64_t panel = r->panel, last = r->n - LANES;
  const float *row = (const float *)(const void *)s.data + s.column;
  for (int64_t i = 0; i < r->n; i += panel, out += r->panel_elements) {
    for (int64_t j = 0; j < panel; j += LANES) {
      const bool is_edge = i + j == 0 || i + j == last;
      vec_store(out + j, is_edge ? load_neighbours(c, s.data, s.column + i + j, LANES) : vec_load(row + i + j));
    }
  }
}

static void load_run(const graft_conv *c, const graft_gemm_block *block, const run *r) {
  const bool whole = c->x_type == GRAFT_DTYPE_F32 && is_whole(c, r, LANES);
  tap t = tap_of(c, r, block->row);
  for (int64_t k = 0; k < block->rows; ++k, move_on(c, r, &t)) {
    fetch_later_channel(c, r, &t);
    const source s = source_of(c, &t);
    float *const out = (float *)r->out + k * r->panel;
    if (whole && s.data) load_panels(c, r, s, out);
    else load_some(c, r, s, out);
  }
}

// Walks the block of the window matrix by runs of pixels.
static inline void walk_runs(const graft_gemm_core *core, const graft_conv *c, const graft_gemm_block *block, void *out,
                             void (*load)(const graft_conv *c, const graft_gemm_block *block, const run *r)) {
  const int64_t panel = core->panel, rows = (block->rows + core->group - 1) / core->group * core->group;
  const int64_t element = core->group == 1 ? 4 : 2, panel_elements = panel * rows, width = c->out_size[1];
  const int64_t ragged = block->columns % panel;
  char *panels = out;
  if (ragged) memset(panels + (block->columns - ragged) * rows * element, 0, (size_t)(panel_elements * element));
  for (int64_t done = 0; done < block->columns;) {
    const int64_t pixel = block->column + done, y = pixel / width, x = pixel % width;
    const int64_t row_left = width - x, block_left = block->columns - done;
    const run r = {.row = y * c->stride[0] - c->padding[0],
                   .column = x * c->stride[1] - c->padding[1],
                   .n = row_left < block_left ? row_left : block_left,
                   .lane = done % panel,
                   .out = panels + done / panel * panel_elements * element,
                   .panel = panel,
                   .panel_elements = panel_elements};
    load(c, block, &r);
    done += r.n;
  }
}

static void load_windows(const graft_gemm_core *core, const void *conv, const graft_gemm_block *block, float *out) {
  walk_runs(core, conv, block, out, load_run);
}

const graft_conv_core GRAFT_TARGETED(graft_conv_core) = {
    .gemm = &GRAFT_TARGETED(graft_gemm_core),
    .load_windows = load_windows,
};

#if defined(__AVX512F__)
// For the core that multiplies bf16 by bf16: panels hold pairs of rows of the window matrix, element by element.

// |n| ≤ PAIR_LANES pixels, the first under output pixel |i| of the run; zeros where they lie outside.
static inline vec_halves load_halves(const graft_conv *c, source s, int64_t i, int64_t n) {
  const int64_t stride = c->stride[1], first = s.column + i * stride, width = c->size[1];
  if (!s.data) return (vec_halves){0};
  const uint16_t *row = (const uint16_t *)(const void *)s.data;
  if (stride == 1) {
    const int64_t outside = first < 0 ? -first : 0, inside = width - first < n ? width - first : n;
    if (inside <= outside) return (vec_halves){0};
    return vec_load_halves(row + first, outside, inside);
  }
  vec_halves pixels = {0};
  for (int64_t j = 0; j < n; ++j) {
    const int64_t column = first + j * stride;
    if (column >= 0 && column < width) pixels[j] = row[column];
  }
  return pixels;
}

// Columns |lane| … |lane| + |n| - 1 of a pair of rows of a panel.
static inline void store_pairs(uint16_t *out, vec_halves even, vec_halves odd, int64_t lane, int64_t n) {
  const vec_u32 low = vec_low_pairs(even, odd), high = vec_high_pairs(even, odd);
  if (n == PAIR_LANES) {
    memcpy(out, &low, sizeof low);
    memcpy(out + PAIR_LANES, &high, sizeof high);
    return;
  }
  const uint32_t lanes = (uint32_t)((UINT64_C(1) << n) - 1);
  _mm512_mask_storeu_epi32(out + 2 * lane, (__mmask16)lanes, (__m512i)low);
  _mm512_mask_storeu_epi32(out + 2 * lane + PAIR_LANES, (__mmask16)(lanes >> LANES), (__m512i)high);
}

// The first or the last panel of a whole run. Without branches: none would be foreseen.
static inline vec_halves load_edge(const graft_conv *c, source s, int64_t i) {
  const int64_t first = s.column + i, left = c->size[1] - first;
  if (!s.data) return (vec_halves){0};
  return vec_load_halves((const uint16_t *)(const void *)s.data + first, first < 0 ? -first : 0,
                         left < PAIR_LANES ? left : PAIR_LANES);
}

static void load_whole_panels(const graft_conv *c, const run *r, const source s[2], uint16_t *out) {
  static const uint16_t padding[PAIR_LANES];
  const int64_t n = PAIR_LANES, last = r->n - n, steps[2] = {s[0].data ? n : 0, s[1].data ? n : 0};
  const uint16_t *from[2];
  VEC_UNROLL
  for (int k = 0; k < 2; ++k) {
    from[k] = s[k].data ? (const uint16_t *)(const void *)s[k].data + s[k].column : padding;
  }
  store_pairs(out, load_edge(c, s[0], 0), load_edge(c, s[1], 0), 0, n);
  if (last == 0) return;
  for (int64_t i = n; i < last; i += n) {
    vec_halves pixels[2];
    VEC_UNROLL
    for (int k = 0; k < 2; ++k) {
      from[k] += steps[k];
      memcpy(&pixels[k], from[k], sizeof pixels[k]);
    }
    out += r->panel_elements;
    store_pairs(out, pixels[0], pixels[1], 0, n);
  }
  out += r->panel_elements;
  store_pairs(out, load_edge(c, s[0], last), load_edge(c, s[1], last), 0, n);
}

static void load_pair(const graft_conv *c, const run *r, const source s[2], uint16_t *out) {
  int64_t lane = r->lane;
  for (int64_t i = 0; i < r->n;) {
    const int64_t room = PAIR_LANES - lane, left = r->n - i, n = room < left ? room : left;
    store_pairs(out, load_halves(c, s[0], i, n), load_halves(c, s[1], i, n), lane, n);
    i += n;
    lane = 0;
    out += r->panel_elements;
  }
}

static void load_run_of_pairs(const graft_conv *c, const graft_gemm_block *block, const run *r) {
  const bool whole = is_whole(c, r, PAIR_LANES);
  tap t = tap_of(c, r, block->row);
  for (int64_t k = 0; k < block->rows; k += 2) {
    source pair[2] = {{0}};
    for (int64_t i = 0; i < 2 && k + i < block->rows; ++i, move_on(c, r, &t)) {
      fetch_later_channel(c, r, &t);
      pair[i] = source_of(c, &t);
    }
    uint16_t *const out = (uint16_t *)r->out + k * r->panel;
    if (whole) load_whole_panels(c, r, pair, out);
    else load_pair(c, r, pair, out);
  }
}

static void load_windows_of_pairs(const graft_gemm_core *core, const void *conv, const graft_gemm_block *block,
                                  float *out) {
  walk_runs(core, conv, block, out, load_run_of_pairs);
}

const graft_conv_core graft_conv_core__avx512_bf16 = {
    .gemm = &graft_gemm_core__avx512_bf16,
    .load_windows = load_windows_of_pairs,
};
#endif
