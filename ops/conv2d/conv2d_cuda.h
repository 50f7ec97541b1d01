// conv2d_cuda.h — what the CUDA kernels of convolutions share on the host's side.
#ifndef GRAFT_OPS_CONV2D_CUDA_H
#define GRAFT_OPS_CONV2D_CUDA_H

#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_params.h"

// Fills operands, strides and sizes of |*params|; the rest is left as it is.
void graft_conv2d_cuda_describe(const graft_encode_args *args, const graft_conv2d_attrs *attrs,
                                graft_conv2d_params *params);

#endif
