// options.h — what graft_backend_config.devices says of "cuda": words behind that name.
#ifndef GRAFT_BACKENDS_CUDA_OPTIONS_H
#define GRAFT_BACKENDS_CUDA_OPTIONS_H

#include "graft/device.h"

typedef struct graft_cuda_options {
  char library[512];   // instead of the system's driver; "": the system's
  uint32_t n_virtual;  // devices on each card, for tests of several devices
  bool is_replay_off, is_mapping_off;
} graft_cuda_options;

// Reads the entry "cuda" of |devices| (may be NULL): graft/cuda.h says which words there are. False with a sentence in
// |why| where one is not understood.
bool graft_cuda_options_read(const char *devices, graft_reason *why, graft_cuda_options *out_options);

#endif
