// move.h — strided copies on a CUDA device: bytes are kept, any strides on both sides.
#ifndef GRAFT_OPS_COMMON_CUDA_MOVE_H
#define GRAFT_OPS_COMMON_CUDA_MOVE_H

#include "ops/common/cuda/walk.h"

typedef struct graft_move_params {
  graft_walk walk;  // over units of a power of two bytes
  char *target;
  const char *source;
} graft_move_params;

#ifdef __cplusplus
extern "C" {
#endif

// Kernels for units of 1, 2, 4, 8 and 16 bytes.
typedef struct graft_mover {
  graft_cuda_function *functions[5];
} graft_mover;

// Loads the kernels into new state.
graft_status graft_move_prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared);
graft_status graft_mover_load(const graft_device *device, graft_error *error, graft_mover *out_mover);

// Copies |source| to |target|: same dtype, |source| broadcasts to |target|'s shape. Blocks of block types stay whole.
graft_status graft_move_encode(graft_encoder *encoder, const graft_mover *mover, const graft_view *target,
                               const graft_view *source, graft_error *error);

#ifdef __cplusplus
}
#endif

#endif
