#include "backends/words.h"

#include <string.h>

static bool is_about(const char *name, size_t length, const char *device) {
  return (length == strcspn(device, ":") || length == strlen(device)) && strncmp(name, device, length) == 0;
}

static graft_status read_entry(const char *entry, const char *device, graft_word_fn read, void *user,
                               graft_error *error) {
  static const char blanks[] = " \t";
  const char *at = entry + strspn(entry, blanks);
  size_t length = strcspn(at, " \t;");
  if (!is_about(at, length, device)) return GRAFT_OK;
  for (;;) {
    at += length;
    at += strspn(at, blanks);
    length = strcspn(at, " \t;");
    if (length == 0) return GRAFT_OK;
    GRAFT_TRY(read(user, at, length, error));
  }
}

graft_status graft_words_read(const char *devices, const char *device, graft_word_fn read, void *user,
                              graft_error *error) {
  while (devices != NULL && *devices != '\0') {
    GRAFT_TRY(read_entry(devices, device, read, user, error));
    devices += strcspn(devices, ";");
    devices += *devices == ';';
  }
  return GRAFT_OK;
}
