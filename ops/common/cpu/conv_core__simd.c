#include "ops/common/cpu/conv.h"
#include "ops/common/cpu/simd.h"

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
  float *out;
  int64_t panel, panel_floats;  // columns of a panel, and floats from panel to panel
} run;

// |n| ≤ LANES elements of an image row from |first| on; zeros where they lie outside.
static inline vec load_neighbours(const graft_conv *c, const char *row, int64_t first, int64_t n) {
  const int64_t element = graft_gemm_element_bytes(c->x_type), width = c->size[1];
  if (first >= 0 && first + LANES <= width && n == LANES) return vec_load_typed(row + first * element, c->x_type);
  const int64_t missing = first < 0 ? -first : 0, end = first + n < width ? first + n : width;
  const int64_t begin = first + missing, inside = end - begin;
  if (inside <= 0 || missing >= n) return (vec){0};
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

// One row of the window matrix: the pixels of |r| under one element of the kernel. |row| NULL is a row of padding.
static void load_row(const graft_conv *c, const run *r, const char *row, int64_t column, float *out) {
  int64_t lane = r->lane;
  for (int64_t i = 0; i < r->n;) {
    const int64_t room = LANES - lane % LANES, left = r->n - i, n = room < left ? room : left;
    const vec v = row ? load_pixels(c, row, column + i * c->stride[1], n) : (vec){0};
    if (n < LANES) vec_store_n(out + lane, v, n);
    else vec_store(out + lane, v);
    i += n;
    lane += n;
    if (lane == r->panel) {
      lane = 0;
      out += r->panel_floats;
    }
  }
}

// Rows |block->row| … of the window matrix for one run. They are ordered as weights are: channel, then kernel row, then
// kernel column.
static void load_run(const graft_conv *c, const graft_gemm_block *block, const run *r) {
  const int64_t area = c->kernel[0] * c->kernel[1], element = graft_gemm_element_bytes(c->x_type);
  int64_t channel = block->row / area, down = block->row % area / c->kernel[1], across = block->row % c->kernel[1];
  for (int64_t k = 0; k < block->rows; ++k) {
    const int64_t y = r->row + down * c->dilation[0], x = r->column + across * c->dilation[1];
    const bool is_inside = y >= 0 && y < c->size[0];
    const int64_t offset = channel * c->channel_stride + y * c->row_stride;
    load_row(c, r, is_inside ? (const char *)c->x + offset * element : NULL, x, r->out + k * r->panel);
    if (++across < c->kernel[1]) continue;
    across = 0;
    if (++down < c->kernel[0]) continue;
    down = 0;
    ++channel;
  }
}

static void load_windows(const graft_gemm_core *core, const void *conv, const graft_gemm_block *block, float *out) {
  const graft_conv *c = conv;
  const int64_t panel = core->panel, panel_floats = panel * block->rows, width = c->out_size[1];
  const int64_t ragged = block->columns % panel;
  if (ragged) memset(out + (block->columns - ragged) * block->rows, 0, (size_t)panel_floats * sizeof *out);
  for (int64_t done = 0; done < block->columns;) {
    const int64_t pixel = block->column + done, y = pixel / width, x = pixel % width;
    const int64_t row_left = width - x, block_left = block->columns - done;
    const run r = {.row = y * c->stride[0] - c->padding[0],
                   .column = x * c->stride[1] - c->padding[1],
                   .n = row_left < block_left ? row_left : block_left,
                   .lane = done % panel,
                   .out = out + done / panel * panel_floats,
                   .panel = panel,
                   .panel_floats = panel_floats};
    load_run(c, block, &r);
    done += r.n;
  }
}

const graft_conv_core GRAFT_TARGETED(graft_conv_core) = {
    .gemm = &GRAFT_TARGETED(graft_gemm_core),
    .load_windows = load_windows,
};
