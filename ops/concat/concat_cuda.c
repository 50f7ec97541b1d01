#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/move.h"
#include "ops/concat/concat.h"

// The part of |whole| that begins at |start| along |axis| and has the shape of |part|.
static graft_view part_of(const graft_view *whole, const graft_tensor_desc *part, int64_t axis, int64_t start) {
  graft_view view = *whole;
  const bool is_last = axis == view.desc.rank - 1;
  const int64_t entries = is_last ? start / view.desc.dtype->block_elements : start;
  view.desc.shape[axis] = part->shape[axis];
  view.data = (char *)whole->data + entries * whole->desc.strides[axis];
  return view;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_concat_attrs *attrs = args->node->attrs;
  const graft_view whole = {.desc = *args->node->outputs[0], .data = args->outputs[0]};
  int64_t start = 0;
  for (uint32_t i = 0; i < args->node->n_inputs; ++i) {
    const graft_view from = {.desc = *args->node->inputs[i], .data = args->inputs[i]};
    const graft_view to = part_of(&whole, &from.desc, attrs->axis, start);
    // What was made there needs no copy.
    if (to.data != from.data) GRAFT_TRY(graft_move_encode(encoder, args->state, &to, &from, args->error));
    start += from.desc.shape[attrs->axis];
  }
  return GRAFT_OK;
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "concat_any_strided__cuda",
                                            .op = "graft.concat.v1",
                                            .backend = "cuda",
                                            .prepare = graft_move_prepare,
                                            .encode = encode,
                                            .destroy = free,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT | GRAFT_KERNEL_PLACED_INPUTS}};

extern const graft_extension graft_extension_concat_cuda;
const graft_extension graft_extension_concat_cuda = {
    .struct_size = sizeof graft_extension_concat_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.concat_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
