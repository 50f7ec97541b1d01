// atomic_file.h — a file that appears whole or not at all.
//
// Bytes go to a temporary file beside the target. Committing flushes it to the disk and renames it over the target, so
// a reader sees the old contents or the new ones, and a failure leaves the old ones. A symbolic link to a file or to
// nothing is replaced, not followed. Every file that was begun must be committed or aborted, once.
#ifndef GRAFT_FORMATS_ATOMIC_FILE_H
#define GRAFT_FORMATS_ATOMIC_FILE_H

#include "graft/status.h"

typedef struct graft_atomic_file graft_atomic_file;

// Starts writing |path|. Errors: GRAFT_E_INVALID (no path), GRAFT_E_IO (the folder does not exist or is read-only, the
// target is a folder, pipe or device, or a link to one), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_atomic_file_begin(const char *path, graft_error *error,
                                                     graft_atomic_file **out_file);

// Appends |bytes| bytes. After a failure (GRAFT_E_IO: disk full, …) the file can only be aborted.
GRAFT_NODISCARD graft_status graft_atomic_file_append(graft_atomic_file *file, const void *data, size_t bytes,
                                                      graft_error *error);

// For files whose parts are not made in order: sets the size, after which bytes that are never written are zero and
// take no room where the file system can leave holes; and writes |bytes| bytes at |offset|, which moves nothing that
// was written before. Not to be mixed with appending afterwards. Errors: GRAFT_E_IO.
GRAFT_NODISCARD graft_status graft_atomic_file_resize(graft_atomic_file *file, uint64_t bytes, graft_error *error);
GRAFT_NODISCARD graft_status graft_atomic_file_write_at(graft_atomic_file *file, uint64_t offset, const void *data,
                                                        size_t bytes, graft_error *error);

// Makes the file visible under its name. |file| is gone afterwards, also on failure, which leaves nothing behind.
GRAFT_NODISCARD graft_status graft_atomic_file_commit(graft_atomic_file *file, graft_error *error);

// Removes what was written. NULL is accepted.
void graft_atomic_file_abort(graft_atomic_file *file);

#endif
