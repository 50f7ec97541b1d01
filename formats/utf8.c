#include "formats/utf8.h"

#include <utf8proc.h>

bool graft_utf8_is_valid(const char *text, size_t n_bytes, size_t *out_offset) {
  const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
  size_t i = 0;
  while (i < n_bytes) {
    if (bytes[i] < 0x80) {
      ++i;
      continue;
    }
    size_t left = n_bytes - i;
    utf8proc_int32_t codepoint;
    // A character has at most four bytes, so the signed length never overflows.
    utf8proc_ssize_t used = utf8proc_iterate(bytes + i, left < 4 ? (utf8proc_ssize_t)left : 4, &codepoint);
    if (used <= 0) {
      if (out_offset != NULL) *out_offset = i;
      return false;
    }
    i += (size_t)used;
  }
  return true;
}
