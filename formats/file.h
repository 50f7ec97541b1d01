// file.h — opening and reading files that may be anything.
#ifndef GRAFT_FORMATS_FILE_H
#define GRAFT_FORMATS_FILE_H

#include "graft/status.h"

// Opens a regular file for reading, close-on-exec. A pipe, a device or a folder is refused instead of waited for.
// |path| is UTF-8 or whatever bytes the file system uses. The caller closes |out_fd|.
// Errors: GRAFT_E_INVALID (no path), GRAFT_E_NOT_FOUND, GRAFT_E_IO; all name the file. Thread-safe.
GRAFT_NODISCARD graft_status graft_file_open(const char *path, graft_error *error, int *out_fd, uint64_t *out_bytes);

// Which bytes to read: |bytes| of them at |offset| of the open file |fd|. |path| is for the error sentence.
typedef struct graft_file_range {
  int fd;
  const char *path;
  uint64_t offset;
  size_t bytes;
} graft_file_range;

// Reads the whole range into |target|. Fewer bytes than asked for is an error: the file shrank. Thread-safe.
GRAFT_NODISCARD graft_status graft_file_read(graft_file_range range, void *target, graft_error *error);

// Contents of a file; |data| is followed by a NUL that |bytes| does not count. Owned.
typedef struct graft_file_text {
  char *data;
  size_t bytes;
} graft_file_text;

// Reads a whole file of at most |max_bytes|; a longer one is refused with GRAFT_E_FORMAT before anything is allocated.
// Release the result with graft_file_text_release. Thread-safe.
GRAFT_NODISCARD graft_status graft_file_load(const char *path, size_t max_bytes, graft_error *error,
                                             graft_file_text *out_text);
void graft_file_text_release(graft_file_text *text);

// Whether |path| names something that exists, of any kind. Thread-safe.
bool graft_file_exists(const char *path);

// Whether |path| is a folder. Thread-safe.
bool graft_file_is_folder(const char *path);

// "folder/name" as a new string that the caller frees. Errors: GRAFT_E_NO_MEMORY. Thread-safe.
GRAFT_NODISCARD graft_status graft_file_join(const char *folder, const char *name, graft_error *error, char **out_path);

#endif
