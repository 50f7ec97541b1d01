// safetensors.h — reading the safetensors container, as strictly as its reference reader.
//
// A file is: header length N (8 bytes, little endian, at most 100,000,000), N bytes of JSON, data. Opening checks all
// of the header: every tensor's byte range fits its shape and type, ranges neither overlap nor leave gaps, and the file
// ends exactly where the last one does. It is stricter than the reference in these points: duplicate JSON keys, ranks
// above GRAFT_MAX_RANK, and NUL characters in strings are refused. Element types that the container knows and graft
// does not are listed like any other; graft_safetensors_require refuses them by name once such a tensor is used.
// Opening a mapped file touches no data page, whatever the size of the file.
//
// Files that change while they are open: graft keeps the opened file, so replacing it by a rename (as every careful
// writer does) is harmless. A mapped file that another process cuts short in place cannot be defended against: touching
// a page behind the new end raises SIGBUS, which the graft program turns into a message, and the rest of the last page
// becomes zeros. graft_safetensors_check tells such a file: whoever used its data asks before the result is given away.
// Open files that others may rewrite in place with GRAFT_SAFETENSORS_READ.
#ifndef GRAFT_FORMATS_SAFETENSORS_H
#define GRAFT_FORMATS_SAFETENSORS_H

#include "graft/tensor.h"

typedef struct graft_safetensors graft_safetensors;

typedef enum graft_safetensors_access {
  GRAFT_SAFETENSORS_MAP = 0,  // private read-only mapping; pages are loaded when touched
  GRAFT_SAFETENSORS_READ,     // all data is read into memory on opening
} graft_safetensors_access;

// One tensor of an open file. Everything it points to lives as long as the file is open.
typedef struct graft_safetensors_tensor {
  const char *name;
  const char *dtype_name;  // as in the file: "F32", "F8_E4M3", "F64"
  graft_dtype dtype;       // NULL: graft has no such element type
  uint32_t element_bits;
  int32_t rank;
  int64_t shape[GRAFT_MAX_RANK];
  int64_t n_elements;  // the product of |shape|, which code outside would have to form with checks
  const void *data;    // little endian, row-major, possibly misaligned: read it with memcpy or unaligned loads
  size_t bytes;
  uint64_t file_offset;
  const graft_safetensors *file;
} graft_safetensors_tensor;

// Opens and checks |path|, which need not be writable. Close the result with graft_safetensors_close.
// Errors: GRAFT_E_NOT_FOUND, GRAFT_E_IO, GRAFT_E_FORMAT (all name the file, and the tensor where there is one),
// GRAFT_E_UNSUPPORTED (rank), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_safetensors_open(const char *path, graft_safetensors_access access,
                                                    graft_error *error, graft_safetensors **out_file);
void graft_safetensors_close(graft_safetensors *file);

const char *graft_safetensors_path(const graft_safetensors *file);

// Tensors in the order of their data. |index| is below the count.
size_t graft_safetensors_count(const graft_safetensors *file);
const graft_safetensors_tensor *graft_safetensors_at(const graft_safetensors *file, size_t index);

// The tensor called |name|, or NULL. Thread-safe.
const graft_safetensors_tensor *graft_safetensors_find(const graft_safetensors *file, const char *name);

// The tensor called |name|, of a type that graft can compute with. Errors, naming file, tensor and reason:
// GRAFT_E_NOT_FOUND, GRAFT_E_UNSUPPORTED (its element type). Thread-safe.
GRAFT_NODISCARD graft_status graft_safetensors_require(const graft_safetensors *file, const char *name,
                                                       graft_error *error, const graft_safetensors_tensor **out_tensor);

// Value of |key| in the header's `__metadata__`, or NULL. Borrowed. Thread-safe.
const char *graft_safetensors_metadata(const graft_safetensors *file, const char *key);

// The header's `__metadata__` as a jansson object of strings, or NULL when there is none. Borrowed.
struct json_t *graft_safetensors_metadata_all(const graft_safetensors *file);

// GRAFT_E_IO when the file on disk has another size or modification time than when it was opened. Thread-safe.
GRAFT_NODISCARD graft_status graft_safetensors_check(const graft_safetensors *file, graft_error *error);

typedef enum graft_safetensors_advice {
  GRAFT_SAFETENSORS_WILL_NEED,  // start reading the range from disk
  GRAFT_SAFETENSORS_DISCARD,    // give the whole pages of the range back; they are read again when touched
} graft_safetensors_advice;

// Tells the system what will become of |bytes| at |data|, a range inside |file|'s data. Does nothing for a file that
// was read into memory. Errors: GRAFT_E_INVALID (outside of the file), GRAFT_E_IO. Thread-safe.
GRAFT_NODISCARD graft_status graft_safetensors_advise(const graft_safetensors *file, const void *data, size_t bytes,
                                                      graft_safetensors_advice advice, graft_error *error);

#endif
