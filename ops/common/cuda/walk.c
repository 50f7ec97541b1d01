#include "ops/common/cuda/walk.h"

// Bytes between neighbours along the dimension |from_end| steps before the last of operand 0.
static int64_t stride_at(const graft_tensor_desc *desc, int32_t from_end) {
  const int32_t d = desc->rank - 1 - from_end;
  return d < 0 || desc->shape[d] == 1 ? 0 : desc->strides[d];
}

// Whether the next dimension, of |size| and with |strides|, continues dimension |last| of the walk in every operand.
static bool continues(const graft_walk *walk, int32_t last, const int64_t *strides) {
  for (int32_t k = 0; k < walk->n_operands; ++k) {
    if (strides[k] != walk->strides[k][last] * walk->shape[last]) return false;
  }
  return true;
}

static void add_dimension(graft_walk *walk, int64_t size, const int64_t *strides) {
  const int32_t last = walk->rank - 1;
  walk->n *= size;
  if (size == 1) return;
  if (walk->rank > 0 && continues(walk, last, strides)) {
    walk->shape[last] *= size;
    return;
  }
  walk->shape[walk->rank] = size;
  for (int32_t k = 0; k < walk->n_operands; ++k) walk->strides[k][walk->rank] = strides[k];
  ++walk->rank;
}

static bool is_wide_operand(const graft_walk *walk, const graft_cuda_operands *operands, int32_t k) {
  if (operands->desc[k] == NULL) return true;
  const int64_t bytes = operands->desc[k]->dtype->block_bytes;
  const int64_t alignment = bytes * GRAFT_WALK_WIDE < 16 ? bytes * GRAFT_WALK_WIDE : 16;
  if (walk->strides[k][0] == 0) return k > 0;
  if (walk->strides[k][0] != bytes || (int64_t)((uintptr_t)operands->data[k] % (uintptr_t)alignment) != 0) return false;
  for (int32_t d = 1; d < walk->rank; ++d) {
    if (walk->strides[k][d] % alignment != 0) return false;
  }
  return true;
}

static void widen(graft_walk *walk, const graft_cuda_operands *operands) {
  if (walk->rank == 0 || walk->shape[0] % GRAFT_WALK_WIDE != 0) return;
  for (int32_t k = 0; k < walk->n_operands; ++k) {
    if (!is_wide_operand(walk, operands, k)) return;
  }
  walk->width = GRAFT_WALK_WIDE;
  walk->n /= GRAFT_WALK_WIDE;
  walk->shape[0] /= GRAFT_WALK_WIDE;
  for (int32_t k = 0; k < walk->n_operands; ++k) {
    walk->steps[k] = (int32_t)walk->strides[k][0];
    walk->strides[k][0] *= GRAFT_WALK_WIDE;
  }
}

graft_walk graft_walk_init(const graft_cuda_operands *operands, int32_t skip, bool may_be_wide) {
  graft_walk walk = {.n_operands = (int32_t)operands->n, .width = 1, .n = 1};
  const graft_tensor_desc *first = operands->desc[0];
  for (int32_t i = skip; i < first->rank; ++i) {
    int64_t strides[GRAFT_WALK_MAX_OPERANDS] = {0};
    for (uint32_t k = 0; k < operands->n; ++k) {
      if (operands->desc[k] != NULL) strides[k] = stride_at(operands->desc[k], i);
    }
    add_dimension(&walk, first->shape[first->rank - 1 - i], strides);
  }
  if (may_be_wide) widen(&walk, operands);
  return walk;
}

void graft_cuda_fill_operands(const graft_cuda_operands *operands, graft_cuda_operand *out_operands) {
  for (uint32_t k = 0; k < operands->n; ++k) {
    if (operands->desc[k] == NULL) continue;
    out_operands[k] = (graft_cuda_operand){.data = operands->data[k],
                                           .type = (int32_t)operands->desc[k]->dtype->code,
                                           .element_bytes = (int32_t)operands->desc[k]->dtype->block_bytes};
  }
}

uint32_t graft_cuda_blocks(int64_t n) {
  const int64_t most = 1 << 20, blocks = (n + GRAFT_WALK_THREADS - 1) / GRAFT_WALK_THREADS;
  return (uint32_t)(blocks < most ? blocks : most);
}

bool graft_cuda_takes(const graft_tensor_desc *desc) {
  if (desc == NULL) return true;
  switch (desc->dtype->code) {
    case GRAFT_DTYPE_F32:
    case GRAFT_DTYPE_F16:
    case GRAFT_DTYPE_BF16:
    case GRAFT_DTYPE_F8_E4M3:
    case GRAFT_DTYPE_F8_E5M2: return true;
    default: return false;
  }
}

bool graft_cuda_takes_node(const graft_node_info *node, graft_reason *why) {
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (!graft_cuda_takes(node->inputs[i])) {
      return graft_refuse(why, "input %u is %s, no built-in float", (unsigned)i, node->inputs[i]->dtype->name);
    }
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!graft_cuda_takes(node->outputs[i])) {
      return graft_refuse(why, "output %u is %s, no built-in float", (unsigned)i, node->outputs[i]->dtype->name);
    }
  }
  return true;
}
