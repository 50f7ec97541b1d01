// safetensors_writer.h — writing tensors from memory to a safetensors file.
#ifndef GRAFT_FORMATS_SAFETENSORS_WRITER_H
#define GRAFT_FORMATS_SAFETENSORS_WRITER_H

#include "graft/tensor.h"

// A tensor to write: contiguous, row-major. |data| may be NULL when it has no elements. All borrowed for the call.
typedef struct graft_safetensors_source {
  const char *name;
  graft_dtype dtype;
  int32_t rank;
  int64_t shape[GRAFT_MAX_RANK];
  const void *data;
} graft_safetensors_source;

typedef struct graft_safetensors_pair {
  const char *key;
  const char *value;
} graft_safetensors_pair;

// What goes into a file. The order of the tensors does not matter: wide element types come first, then names decide,
// and the header is padded to a multiple of 8, as the reference writer does, so every tensor is naturally aligned.
typedef struct graft_safetensors_contents {
  const graft_safetensors_source *tensors;
  size_t n_tensors;
  const graft_safetensors_pair *metadata;  // none: no `__metadata__` is written
  size_t n_metadata;
  bool has_metadata;  // write `__metadata__` also when it is empty
} graft_safetensors_contents;

// Writes |path| whole or not at all (formats/atomic_file.h); equal contents give equal bytes. Little-endian machines
// only, as everything in graft. Errors: GRAFT_E_INVALID (names that repeat, are reserved or are not UTF-8; data
// missing), GRAFT_E_UNSUPPORTED (an application's dtype), GRAFT_E_SHAPE, GRAFT_E_NO_MEMORY, GRAFT_E_IO; naming file and
// tensor.
GRAFT_NODISCARD graft_status graft_safetensors_write(const char *path, const graft_safetensors_contents *contents,
                                                     graft_error *error);

// A file whose tensors are not in memory all at once, nor made in the order of the file. Begun, written and then
// committed or aborted, once.
typedef struct graft_safetensors_output graft_safetensors_output;

// Begins |path| with the layout of |contents|, whose data pointers are not looked at and whose tensors stay until the
// end. The file appears when it is committed. Errors as above.
GRAFT_NODISCARD graft_status graft_safetensors_output_begin(const char *path,
                                                            const graft_safetensors_contents *contents,
                                                            graft_error *error, graft_safetensors_output **out_output);

// Size of the whole file, and where tensor |tensor| of the contents begins in it.
uint64_t graft_safetensors_output_bytes(const graft_safetensors_output *output);
uint64_t graft_safetensors_output_offset(const graft_safetensors_output *output, size_t tensor);

// Writes |bytes| bytes at byte |offset| of tensor |tensor|, a range within it. What is never written is zero; long runs
// of zeros leave holes in the file. Errors: GRAFT_E_INVALID (the range), GRAFT_E_IO.
GRAFT_NODISCARD graft_status graft_safetensors_output_write(graft_safetensors_output *output, size_t tensor,
                                                            uint64_t offset, const void *data, size_t bytes,
                                                            graft_error *error);

// |output| is gone afterwards, also on failure.
GRAFT_NODISCARD graft_status graft_safetensors_output_commit(graft_safetensors_output *output, graft_error *error);
void graft_safetensors_output_abort(graft_safetensors_output *output);

#endif
