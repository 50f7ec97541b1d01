#include "graft/extension.h"
#include "ops/common/cuda/norm.h"
#include "ops/layer_norm/layer_norm.h"

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_layer_norm_attrs *attrs = args->node->attrs;
  const graft_norm_node norm = {.x = 0,
                                .weight = 1,
                                .bias = 2,
                                .scale = -1,
                                .shift = -1,
                                .addend = -1,
                                .gate = -1,
                                .is_centred = true,
                                .eps = attrs->eps};
  return graft_norm_encode(encoder, args, &norm);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "layer_norm_float_rows__cuda",
                                            .op = "graft.layer_norm.v1",
                                            .backend = "cuda",
                                            .supports = graft_norm_supports,
                                            .in_place_inputs = 1u << 0,
                                            .prepare = graft_norm_prepare,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_layer_norm_cuda;
const graft_extension graft_extension_layer_norm_cuda = {
    .struct_size = sizeof graft_extension_layer_norm_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.layer_norm_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
