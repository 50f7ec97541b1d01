// conv2d_params.h — what host and device code of graft.conv2d.v1 and graft.conv2d_epilogue.v1 share. A convolution is a
// product of matrices, weights [O, C · kh · kw] times pixels [C · kh · kw, N · H' · W'], whose second factor is read
// from the image instead of being written down.
#ifndef GRAFT_OPS_CONV2D_PARAMS_H
#define GRAFT_OPS_CONV2D_PARAMS_H

#include "ops/common/cuda/walk.h"

enum { GRAFT_CONV_MMA_CHANNELS = 128, GRAFT_CONV_MMA_PIXELS = 128 };
enum { GRAFT_CONV_TILE = 64, GRAFT_CONV_DEPTH = 16, GRAFT_CONV_THREADS = 256 };

typedef struct graft_conv2d_params {
  graft_cuda_operand y, x, weight, bias, gate, residual;
  int64_t y_strides[4], x_strides[4], weight_strides[4], gate_strides[4], residual_strides[4];  // bytes
  int64_t bias_step;
  int32_t in_channels, out_channels;  // of a group
  int32_t height, width, out_height, out_width, kernel_height, kernel_width;
  int32_t stride[2], padding[2], dilation[2];
  int32_t groups;
  int64_t n_pixels;  // of the result, all items
  int32_t activation;
  int32_t has_even_weights;  // pieces of eight weights lie at multiples of 16 bytes
} graft_conv2d_params;

#endif
