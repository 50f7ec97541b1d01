#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/elementwise.h"
#include "ops/common/cuda/move.h"

extern const unsigned char graft_cuda_image_copy[];
static const graft_cuda_module module = {.struct_size = sizeof module, .name = "copy", .image = graft_cuda_image_copy};

static graft_status encode_copy(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_view from = {.desc = *args->node->inputs[0], .data = args->inputs[0]};
  const graft_view to = {.desc = *args->node->outputs[0], .data = args->outputs[0]};
  return graft_move_encode(encoder, args->state, &to, &from, args->error);
}

static bool supports_cast(const graft_node_info *node, graft_reason *why) {
  const graft_dtype from = node->inputs[0]->dtype, to = node->outputs[0]->dtype;
  if (from->code != GRAFT_DTYPE_CUSTOM && to->code != GRAFT_DTYPE_CUSTOM) return true;
  return graft_refuse(why, "%s is not built in", from->code == GRAFT_DTYPE_CUSTOM ? from->name : to->name);
}

static graft_status prepare_cast(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const bool is_float = graft_cuda_takes(node->inputs[0]) && graft_cuda_takes(node->outputs[0]);
  return graft_elementwise_prepare(node, &module, is_float ? "graft_cast_float" : "graft_cast_any", error,
                                   out_prepared);
}

static graft_status encode_cast(graft_encoder *encoder, const graft_encode_args *args) {
  return graft_elementwise_encode(encoder, args, NULL);
}

static const graft_kernel_def kernels[] = {
    {.struct_size = sizeof kernels[0],
     .priority = 10,
     .name = "copy_any_strided__cuda",
     .op = "graft.copy.v1",
     .backend = "cuda",
     .prepare = graft_move_prepare,
     .encode = encode_copy,
     .destroy = free,
     .traits = GRAFT_KERNEL_ANY_OUTPUT},
    {.struct_size = sizeof kernels[0],
     .priority = 10,
     .name = "cast_any_strided__cuda",
     .op = "graft.cast.v1",
     .backend = "cuda",
     .supports = supports_cast,
     .prepare = prepare_cast,
     .encode = encode_cast,
     .destroy = free,
     .traits = GRAFT_KERNEL_ANY_OUTPUT},
};

extern const graft_extension graft_extension_copy_cuda;
const graft_extension graft_extension_copy_cuda = {
    .struct_size = sizeof graft_extension_copy_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.copy_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
