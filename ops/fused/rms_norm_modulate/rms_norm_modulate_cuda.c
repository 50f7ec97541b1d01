#include "graft/extension.h"
#include "ops/common/cuda/norm.h"
#include "ops/fused/rms_norm_modulate/rms_norm_modulate.h"

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_rms_norm_modulate_attrs *attrs = args->node->attrs;
  const graft_norm_node norm = {
      .x = 0, .weight = 1, .bias = -1, .scale = 2, .shift = -1, .addend = -1, .gate = -1, .eps = attrs->eps};
  return graft_norm_encode(encoder, args, &norm);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "rms_norm_modulate_float_rows__cuda",
                                            .op = "graft.rms_norm_modulate.v1",
                                            .backend = "cuda",
                                            .supports = graft_norm_supports,
                                            .in_place_inputs = 1u << 0,
                                            .prepare = graft_norm_prepare,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_rms_norm_modulate_cuda;
const graft_extension graft_extension_rms_norm_modulate_cuda = {
    .struct_size = sizeof graft_extension_rms_norm_modulate_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.rms_norm_modulate_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
