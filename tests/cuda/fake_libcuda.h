// fake_libcuda.h — what tests ask of the driver's double. It is a shared object that the backend loads instead of
// libcuda.so.1: memory is the host's, copies are made as late as the rules of streams allow, launches are counted and
// compute nothing but for one function, and any call can be made to fail.
#ifndef GRAFT_TESTS_CUDA_FAKE_LIBCUDA_H
#define GRAFT_TESTS_CUDA_FAKE_LIBCUDA_H

#include <stdint.h>

typedef struct fake_cuda_counts {
  int64_t calls;     // of anything, since the last reset
  int64_t launches;  // of kernels, those put into graphs left out
  int64_t captured;  // launches put into graphs
  int64_t graph_launches;
  int64_t tensor_maps;    // that were well formed
  int64_t live_objects;   // allocations, streams, events, modules and graphs that were not given back
  int64_t live_bytes;     // of device memory
  int64_t uploads;        // copies to the device
  int64_t overlaps;       // copies to the device that were begun while a launch waited in another stream
  int64_t registered;     // calls that registered memory of the caller's
  int64_t pinned_bytes;   // registered now
  int64_t mapped_bytes;   // that were copied from there
  int64_t refused_waits;  // for a stream or context while it was captured, which broke the capture
  int64_t hazards;        // work that was not ordered behind other work on the same memory; memory freed too soon
} fake_cuda_counts;

// The function that computes y[i] = factor · x[i] + w[i], and its parameters.
#define FAKE_CUDA_ADD "fake_add"
typedef struct fake_cuda_add {
  const float *x, *w;
  float *y;
  int64_t n;
  float factor;
} fake_cuda_add;

// Functions of the shared object, by these names.
typedef void (*fake_cuda_reset_fn)(int64_t fail_at, int result);  // call |fail_at|, from 1, returns |result|; 0: none
typedef fake_cuda_counts (*fake_cuda_counts_fn)(void);
typedef void (*fake_cuda_on_capture_fn)(void (*call_back)(void));  // called when a capture begins; until a reset
typedef void (*fake_cuda_memory_fn)(int64_t bytes);                // the card's memory; 1 GiB until it is said
typedef void (*fake_cuda_lack_fn)(int attribute);                  // the card's attribute that is 0; until a reset
typedef void (*fake_cuda_pinning_fn)(int64_t bytes);  // the most that is registered at a time; until a reset
typedef void (*fake_cuda_share_fn)(int bytes);        // a block's shared memory; 227 KiB until it is said

#endif
