// versioned.h — arrays of structs that begin with their size.
#ifndef GRAFT_SRC_BASE_VERSIONED_H
#define GRAFT_SRC_BASE_VERSIONED_H

#include "graft/versioned.h"

// Copies |n| elements, which lie the first one's struct_size apart, as graft_versioned_copy does, into an array of
// |element_bytes| each that the caller frees; also of none. Errors: those of graft_versioned_copy, GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_versioned_array(const void *source, uint32_t n, size_t element_bytes,
                                                   const char *what, graft_error *error, void **out_array);

#endif
