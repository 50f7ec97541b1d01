// conv.h — two-dimensional convolution on the CPU as a matrix product: weights [output channels, channels · kernel]
// times the windows of the image [channels · kernel, pixels], which are laid out in panels block by block and never
// stored.
#ifndef GRAFT_OPS_COMMON_CPU_CONV_H
#define GRAFT_OPS_COMMON_CPU_CONV_H

#include "ops/common/cpu/gemm.h"

typedef struct graft_conv_core graft_conv_core;

// A convolution. Images are planes [image][channel][row][column] with dense columns; the output is dense throughout.
// Sizes are of one group; index 0 is down, 1 is across.
typedef struct graft_conv {
  const graft_conv_core *core;
  int64_t images, groups;
  int64_t channels, out_channels;
  int64_t size[2], out_size[2];  // every output pixel's window begins within the padded image
  int64_t kernel[2], stride[2], dilation[2];
  int64_t padding[2];  // zeros before the first row and column; those after the last follow from out_size
  const void *x;
  graft_dtype_code x_type;                           // f32, bf16 or f16
  int64_t image_stride, channel_stride, row_stride;  // elements of x
  graft_gemm_matrix weight;  // [groups · out_channels, channels · kernel[0] · kernel[1]], dense in its rows
  // |out.data| [images, groups · out_channels, out_size[0], out_size[1]]; |out.row_stride| is ignored. Bias, gate and
  // residual, where there are any, lie like the output (column_stride 1), or have one element per channel (0); their
  // row_stride is ignored.
  graft_gemm_output out;
} graft_conv;

// What is compiled once per target.
struct graft_conv_core {
  const graft_gemm_core *gemm;
  // graft_gemm.load_b; its context is a graft_conv whose x points to the image and group concerned.
  void (*load_windows)(const graft_gemm_core *core, const void *conv, const graft_gemm_block *block, float *out);
};

extern const graft_conv_core graft_conv_core__baseline;
extern const graft_conv_core graft_conv_core__avx2;
extern const graft_conv_core graft_conv_core__avx512;

// Multiplies bf16 by bf16, as graft_gemm_core__avx512_bf16 does: x and the weight must be bf16.
extern const graft_conv_core graft_conv_core__avx512_bf16;

// As their namesakes in gemm.h. Thread-safe.
int64_t graft_conv_items(const graft_conv *conv);
size_t graft_conv_scratch_bytes(const graft_conv *conv);
void graft_conv_run(const graft_conv *conv, int64_t item, void *scratch);

#endif
