// versioned.h — structs that begin with their size, made by code of another age than ours.
#ifndef GRAFT_SRC_BASE_VERSIONED_H
#define GRAFT_SRC_BASE_VERSIONED_H

#include "graft/status.h"

// Copies |source|, whose first member is a uint32_t struct_size, into |target| of |target_bytes|: members that an older
// source lacks become zero. |what| names the struct in messages.
// Errors: GRAFT_E_INVALID (struct_size not set), GRAFT_E_UNSUPPORTED (a newer source uses members unknown here).
graft_status graft_versioned_copy(void *target, size_t target_bytes, const void *source, const char *what,
                                  graft_error *error);

#endif
