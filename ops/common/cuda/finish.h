// finish.h — the epilogue of a product as a kernel of its own: activation(x + bias) · gate + residual, each part
// optional, and conversion of dtypes and layouts.
#ifndef GRAFT_OPS_COMMON_CUDA_FINISH_H
#define GRAFT_OPS_COMMON_CUDA_FINISH_H

#include "ops/common/cuda/elementwise.h"

enum { GRAFT_FINISH_Y, GRAFT_FINISH_X, GRAFT_FINISH_BIAS, GRAFT_FINISH_GATE, GRAFT_FINISH_RESIDUAL, GRAFT_FINISH_N };

#ifdef __cplusplus
extern "C" {
#endif

graft_status graft_finish_load(const graft_device *device, graft_error *error, graft_elementwise *out_functions);

// |operands| in the places above; descriptions of those left out are NULL.
graft_status graft_finish_encode(graft_encoder *encoder, const graft_elementwise *functions,
                                 const graft_cuda_operands *operands, int32_t activation, graft_error *error);

#ifdef __cplusplus
}
#endif

#endif
