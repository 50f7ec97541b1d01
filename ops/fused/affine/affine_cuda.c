#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/elementwise.h"

enum { X, FACTOR, ADDEND };

extern const unsigned char graft_cuda_image_affine[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "affine", .image = graft_cuda_image_affine};

static graft_status prepare_affine(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return graft_elementwise_prepare(node, &module, "graft_affine", error, out_prepared);
}

static graft_status prepare_modulate(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const char *name = node->inputs[ADDEND] != NULL ? "graft_modulate" : "graft_modulate_scale";
  return graft_elementwise_prepare(node, &module, name, error, out_prepared);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_cuda_operands operands = {
      .n = node->inputs[ADDEND] != NULL ? 4 : 3,
      .desc = {node->outputs[0], node->inputs[X], node->inputs[FACTOR], node->inputs[ADDEND]},
      .data = {args->outputs[0], args->inputs[X], args->inputs[FACTOR], args->inputs[ADDEND]}};
  return graft_elementwise_encode_operands(encoder, args->state, &operands, NULL, args->error);
}

#define KERNEL(noun)                                                                                       \
  {                                                                                                        \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = #noun "_float_strided__cuda",         \
    .op = "graft." #noun ".v1", .backend = "cuda", .supports = graft_cuda_takes_node,                      \
    .in_place_inputs = 1u << X | 1u << FACTOR | 1u << ADDEND, .prepare = prepare_##noun, .encode = encode, \
    .destroy = free, .traits = GRAFT_KERNEL_ANY_OUTPUT                                                     \
  }

static const graft_kernel_def kernels[] = {KERNEL(affine), KERNEL(modulate)};

extern const graft_extension graft_extension_affine_cuda;
const graft_extension graft_extension_affine_cuda = {
    .struct_size = sizeof graft_extension_affine_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.affine_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
