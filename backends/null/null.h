// null.h — what kernels of the "null" backend are given. Rename it to your backend's own header, as graft/cpu.h is the
// CPU's; kernels include it and nothing else of the backend.
#ifndef GRAFT_BACKENDS_NULL_H
#define GRAFT_BACKENDS_NULL_H

#include "graft/extension.h"

// A unit of work. On a real device this is a launch: which shader or function, its arguments, its grid.
typedef struct graft_null_command {
  void (*run)(const void *args);
  const void *args;  // copied into the recording
  size_t args_bytes;
} graft_null_command;

// Adds a command to the step being recorded; commands run in the order in which they were added.
// Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_null_encode(graft_encoder *encoder, const graft_null_command *command,
                                               graft_error *error);

extern const graft_extension graft_extension_null_backend;

#endif
