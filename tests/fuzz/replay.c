// Runs every target on its corpus: the faults that were found once stay fixed, without libFuzzer. A target that finds a
// fault aborts or is stopped by a sanitizer.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_targets.h"
#include "temp_folder.h"

static const struct {
  const char *name;
  fuzz_target run;
} targets[] = {
    {"safetensors", fuzz_safetensors},
    {"quantized", fuzz_quantized},
    {"tokenizer_json", fuzz_tokenizer_json},
    {"tokenizer_vocabulary", fuzz_tokenizer_vocabulary},
    {"json", fuzz_json},
    {"graph", fuzz_graph},
    {"extension", fuzz_extension},
};

static size_t replay(const char *corpus, const char *name, fuzz_target run) {
  temp_folder folder;
  snprintf(folder.path, sizeof folder.path, "%s/%s", corpus, name);
  DIR *entries = opendir(folder.path);
  if (entries == NULL) return 0;
  size_t n = 0;
  for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    if (entry->d_name[0] == '.') continue;
    size_t bytes = 0;
    char *data = temp_folder_read(temp_folder_join(&folder, entry->d_name).text, &bytes);
    // A copy of exactly this size, so that reading beyond it is noticed.
    uint8_t *exact = malloc(bytes == 0 ? 1 : bytes);
    if (exact == NULL) abort();
    memcpy(exact, data, bytes);
    (void)run(exact, bytes);
    free(exact);
    free(data);
    ++n;
  }
  closedir(entries);
  return n;
}

int main(int n_arguments, char **arguments) {
  if (n_arguments != 2) {
    fprintf(stderr, "usage: %s CORPUS\n", arguments[0]);
    return 2;
  }
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
    size_t n = replay(arguments[1], targets[i].name, targets[i].run);
    printf("%s: %zu inputs\n", targets[i].name, n);
    if (n == 0) return 1;
  }
  return 0;
}
