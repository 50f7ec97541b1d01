#include "formats/excerpt.h"

#include <string.h>

static const char ellipsis[] = "…";

static bool is_continuation(char byte) {
  return ((unsigned char)byte & 0xC0) == 0x80;
}

static void copy_printable(char *target, const char *source, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    unsigned char byte = (unsigned char)source[i];
    target[i] = byte < 0x20 || byte == 0x7F ? '?' : source[i];
  }
  target[n] = '\0';
}

graft_excerpt graft_excerpt_name(const char *name) {
  graft_excerpt excerpt;
  if (name == NULL) name = "(none)";
  size_t room = GRAFT_EXCERPT_BYTES - sizeof ellipsis, n = strnlen(name, GRAFT_EXCERPT_BYTES);
  if (n <= room) {
    copy_printable(excerpt.text, name, n);
    return excerpt;
  }
  n = room;
  while (n > 0 && is_continuation(name[n])) --n;
  copy_printable(excerpt.text, name, n);
  memcpy(excerpt.text + n, ellipsis, sizeof ellipsis);
  return excerpt;
}

graft_excerpt graft_excerpt_path(const char *path) {
  size_t room = GRAFT_EXCERPT_BYTES - sizeof ellipsis, n = path == NULL ? 0 : strlen(path);
  if (n <= room) return graft_excerpt_name(path);
  const char *tail = path + (n - room);
  while (is_continuation(*tail)) ++tail;
  graft_excerpt excerpt;
  memcpy(excerpt.text, ellipsis, sizeof ellipsis);
  copy_printable(excerpt.text + strlen(ellipsis), tail, strlen(tail));
  return excerpt;
}
