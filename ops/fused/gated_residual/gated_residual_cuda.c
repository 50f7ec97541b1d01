#include "graft/extension.h"
#include "ops/common/cuda/norm.h"
#include "ops/fused/gated_residual/gated_residual.h"

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_gated_residual_attrs *attrs = args->node->attrs;
  const graft_norm_node norm = {
      .x = 1, .weight = 2, .bias = -1, .scale = -1, .shift = -1, .addend = 0, .gate = 3, .eps = attrs->eps};
  return graft_norm_encode(encoder, args, &norm);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "gated_residual_float_rows__cuda",
                                            .op = "graft.gated_residual.v1",
                                            .backend = "cuda",
                                            .supports = graft_norm_supports,
                                            .in_place_inputs = 1u << 0 | 1u << 1,
                                            .prepare = graft_norm_prepare,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_gated_residual_cuda;
const graft_extension graft_extension_gated_residual_cuda = {
    .struct_size = sizeof graft_extension_gated_residual_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.gated_residual_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
