#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/elementwise.h"
#include "ops/unary/unary.h"

extern const unsigned char graft_cuda_image_unary[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "unary", .image = graft_cuda_image_unary};

static graft_status prepare_silu(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_silu", error, out_prepared);
}

static graft_status prepare_gelu(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const graft_gelu_attrs *attrs = node->attrs;
  const char *name = attrs->tanh_approximation ? "graft_gelu_tanh" : "graft_gelu";
  return graft_elementwise_prepare(node, &module, name, error, out_prepared);
}

static graft_status prepare_tanh(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_tanh", error, out_prepared);
}

static graft_status prepare_sigmoid(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_sigmoid", error, out_prepared);
}

static graft_status prepare_scale(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_scale", error, out_prepared);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return graft_elementwise_encode(encoder, args, NULL);
}

static graft_status encode_scale(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_scale_attrs *attrs = args->node->attrs;
  return graft_elementwise_encode(encoder, args, (float[2]){(float)attrs->scale, (float)attrs->bias});
}

#define KERNEL(verb, encode_function)                                                                             \
  {                                                                                                               \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = #verb "_float_strided__cuda",                \
    .op = "graft." #verb ".v1", .backend = "cuda", .supports = graft_cuda_takes_node, .in_place_inputs = 1u << 0, \
    .prepare = prepare_##verb, .encode = encode_function, .destroy = free, .traits = GRAFT_KERNEL_ANY_OUTPUT      \
  }

static const graft_kernel_def kernels[] = {KERNEL(silu, encode), KERNEL(gelu, encode), KERNEL(tanh, encode),
                                           KERNEL(sigmoid, encode), KERNEL(scale, encode_scale)};

extern const graft_extension graft_extension_unary_cuda;
const graft_extension graft_extension_unary_cuda = {
    .struct_size = sizeof graft_extension_unary_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.unary_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
