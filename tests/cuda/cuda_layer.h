// cuda_layer.h — an operator for plans on the driver's double: tests.layer.v1, y = factor · x + w.
#ifndef GRAFT_TESTS_CUDA_CUDA_LAYER_H
#define GRAFT_TESTS_CUDA_CUDA_LAYER_H

#include "graft/graft.h"

typedef struct cuda_layer_attrs {
  double factor;
  int64_t work;  // floating-point operations that it says it has for an element
  bool packs;    // w behind CUDA_LAYER_PADDING bytes
} cuda_layer_attrs;

enum { CUDA_LAYER_PADDING = 4096, CUDA_LAYER_WORKSPACE = 1000 };

// The operator and its only kernel, which runs on CUDA.
extern const graft_extension cuda_layer_extension;

#endif
