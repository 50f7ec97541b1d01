// linear_i8_params.h — what the host tells the CUDA kernels of graft.linear_i8.v1.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_PARAMS_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_PARAMS_H

#include "ops/common/cuda/walk.h"

enum {
  // A product on tensor cores: rows and columns of a block's tile, terms that it takes at a time, and how many such
  // parts lie in shared memory.
  GRAFT_I8_LARGE = 128,
  GRAFT_I8_SMALL = 64,
  GRAFT_I8_DEPTH = 64,
  GRAFT_I8_STAGES = 4,
  GRAFT_I8_LARGE_THREADS = 256,
  GRAFT_I8_SMALL_THREADS = 128,
  // A product without them.
  GRAFT_I8_TILE = 64,
  GRAFT_I8_TILE_THREADS = 256,
  GRAFT_I8_MOST_TERMS = 130048,  // whose sum fits in 32 bits, whatever they are
};

// For tensor cores rows are |x_stride| apart and scales of x |x_scale_step|; elsewhere the walks say where they are.
typedef struct graft_linear_i8_params {
  const int8_t *x, *weight;
  int64_t x_stride, weight_stride;  // bytes between rows
  int64_t x_step, weight_step;      // and between elements of a row
  int64_t m, n, depth;              // depth: terms of a sum
  graft_cuda_operand y, x_scale, weight_scale, bias;
  int64_t x_scale_step, weight_scale_step, bias_step;  // bytes; 0: one for all
  graft_walk x_rows, x_scales;
  int64_t packed_columns;  // of a packed x that is not contiguous; else 0
  int64_t packed_rows;     // of such an x, padding included
  int32_t is_comfy;
  int32_t has_pairs;  // rows of y have an even length
  int32_t has_words;  // rows are dense and begin at multiples of 4
} graft_linear_i8_params;

#endif
