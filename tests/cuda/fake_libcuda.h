// fake_libcuda.h — what tests ask of the driver's double. It is a shared object that the backend loads instead of
// libcuda.so.1: memory is the host's, copies are made at once, launches are counted and do nothing, and any call can be
// made to fail.
#ifndef GRAFT_TESTS_CUDA_FAKE_LIBCUDA_H
#define GRAFT_TESTS_CUDA_FAKE_LIBCUDA_H

#include <stdint.h>

typedef struct fake_cuda_counts {
  int64_t calls;     // of anything, since the last reset
  int64_t launches;  // of kernels, those put into graphs left out
  int64_t captured;  // launches put into graphs
  int64_t graph_launches;
  int64_t live_objects;  // allocations, streams, events, modules and graphs that were not given back
  int64_t live_bytes;    // of device memory
} fake_cuda_counts;

// Functions of the shared object, by these names.
typedef void (*fake_cuda_reset_fn)(int64_t fail_at, int result);  // call |fail_at|, from 1, returns |result|; 0: none
typedef fake_cuda_counts (*fake_cuda_counts_fn)(void);

#endif
