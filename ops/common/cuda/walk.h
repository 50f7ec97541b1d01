// walk.h — how CUDA kernels go over tensors of any shape and strides: dimensions that lie behind each other in every
// operand are joined, and where memory allows, eight elements are taken at a time. Shared by host and device code.
#ifndef GRAFT_OPS_COMMON_CUDA_WALK_H
#define GRAFT_OPS_COMMON_CUDA_WALK_H

#include "graft/cuda.h"

enum {
  GRAFT_WALK_MAX_RANK = GRAFT_MAX_RANK + 1,
  GRAFT_WALK_WIDE = 8,
  GRAFT_WALK_MAX_OPERANDS = 6,
  GRAFT_WALK_THREADS = 256
};

// Dimension 0 is the innermost one.
typedef struct graft_walk {
  int32_t rank, n_operands;
  int32_t width;                                                  // elements of a group: 1 or GRAFT_WALK_WIDE
  int32_t steps[GRAFT_WALK_MAX_OPERANDS];                         // bytes between elements of a group; 0: one for all
  int64_t n;                                                      // groups
  int64_t shape[GRAFT_WALK_MAX_RANK];                             // groups along dimension 0, elements along others
  int64_t strides[GRAFT_WALK_MAX_OPERANDS][GRAFT_WALK_MAX_RANK];  // bytes
} graft_walk;

// A tensor as device code sees it.
typedef struct graft_cuda_operand {
  char *data;
  int32_t type;  // graft_dtype_code
  int32_t element_bytes;
} graft_cuda_operand;

#ifdef __cplusplus
extern "C" {
#endif

// The operands of an element-wise kernel: |data| is where each begins. All broadcast to the shape of operand 0, which
// is written. NULL descriptions stand for operands that are left out.
typedef struct graft_cuda_operands {
  uint32_t n;
  const graft_tensor_desc *desc[GRAFT_WALK_MAX_OPERANDS];
  void *data[GRAFT_WALK_MAX_OPERANDS];
} graft_cuda_operands;

// A walk over all elements, |skip| innermost dimensions left out; wide where every operand allows it and |may_be_wide|.
graft_walk graft_walk_init(const graft_cuda_operands *operands, int32_t skip, bool may_be_wide);

// The operands as device code sees them.
void graft_cuda_fill_operands(const graft_cuda_operands *operands, graft_cuda_operand *out_operands);

// Blocks of GRAFT_WALK_THREADS threads for |n| items, one thread each; more items than a grid has go round again.
uint32_t graft_cuda_blocks(int64_t n);

// Whether kernels here take |desc| (may be NULL): f32, f16, bf16, f8_e4m3 or f8_e5m2.
bool graft_cuda_takes(const graft_tensor_desc *desc);

// The same for all of a node's inputs and outputs, with a reason.
bool graft_cuda_takes_node(const graft_node_info *node, graft_reason *why);

#ifdef __cplusplus
}
#endif

#endif
