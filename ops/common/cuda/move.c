#include "ops/common/cuda/move.h"

#include <stdlib.h>

extern const unsigned char graft_cuda_image_move[];
static const graft_cuda_module module = {.struct_size = sizeof module, .name = "move", .image = graft_cuda_image_move};

graft_status graft_mover_load(const graft_device *device, graft_error *error, graft_mover *out_mover) {
  static const char *const names[5] = {"graft_move_1", "graft_move_2", "graft_move_4", "graft_move_8", "graft_move_16"};
  for (int i = 0; i < 5; ++i) {
    GRAFT_TRY(graft_cuda_function_load(device, &module, names[i], 0, error, &out_mover->functions[i]));
  }
  return GRAFT_OK;
}

graft_status graft_move_prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_mover *mover = calloc(1, sizeof *mover);
  if (mover == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = graft_mover_load(node->device, error, mover);
  if (status != GRAFT_OK) {
    free(mover);
    return status;
  }
  out_prepared->state = mover;
  return GRAFT_OK;
}

// As bytes: one more innermost dimension that runs over an element or block.
static graft_tensor_desc in_bytes(const graft_tensor_desc *desc) {
  graft_tensor_desc bytes = *desc;
  if (desc->rank > 0) bytes.shape[desc->rank - 1] /= desc->dtype->block_elements;
  return bytes;
}

static bool is_multiple(const graft_walk *walk, const graft_move_params *params, int64_t bytes) {
  if (((uintptr_t)params->target | (uintptr_t)params->source) % (uintptr_t)bytes != 0) return false;
  for (int32_t k = 0; k < 2; ++k) {
    for (int32_t d = 1; d < walk->rank; ++d) {
      if (walk->strides[k][d] % bytes != 0) return false;
    }
  }
  return walk->shape[0] % bytes == 0;
}

// Puts the element itself in front as a dimension of bytes, joined with the innermost one where that is dense.
static void walk_bytes(graft_walk *walk, int64_t element_bytes) {
  const bool is_dense = walk->rank > 0 && walk->strides[0][0] == element_bytes && walk->strides[1][0] == element_bytes;
  if (!is_dense) {
    for (int32_t d = walk->rank; d > 0; --d) {
      walk->shape[d] = walk->shape[d - 1];
      for (int32_t k = 0; k < 2; ++k) walk->strides[k][d] = walk->strides[k][d - 1];
    }
    walk->shape[0] = 1;
    ++walk->rank;
  }
  walk->shape[0] *= element_bytes;
  walk->strides[0][0] = walk->strides[1][0] = 1;
  walk->n *= element_bytes;
}

graft_status graft_move_encode(graft_encoder *encoder, const graft_mover *mover, const graft_view *target,
                               const graft_view *source, graft_error *error) {
  const graft_tensor_desc to = in_bytes(&target->desc), from = in_bytes(&source->desc);
  const graft_cuda_operands operands = {.n = 2, .desc = {&to, &from}, .data = {target->data, source->data}};
  graft_move_params params = {.target = target->data, .source = source->data};
  params.walk = graft_walk_init(&operands, 0, false);
  if (params.walk.n == 0) return GRAFT_OK;
  walk_bytes(&params.walk, to.dtype->block_bytes);
  int unit = 4;
  while (unit > 0 && !is_multiple(&params.walk, &params, (int64_t)1 << unit)) --unit;
  const int64_t bytes = (int64_t)1 << unit;
  params.walk.shape[0] /= bytes;
  params.walk.strides[0][0] = params.walk.strides[1][0] = bytes;
  params.walk.n /= bytes;
  const graft_cuda_launch launch = {.struct_size = sizeof launch,
                                    .function = mover->functions[unit],
                                    .grid = {graft_cuda_blocks(params.walk.n), 1, 1},
                                    .block = {GRAFT_WALK_THREADS, 1, 1},
                                    .params = &params,
                                    .params_bytes = sizeof params};
  return graft_cuda_encode(encoder, &launch, error);
}
