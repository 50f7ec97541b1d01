// dump.h — keeps copies of a generation's intermediate tensors and writes them to one safetensors file.
#ifndef GRAFT_TOOLS_GRAFT_DUMP_H
#define GRAFT_TOOLS_GRAFT_DUMP_H

#include "graft/tensor.h"

// Zero-initialise.
typedef struct tool_dump {
  struct tool_dump_entry *entries;
  size_t n_entries, capacity;
} tool_dump;

// Copies a contiguous tensor. Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status tool_dump_add(tool_dump *dump, const char *name, const graft_tensor_desc *desc,
                                           const void *data, graft_error *error);

// Writes all of them to |path|, whole or not at all.
GRAFT_NODISCARD graft_status tool_dump_write(const tool_dump *dump, const char *path, graft_error *error);

void tool_dump_release(tool_dump *dump);

#endif
