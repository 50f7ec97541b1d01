// quantize.h — rows rotated and quantised to int8 on a CUDA device, with the bits of the reference
// (quantize_convrot_i8.h). Shared by host and device code.
#ifndef GRAFT_OPS_COMMON_CUDA_QUANTIZE_H
#define GRAFT_OPS_COMMON_CUDA_QUANTIZE_H

#include "ops/common/cuda/walk.h"

enum { GRAFT_QUANTIZE_MAX_THREADS = 512 };

typedef struct graft_quantize_params {
  graft_walk walk;  // over rows of x
  graft_cuda_operand x;
  int64_t x_step;  // bytes between elements of a row
  int64_t k, group;
  int64_t n_rows;    // of q; those behind x's are zeros with the scale 0
  int64_t q_stride;  // bytes between rows of q; those behind |k| become 0
  int8_t *q;
  float *scales;
  float *rows;  // room for a row, k · 17 / 16 + 1 numbers, for each block, where it does not fit into shared memory
  float factor;
  int32_t has_bf16_grid;
  int32_t is_wide;   // eight elements of x at a time
  int32_t is_quads;  // four bytes of q at a time
} graft_quantize_params;

#ifdef __cplusplus
extern "C" {
#endif

// What quantising rows of |k| elements takes.
typedef struct graft_quantizer {
  graft_cuda_function *function;
  uint32_t shared_bytes, threads;
  uint32_t most_blocks;    // 0: any number
  size_t workspace_bytes;  // a multiple of 256
} graft_quantizer;

graft_status graft_quantizer_init(const graft_device *device, int64_t n_rows, int64_t k, graft_error *error,
                                  graft_quantizer *out_quantizer);

typedef struct graft_quantize_job {
  const graft_tensor_desc *desc;  // of x: any built-in float, any strides
  const void *x;
  int64_t group, n_rows, q_stride;
  bool has_bf16_grid;
  void *q;       // n_rows · q_stride bytes
  void *scales;  // n_rows of f32
  void *workspace;
} graft_quantize_job;

graft_status graft_quantizer_encode(graft_encoder *encoder, const graft_quantizer *quantizer,
                                    const graft_quantize_job *job, graft_error *error);

#ifdef __cplusplus
}
#endif

#endif
