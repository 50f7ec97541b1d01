// gemm_operand.h — tensors of a node as the matrices of gemm.h.
#ifndef GRAFT_OPS_COMMON_CPU_GEMM_OPERAND_H
#define GRAFT_OPS_COMMON_CPU_GEMM_OPERAND_H

#include "graft/tensor.h"
#include "ops/common/cpu/gemm.h"

// Whether gemm.h reads and writes elements of |dtype|.
static inline bool graft_gemm_takes(graft_dtype dtype) {
  return dtype == GRAFT_F32 || dtype == GRAFT_F16 || dtype == GRAFT_BF16;
}

// Stride of dimension |d| in elements; 0 where it makes no difference.
static inline int64_t graft_gemm_stride(const graft_tensor_desc *desc, int32_t d) {
  return desc->shape[d] > 1 ? desc->strides[d] / (int64_t)desc->dtype->block_bytes : 0;
}

// Whether the last dimension is dense.
static inline bool graft_gemm_has_dense_rows(const graft_tensor_desc *desc) {
  const int32_t last = desc->rank - 1;
  return desc->rank == 0 || desc->shape[last] <= 1 || graft_gemm_stride(desc, last) == 1;
}

// All dimensions but the last as the rows of one matrix. False where their strides do not allow it.
static inline bool graft_gemm_flatten(const graft_tensor_desc *desc, int64_t *out_rows, graft_gemm_matrix *out_matrix) {
  const int32_t last = desc->rank - 1;
  int64_t rows = 1, stride = 0;
  for (int32_t d = last - 1; d >= 0; --d) {
    if (desc->shape[d] == 1) continue;
    if (rows == 1) stride = graft_gemm_stride(desc, d);
    else if (graft_gemm_stride(desc, d) != stride * rows) return false;
    rows *= desc->shape[d];
  }
  *out_rows = rows;
  *out_matrix =
      (graft_gemm_matrix){.type = desc->dtype->code,
                          .row_stride = stride,
                          .column_stride = graft_gemm_has_dense_rows(desc) ? 1 : graft_gemm_stride(desc, last)};
  return true;
}

// Dimensions |d| and |d| + 1 as a matrix.
static inline graft_gemm_matrix graft_gemm_matrix_of(const graft_tensor_desc *desc, int32_t d) {
  graft_gemm_matrix matrix = {.type = desc->dtype->code,
                              .row_stride = graft_gemm_stride(desc, d),
                              .column_stride = graft_gemm_stride(desc, d + 1)};
  // A single row or column is as dense as it gets.
  if (desc->shape[d + 1] <= 1) matrix.column_stride = 1;
  else if (desc->shape[d] <= 1 && matrix.column_stride != 1) matrix.row_stride = 1;
  return matrix;
}

// A vector that is repeated in every row.
static inline graft_gemm_matrix graft_gemm_row_of(const graft_tensor_desc *desc, const void *data) {
  return (graft_gemm_matrix){.data = data, .type = desc->dtype->code, .column_stride = 1};
}

#endif
