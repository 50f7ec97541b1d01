// gemm_operand.h — tensors of a node as the matrices of gemm.h.
#ifndef GRAFT_OPS_COMMON_CPU_GEMM_OPERAND_H
#define GRAFT_OPS_COMMON_CPU_GEMM_OPERAND_H

#include "graft/tensor.h"
#include "ops/common/cpu/gemm.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"

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

// The activation that operators with an epilogue (graft_epilogue_activation) call |activation|.
static inline graft_gemm_activation graft_gemm_activation_of(int32_t activation) {
  switch (activation) {
    case GRAFT_EPILOGUE_SILU: return GRAFT_GEMM_SILU;
    case GRAFT_EPILOGUE_GELU: return GRAFT_GEMM_GELU;
    case GRAFT_EPILOGUE_GELU_TANH: return GRAFT_GEMM_GELU_TANH;
    default: return GRAFT_GEMM_LINEAR;
  }
}

// What is multiplied with or added to every element of |y|, whose shape |desc| broadcasts into. False where its strides
// make it no matrix.
static inline bool graft_gemm_addend(const graft_tensor_desc *desc, const graft_tensor_desc *y, const void *data,
                                     graft_gemm_matrix *out_matrix) {
  graft_tensor_desc full = *y;
  full.dtype = desc->dtype;
  for (int32_t d = 0; d < y->rank; ++d) {
    const int32_t own = d - (y->rank - desc->rank);
    full.strides[d] = own < 0 || desc->shape[own] == 1 ? 0 : desc->strides[own];
  }
  int64_t rows;
  if (!graft_gemm_flatten(&full, &rows, out_matrix)) return false;
  out_matrix->data = data;
  if (y->rank > 0 && full.strides[y->rank - 1] == 0) out_matrix->column_stride = 0;
  return out_matrix->column_stride <= 1;
}

#endif
