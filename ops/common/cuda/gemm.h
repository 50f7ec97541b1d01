// gemm.h — matrix products on a CUDA device by cublasLt: what linear, matmul and their epilogues share.
//
// Operands that the library cannot take as they are (mixed dtypes, odd strides) are converted into the workspace first;
// a result with an epilogue that it does not know goes through float32 in the workspace. Sums are float32 throughout.
#ifndef GRAFT_OPS_COMMON_CUDA_GEMM_H
#define GRAFT_OPS_COMMON_CUDA_GEMM_H

#include "graft/cuda.h"

typedef struct graft_gemm graft_gemm;

// A node's product: y[…, m, n] = Σ a[…, m, k] · b. Places of inputs; -1 where the operator has none.
typedef struct graft_gemm_node {
  int32_t a, b, bias, gate, residual;
  bool is_b_transposed;  // b is [n, k], one for all; else [..., k, n]
  int32_t activation;    // graft_epilogue_activation
} graft_gemm_node;

bool graft_gemm_supports(const graft_node_info *node, graft_reason *why);
graft_status graft_gemm_prepare(const graft_node_info *node, const graft_gemm_node *gemm, graft_error *error,
                                graft_prepared *out_prepared);
graft_status graft_gemm_encode(graft_encoder *encoder, const graft_encode_args *args, const graft_gemm_node *gemm);
void graft_gemm_destroy(void *state);

#endif
