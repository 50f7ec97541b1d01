// lt.h — one product of matrices by cublasLt, its algorithm chosen beforehand.
#ifndef GRAFT_OPS_COMMON_CUDA_LT_H
#define GRAFT_OPS_COMMON_CUDA_LT_H

#include <cublasLt.h>

#include "graft/cuda.h"

// y[m, n] = Σ a[m, k] · b[k, n], |batch| times. In row-major order; |a_step| is the distance between rows of a, or with
// |is_a_transposed| between its columns, and so on. Elements.
typedef struct graft_lt_shape {
  int64_t m, n, k, batch;
  int64_t a_step, b_step, y_step;
  int64_t a_batch, b_batch, y_batch;
  bool is_a_transposed;  // columns of a are dense
  bool is_b_transposed;  // columns of b are dense: b is stored as [n, k]
  bool has_bias;
  // Of a and b; of y and bias. int8 gives int32, float8 (E4M3, b transposed and a not) bf16.
  graft_dtype_code operands, result;
} graft_lt_shape;

typedef struct graft_lt {
  graft_lt_shape shape;
  void *handle;
  void *(*find_symbol)(const char *name);
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, y;
  cublasLtMatmulAlgo_t algorithm;  // for addresses that are multiples of 16
  size_t workspace_bytes;
} graft_lt;

// Describes the product and chooses an algorithm. On failure nothing is left; else graft_lt_release.
graft_status graft_lt_init(const graft_device *device, const graft_lt_shape *shape, graft_error *error,
                           graft_lt *out_lt);
void graft_lt_release(graft_lt *lt);

typedef struct graft_lt_addresses {
  const void *a, *b, *bias;
  void *y, *workspace;
} graft_lt_addresses;

// |lt| stays as long as the recording.
graft_status graft_lt_encode(graft_encoder *encoder, graft_lt *lt, const graft_lt_addresses *addresses,
                             graft_error *error);

#endif
