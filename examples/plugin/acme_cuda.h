// acme_cuda.h — what the plug-in has for NVIDIA GPUs where it is built with a CUDA compiler.
#ifndef ACME_CUDA_H
#define ACME_CUDA_H

#include <graft/cuda.h>
#include <graft/graft.h>

// Kernels of "acme.hardswish.v1" and "acme.hardswish_mul.v1" (hardswish_cuda.c).
extern const graft_extension acme_cuda_extension;

// "acme.gram.v1", y = x · xᵀ for every pair of rows, whose kernel is NVIDIA's library (gram_cuda.c).
extern const graft_extension acme_gram_extension;

#endif
