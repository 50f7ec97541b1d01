#include "graft/versioned.h"

#include <string.h>

graft_status graft_versioned_copy(void *target, size_t target_bytes, const void *source, const char *what,
                                  graft_error *error) {
  uint32_t source_bytes;
  memcpy(&source_bytes, source, sizeof source_bytes);
  if (source_bytes < sizeof source_bytes || source_bytes % sizeof(uint32_t) != 0)
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
