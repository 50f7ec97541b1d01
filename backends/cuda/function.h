// function.h — a function of a loaded module.
#ifndef GRAFT_BACKENDS_CUDA_FUNCTION_H
#define GRAFT_BACKENDS_CUDA_FUNCTION_H

#include "backends/cuda/driver.h"
#include "graft/cuda.h"

struct graft_cuda_function {
  graft_cuda_function *next;
  CUfunction handle;
  size_t shared_bytes;  // dynamic; the most that launches may ask for so far
  char name[];
};

#endif
