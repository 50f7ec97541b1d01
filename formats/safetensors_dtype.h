// safetensors_dtype.h — the element types of the safetensors container.
#ifndef GRAFT_FORMATS_SAFETENSORS_DTYPE_H
#define GRAFT_FORMATS_SAFETENSORS_DTYPE_H

#include "graft/dtype.h"

typedef struct graft_safetensors_dtype {
  const char *name;
  uint32_t bits;
  graft_dtype dtype;  // NULL: graft cannot compute with it
} graft_safetensors_dtype;

// The type spelled exactly |name| in a header, or NULL. Static storage. Thread-safe.
const graft_safetensors_dtype *graft_safetensors_dtype_find(const char *name);

// The type that stores graft's |dtype|, or NULL for an application's own. Later entries of the table are written first
// (wide before narrow), so the addresses of two results can be compared to order tensors. Thread-safe.
const graft_safetensors_dtype *graft_safetensors_dtype_of(graft_dtype dtype);

#endif
