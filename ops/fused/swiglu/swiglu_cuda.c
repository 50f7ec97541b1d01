#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/elementwise.h"

extern const unsigned char graft_cuda_image_swiglu[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "swiglu", .image = graft_cuda_image_swiglu};

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_swiglu", error, out_prepared);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return graft_elementwise_encode(encoder, args, NULL);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = 10,
    .name = "swiglu_float_strided__cuda",
    .op = "graft.swiglu.v1",
    .backend = "cuda",
    .supports = graft_cuda_takes_node,
    .in_place_inputs = 1u << 0 | 1u << 1,
    .prepare = prepare,
    .encode = encode,
    .destroy = free,
    .traits = GRAFT_KERNEL_ANY_OUTPUT,
}};

extern const graft_extension graft_extension_swiglu_cuda;
const graft_extension graft_extension_swiglu_cuda = {
    .struct_size = sizeof graft_extension_swiglu_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.swiglu_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
