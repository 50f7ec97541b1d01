// elementwise.h — one kernel shape for everything that works element by element: operand 0 is written, the others are
// read. Shared by host and device code.
#ifndef GRAFT_OPS_COMMON_CUDA_ELEMENTWISE_H
#define GRAFT_OPS_COMMON_CUDA_ELEMENTWISE_H

#include "ops/common/cuda/walk.h"

typedef struct graft_elementwise_params {
  graft_walk walk;
  graft_cuda_operand operands[GRAFT_WALK_MAX_OPERANDS];
  float numbers[2];  // the operator's attributes
} graft_elementwise_params;

#ifdef __cplusplus
extern "C" {
#endif

// The state that prepare keeps: the kernel's two forms, for single elements and for eight at a time.
typedef struct graft_elementwise {
  graft_cuda_function *narrow, *wide;
} graft_elementwise;

// Loads "<name>_1" and "<name>_8" of |module| into new state. Errors: those of graft_cuda_function_load.
graft_status graft_elementwise_prepare(const graft_node_info *node, const graft_cuda_module *module, const char *name,
                                       graft_error *error, graft_prepared *out_prepared);

// Encodes the node: its output, then its inputs.
graft_status graft_elementwise_encode(graft_encoder *encoder, const graft_encode_args *args, const float numbers[2]);

// Encodes any operands, operand 0 is written.
graft_status graft_elementwise_encode_operands(graft_encoder *encoder, const graft_elementwise *functions,
                                               const graft_cuda_operands *operands, const float numbers[2],
                                               graft_error *error);

#ifdef __cplusplus
}
#endif

#endif
