#include "src/base/versioned.h"

#include <stdlib.h>
#include <string.h>

static bool is_struct_size(uint32_t bytes) {
  return bytes > 0 && bytes % GRAFT_VERSIONED_WORD_BYTES == 0 && bytes <= GRAFT_VERSIONED_MOST_BYTES;
}

graft_status graft_versioned_copy(void *target, size_t target_bytes, const void *source, const char *what,
                                  graft_error *error) {
  uint32_t source_bytes;
  memcpy(&source_bytes, source, sizeof source_bytes);
  if (!is_struct_size(source_bytes))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "struct_size of %s is %u; set it to sizeof the struct", what,
                      (unsigned)source_bytes);
  const unsigned char *bytes = source;
  for (size_t i = target_bytes; i < source_bytes; ++i) {
    if (bytes[i] != 0)
      return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                        "%s uses members that this version of graft does not know; update graft", what);
  }
  size_t shared = source_bytes < target_bytes ? source_bytes : target_bytes;
  memset(target, 0, target_bytes);
  memcpy(target, source, shared);
  uint32_t size = (uint32_t)target_bytes;
  memcpy(target, &size, sizeof size);
  return GRAFT_OK;
}

void graft_versioned_fill(void *target, const void *source, size_t source_bytes) {
  uint32_t size;
  memcpy(&size, target, sizeof size);
  if (!is_struct_size(size)) return;
  memset(target, 0, size);
  memcpy(target, source, size < source_bytes ? size : source_bytes);
  memcpy(target, &size, sizeof size);
}

graft_status graft_versioned_array(const void *source, uint32_t n, size_t element_bytes, const char *what,
                                   graft_error *error, void **out_array) {
  char *array = calloc((size_t)n + 1, element_bytes);
  if (array == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %u of %s", (unsigned)n, what);
  uint32_t stride = 0;
  if (n > 0) memcpy(&stride, source, sizeof stride);
  for (uint32_t i = 0; i < n; ++i) {
    const char *element = (const char *)source + (size_t)i * stride;
    uint32_t bytes;
    memcpy(&bytes, element, sizeof bytes);
    graft_status status = bytes == stride
                              ? graft_versioned_copy(array + i * element_bytes, element_bytes, element, what, error)
                              : GRAFT_FAIL(error, GRAFT_E_INVALID, "struct_size of %s is %u, of the first one %u", what,
                                           (unsigned)bytes, (unsigned)stride);
    if (status == GRAFT_OK) continue;
    free(array);
    return status;
  }
  *out_array = array;
  return GRAFT_OK;
}
