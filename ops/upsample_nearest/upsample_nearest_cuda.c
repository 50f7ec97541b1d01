// Enlarging is a copy in which each pixel stands for a block of them: strides of 0 inside the block.
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/move.h"
#include "ops/upsample_nearest/upsample_nearest.h"

enum { N, C, H, W };

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_upsample_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *x = args->node->inputs[0], *y = args->node->outputs[0];
  const graft_view from = {
      .desc = {.dtype = x->dtype,
               .rank = 6,
               .shape = {x->shape[N], x->shape[C], x->shape[H], attrs->scale_h, x->shape[W], attrs->scale_w},
               .strides = {x->strides[N], x->strides[C], x->strides[H], 0, x->strides[W], 0}},
      .data = args->inputs[0]};
  graft_view to = {.desc = from.desc, .data = args->outputs[0]};
  const int64_t strides[6] = {
      y->strides[N], y->strides[C], y->strides[H] * attrs->scale_h, y->strides[H], y->strides[W] * attrs->scale_w,
      y->strides[W]};
  for (int d = 0; d < 6; ++d) to.desc.strides[d] = strides[d];
  return graft_move_encode(encoder, args->state, &to, &from, args->error);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  return node->inputs[0]->dtype->block_elements == 1 || graft_refuse(why, "elements lie in blocks");
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "upsample_nearest_any_strided__cuda",
                                            .op = "graft.upsample_nearest.v1",
                                            .backend = "cuda",
                                            .supports = supports,
                                            .prepare = graft_move_prepare,
                                            .encode = encode,
                                            .destroy = free,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_upsample_nearest_cuda;
const graft_extension graft_extension_upsample_nearest_cuda = {
    .struct_size = sizeof graft_extension_upsample_nearest_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.upsample_nearest_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
