// safetensors_header.h — the JSON header of a safetensors file, parsed and checked.
#ifndef GRAFT_FORMATS_SAFETENSORS_HEADER_H
#define GRAFT_FORMATS_SAFETENSORS_HEADER_H

#include "formats/json.h"
#include "formats/name_table.h"
#include "formats/safetensors.h"

typedef struct graft_safetensors_header {
  graft_json *json;                   // owns all names
  struct json_t *metadata;            // NULL when absent
  graft_safetensors_tensor *tensors;  // sorted by offset; |file_offset| counts from the start of the data
  size_t n_tensors;
  graft_name_table names;
} graft_safetensors_header;

// Checks |json|, the header of the file |path| that has |data_bytes| bytes of data, and takes ownership of it. The
// tensors' |data| and |file| are left NULL. Errors: GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED, GRAFT_E_NO_MEMORY. Release
// with graft_safetensors_header_release, also after a failure.
GRAFT_NODISCARD graft_status graft_safetensors_header_parse(graft_safetensors_header *header, const char *path,
                                                            graft_json *json, uint64_t data_bytes, graft_error *error);
void graft_safetensors_header_release(graft_safetensors_header *header);

#endif
