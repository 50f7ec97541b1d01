#include "graft/extension.h"
#include "ops/common/cuda/gemm.h"

static graft_gemm_node describe(const graft_node_info *node) {
  (void)node;
  return (graft_gemm_node){.a = 0, .b = 1, .bias = 2, .gate = -1, .residual = -1, .is_b_transposed = true};
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const graft_gemm_node gemm = describe(node);
  return graft_gemm_prepare(node, &gemm, error, out_prepared);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_gemm_node gemm = describe(args->node);
  return graft_gemm_encode(encoder, args, &gemm);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "linear_float_lt__cuda",
                                            .op = "graft.linear.v1",
                                            .backend = "cuda",
                                            .supports = graft_gemm_supports,
                                            .prepare = prepare,
                                            .encode = encode,
                                            .destroy = graft_gemm_destroy}};

extern const graft_extension graft_extension_linear_cuda;
const graft_extension graft_extension_linear_cuda = {
    .struct_size = sizeof graft_extension_linear_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
