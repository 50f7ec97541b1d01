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

// Of conv2d_hopper.cu: images are first written down with channels innermost, in workspace; so are weights, by pack. A
// block computes 128 channels of a rectangle of pixels, or 64 channels of one twice as large.
enum { GRAFT_CONV_HOPPER_STAGE_BYTES = 192 << 10, GRAFT_CONV_GATHER_PIXELS = 512, GRAFT_CONV_GATHER_CHANNELS = 32 };

typedef struct graft_conv2d_gather_params {
  const char *x;
  int64_t x_strides[4];  // bytes: item, channel, down, across
  uint16_t *out;         // [items][pixels][padded_channels]
  int32_t n_channels, padded_channels, width, n_pixels;
  int32_t n_channel_blocks;  // numbered first, so that rows of the result are written at about the same time
  int32_t is_wide;           // eight pixels may be read together
} graft_conv2d_gather_params;

typedef struct graft_conv2d_hopper_params {
  graft_cuda_tensor_map pixels, weights;
  graft_conv2d_params common;
  int32_t tile_channels;    // 128: each warpgroup has a half of them; 64: each has a half of the pixels
  int32_t tile_width_log2;  // of the rectangle
  int32_t tile_height;
  int32_t tiles_across, tiles_down;
  int32_t n_channel_tiles, n_tiles;
  int32_t n_parts;    // of 64 channels of the image
  int32_t has_fours;  // four neighbouring results may be stored together
} graft_conv2d_hopper_params;

#endif
