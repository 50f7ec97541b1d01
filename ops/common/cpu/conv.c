#include "ops/common/cpu/conv.h"

// An image without elements may have no address at all.
static const char *address(const void *base, int64_t bytes) {
  return base ? (const char *)base + bytes : NULL;
}

static int64_t clamp(int64_t i, int64_t low, int64_t high) {
  return i < low ? low : i > high ? high : i;
}

// Rows of the image under the windows of |block|, channel by channel; of a single row, only the columns concerned.
static graft_gemm_ahead windows_ahead(const void *conv, const graft_gemm_block *block, int64_t part, int64_t n_parts) {
  const graft_conv *c = conv;
  const int64_t area = c->kernel[0] * c->kernel[1], element = graft_gemm_element_bytes(c->x_type);
  const int64_t first_channel = block->row / area, channels = (block->row + block->rows - 1) / area + 1 - first_channel;
  const int64_t first = channels * part / n_parts, end = channels * (part + 1) / n_parts;
  const int64_t last_pixel = block->column + block->columns - 1, width = c->out_size[1];
  const int64_t first_row = block->column / width * c->stride[0] - c->padding[0];
  const int64_t last_row = last_pixel / width * c->stride[0] - c->padding[0] + (c->kernel[0] - 1) * c->dilation[0];
  const int64_t row = clamp(first_row, 0, c->size[0]), rows = clamp(last_row + 1, row, c->size[0]) - row;
  int64_t begin = 0, bytes = rows * c->row_stride;
  if (block->column / width == last_pixel / width && c->kernel[0] == 1) {
    begin = clamp(block->column % width * c->stride[1] - c->padding[1], 0, c->size[1]);
    bytes = clamp(last_pixel % width * c->stride[1] + c->kernel[1] * c->dilation[1], begin, c->size[1]) - begin;
  }
  const int64_t offset = (first_channel + first) * c->channel_stride + row * c->row_stride + begin;
  return (graft_gemm_ahead){.data = address(c->x, offset * element),
                            .rows = end - first,
                            .row_bytes = bytes * element,
                            .stride = c->channel_stride * element};
}

// What bias, gate or residual |x| has for the output plane |plane|, which is channel |channel|, and those after it.
static graft_gemm_matrix addend_of(graft_gemm_matrix x, int64_t plane, int64_t channel, int64_t pixels) {
  if (!x.data) return x;
  x.row_stride = x.column_stride == 0 ? 1 : pixels;
  return graft_gemm_matrix_at(x, x.column_stride == 0 ? channel : plane, 0);
}

// The product that computes image and group number |index|; |part| is what its B is made from.
static graft_gemm gemm_of(const graft_conv *c, int64_t index, graft_conv *part) {
  const int64_t image = index / c->groups, group = index % c->groups;
  const int64_t k = c->channels * c->kernel[0] * c->kernel[1], pixels = c->out_size[0] * c->out_size[1];
  const int64_t x_offset = image * c->image_stride + group * c->channels * c->channel_stride;
  const int64_t channel = group * c->out_channels, plane = image * c->groups * c->out_channels + channel;
  *part = *c;
  part->x = address(c->x, x_offset * graft_gemm_element_bytes(c->x_type));
  // A kernel of one element does not care where rows end.
  const bool is_pointwise = c->kernel[0] * c->kernel[1] * c->stride[0] * c->stride[1] == 1 &&
                            c->out_size[0] == c->size[0] && c->out_size[1] == c->size[1] &&
                            c->padding[0] + c->padding[1] == 0 && c->row_stride == c->size[1];
  if (is_pointwise) {
    part->size[0] = part->out_size[0] = 1;
    part->size[1] = part->out_size[1] = pixels;
  }
  graft_gemm g = {.core = c->core->gemm,
                  .m = c->out_channels,
                  .n = pixels,
                  .k = k,
                  .a = c->weight,
                  .load_b = c->core->load_windows,
                  .b_ahead = windows_ahead,
                  .b_context = part,
                  .out = c->out};
  g.a.row_stride = k;
  g.a.column_stride = 1;
  g.a = graft_gemm_matrix_at(g.a, channel, 0);
  g.out.row_stride = pixels;
  g.out.data = (char *)c->out.data + plane * pixels * graft_gemm_element_bytes(c->out.type);
  g.out.bias = addend_of(c->out.bias, plane, channel, pixels);
  g.out.gate = addend_of(c->out.gate, plane, channel, pixels);
  g.out.residual = addend_of(c->out.residual, plane, channel, pixels);
  return g;
}

int64_t graft_conv_items(const graft_conv *conv) {
  if (conv->images * conv->groups == 0) return 0;
  graft_conv part;
  const graft_gemm g = gemm_of(conv, 0, &part);
  return conv->images * conv->groups * graft_gemm_items(&g);
}

size_t graft_conv_scratch_bytes(const graft_conv *conv) {
  if (conv->images * conv->groups == 0) return 0;
  graft_conv part;
  const graft_gemm g = gemm_of(conv, 0, &part);
  return graft_gemm_scratch_bytes(&g);
}

void graft_conv_run(const graft_conv *conv, int64_t item, void *scratch) {
  graft_conv part;
  const graft_gemm first = gemm_of(conv, 0, &part);
  const int64_t items = graft_gemm_items(&first);
  const graft_gemm g = gemm_of(conv, item / items, &part);
  graft_gemm_run(&g, item % items, scratch);
}
