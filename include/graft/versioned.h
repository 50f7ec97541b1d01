// versioned.h — structs that begin with their size, made by code of another age than the reader's. For libraries built
// on top of graft that take such structs too, as diffusion.h does.
#ifndef GRAFT_VERSIONED_H
#define GRAFT_VERSIONED_H

#include "graft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Structs that begin with struct_size are made of whole words of eight bytes, so that no size that is one cuts a
// pointer or a number in half; and none is as large as this. Any other struct_size was not set.
enum { GRAFT_VERSIONED_WORD_BYTES = 8, GRAFT_VERSIONED_MOST_BYTES = 1 << 16 };

// Copies |source|, whose first member is a uint32_t struct_size, into |target| of |target_bytes|: members that an older
// source lacks become zero, and struct_size becomes |target_bytes|. |what| names the struct in messages. |error| may be
// NULL. Errors: GRAFT_E_INVALID (struct_size not set), GRAFT_E_UNSUPPORTED (a newer source uses members unknown here).
// Thread-safe.
GRAFT_API GRAFT_NODISCARD graft_status graft_versioned_copy(void *target, size_t target_bytes, const void *source,
                                                            const char *what, graft_error *error);

// The other way: copies |source|, a struct of |source_bytes| bytes, into |target| that somebody made and set
// struct_size in. Nothing is written beyond that size, what the source lacks of it becomes zero, and struct_size stays.
// A target whose struct_size was not set gets nothing. Thread-safe.
GRAFT_API void graft_versioned_fill(void *target, const void *source, size_t source_bytes);

#ifdef __cplusplus
}
#endif

#endif
