#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/elementwise.h"

extern const unsigned char graft_cuda_image_binary[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "binary", .image = graft_cuda_image_binary};

static graft_status prepare_add(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_add", error, out_prepared);
}

static graft_status prepare_sub(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_sub", error, out_prepared);
}

static graft_status prepare_mul(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_mul", error, out_prepared);
}

static graft_status prepare_div(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_div", error, out_prepared);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return graft_elementwise_encode(encoder, args, NULL);
}

#define KERNEL(verb)                                                                                    \
  {                                                                                                     \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = #verb "_float_strided__cuda",      \
    .op = "graft." #verb ".v1", .backend = "cuda", .supports = graft_cuda_takes_node,                   \
    .in_place_inputs = 1u << 0 | 1u << 1, .prepare = prepare_##verb, .encode = encode, .destroy = free, \
    .traits = GRAFT_KERNEL_ANY_OUTPUT                                                                   \
  }

static const graft_kernel_def kernels[] = {KERNEL(add), KERNEL(sub), KERNEL(mul), KERNEL(div)};

extern const graft_extension graft_extension_binary_cuda;
const graft_extension graft_extension_binary_cuda = {
    .struct_size = sizeof graft_extension_binary_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.binary_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
