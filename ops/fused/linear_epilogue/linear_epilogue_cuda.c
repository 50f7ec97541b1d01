#include "graft/extension.h"
#include "ops/common/cuda/gemm.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"

static graft_gemm_node describe(const graft_node_info *node) {
  const graft_linear_epilogue_attrs *attrs = node->attrs;
  return (graft_gemm_node){
      .a = 0, .b = 1, .bias = 2, .gate = 3, .residual = 4, .is_b_transposed = true, .activation = attrs->activation};
}

// The library knows no gates, residuals or SiLU: sums pass through the workspace in float32. For 16-bit results that is
// more to write and read than what the steps apart hand on, in as many launches.
static bool prefers(const graft_node_info *node, graft_reason *why) {
  const graft_linear_epilogue_attrs *attrs = node->attrs;
  const bool has_steps =
      attrs->activation != GRAFT_EPILOGUE_LINEAR || node->inputs[3] != NULL || node->inputs[4] != NULL;
  return !has_steps || node->outputs[0]->dtype == GRAFT_F32 ||
         graft_refuse(why, "with results of 16 bits the steps apart move fewer bytes");
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
                                            .name = "linear_epilogue_float_lt__cuda",
                                            .op = "graft.linear_epilogue.v1",
                                            .backend = "cuda",
                                            .supports = graft_gemm_supports,
                                            .preferred = prefers,
                                            .prepare = prepare,
                                            .encode = encode,
                                            .destroy = graft_gemm_destroy}};

extern const graft_extension graft_extension_linear_epilogue_cuda;
const graft_extension graft_extension_linear_epilogue_cuda = {
    .struct_size = sizeof graft_extension_linear_epilogue_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_epilogue_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
