#include "fuzz_folder.h"

#include <stdlib.h>
#include <string.h>

static temp_folder shared_folder;

static void remove_folder(void) {
  temp_folder_remove(&shared_folder);
}

const temp_folder *fuzz_folder(void) {
  if (shared_folder.path[0] == '\0') {
    shared_folder = temp_folder_create();
    atexit(remove_folder);
  }
  return &shared_folder;
}

char *fuzz_take_line(const char **text, size_t *n_bytes) {
  if (*n_bytes == 0) return NULL;
  const char *end = memchr(*text, '\n', *n_bytes);
  size_t n = end == NULL ? *n_bytes : (size_t)(end - *text), taken = end == NULL ? n : n + 1;
  char *line = malloc(n + 1);
  if (line == NULL) abort();
  memcpy(line, *text, n);
  line[n] = '\0';
  *text += taken;
  *n_bytes -= taken;
  return line;
}
