#include "ops/common/cpu/conv.h"
#include "ops/common/cpu/simd.h"

// Neighbouring output pixels of one row, and where they go within a panel.
typedef struct segment {
  int64_t row, column;  // of the image, under the kernel's first element
  int64_t n;
  float *out;
  int64_t panel;
} segment;

// Elements |first|, |first| + stride … of an image row, zeros where they lie outside.
static void load_run(const graft_conv *c, const char *row, int64_t first, const segment *s, float *out) {
  const int64_t element = graft_gemm_element_bytes(c->x_type), stride = c->stride[1], width = c->size[1];
  const bool is_inside = first >= 0 && first + (s->n - 1) * stride < width;
  if (is_inside && stride == 1) {
    int64_t i = 0;
    for (; i + LANES <= s->n; i += LANES) vec_store(out + i, vec_load_typed(row + (first + i) * element, c->x_type));
    const int64_t left = s->n - i;
    if (left > 0) vec_store_n(out + i, vec_load_typed_n(row + (first + i) * element, c->x_type, left), left);
    return;
  }
  for (int64_t i = 0; i < s->n; ++i) {
    const int64_t column = first + i * stride;
    const bool is_padding = column < 0 || column >= width;
    out[i] = is_padding ? 0.0f : vec_load_typed_n(row + column * element, c->x_type, 1)[0];
  }
}

// Rows |block->row| … of the window matrix for one segment. They are ordered as weights are: channel, then kernel row,
// then kernel column.
static void load_segment(const graft_conv *c, const graft_gemm_block *block, const segment *s) {
  const int64_t area = c->kernel[0] * c->kernel[1], element = graft_gemm_element_bytes(c->x_type);
  int64_t channel = block->row / area, down = block->row % area / c->kernel[1], across = block->row % c->kernel[1];
  float *out = s->out;
  for (int64_t k = 0; k < block->rows; ++k, out += s->panel) {
    const int64_t row = s->row + down * c->dilation[0], column = s->column + across * c->dilation[1];
    if (row < 0 || row >= c->size[0]) {
      memset(out, 0, (size_t)s->n * sizeof *out);
    } else {
      const char *from = (const char *)c->x + (channel * c->channel_stride + row * c->row_stride) * element;
      load_run(c, from, column, s, out);
    }
    if (++across < c->kernel[1]) continue;
    across = 0;
    if (++down < c->kernel[0]) continue;
    down = 0;
    ++channel;
  }
}

static void load_windows(const graft_gemm_core *core, const void *conv, const graft_gemm_block *block, float *out) {
  const graft_conv *c = conv;
  const int64_t panel = core->panel, end = block->column + block->columns;
  for (int64_t begin = block->column; begin < end; begin += panel, out += block->rows * panel) {
    const int64_t panel_end = begin + panel < end ? begin + panel : end;
    if (panel_end - begin < panel) memset(out, 0, (size_t)(block->rows * panel) * sizeof *out);
    for (int64_t pixel = begin; pixel < panel_end;) {
      const int64_t y = pixel / c->out_size[1], x = pixel % c->out_size[1];
      const int64_t row_left = c->out_size[1] - x, panel_left = panel_end - pixel;
      const segment s = {.row = y * c->stride[0] - c->padding[0],
                         .column = x * c->stride[1] - c->padding[1],
                         .n = row_left < panel_left ? row_left : panel_left,
                         .out = out + (pixel - begin),
                         .panel = panel};
      load_segment(c, block, &s);
      pixel += s.n;
    }
  }
}

const graft_conv_core GRAFT_TARGETED(graft_conv_core) = {
    .gemm = &GRAFT_TARGETED(graft_gemm_core),
    .load_windows = load_windows,
};
