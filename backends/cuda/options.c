#include "backends/cuda/options.h"

#include <string.h>

enum { MAX_VIRTUAL = 16 };

// The rest of |word| behind |key|, or NULL when it begins otherwise.
static const char *value_of(const char *word, size_t length, const char *key) {
  const size_t bytes = strlen(key);
  return length >= bytes && strncmp(word, key, bytes) == 0 ? word + bytes : NULL;
}

static bool read_virtual(const char *digits, const char *end, graft_reason *why, graft_cuda_options *options) {
  uint32_t n = 0;
  for (const char *c = digits; c < end && n <= MAX_VIRTUAL; ++c) {
    n = *c >= '0' && *c <= '9' ? n * 10 + (uint32_t)(*c - '0') : MAX_VIRTUAL + 1;
  }
  options->n_virtual = n;
  return (n >= 1 && n <= MAX_VIRTUAL) || graft_refuse(why, "cuda: virtual must be 1 to %d", MAX_VIRTUAL);
}

static bool read_word(const char *word, size_t length, graft_reason *why, graft_cuda_options *options) {
  const char *library = value_of(word, length, "library="), *n_virtual = value_of(word, length, "virtual=");
  if (library != NULL) {
    const size_t bytes = (size_t)(word + length - library);
    if (bytes >= sizeof options->library) return graft_refuse(why, "cuda: the library's path is too long");
    memcpy(options->library, library, bytes);
    options->library[bytes] = '\0';
    return true;
  }
  if (n_virtual != NULL) return read_virtual(n_virtual, word + length, why, options);
  const char *replay = value_of(word, length, "replay="), *mapping = value_of(word, length, "mapping=");
  if (replay != NULL) options->is_replay_off = strncmp(replay, "off", 3) == 0;
  if (mapping != NULL) options->is_mapping_off = strncmp(mapping, "off", 3) == 0;
  return replay != NULL || mapping != NULL ||
         graft_refuse(why, "cuda: \"%.*s\" is not understood", length < 60 ? (int)length : 60, word);
}

static bool read_entry(const char *entry, const char *end, graft_reason *why, graft_cuda_options *options) {
  static const char separators[] = " \t;";
  bool is_name = true, is_ours = false;
  while (entry < end) {
    const size_t length = strcspn(entry, separators);
    if (is_name && length > 0) {
      is_ours = strncmp(entry, "cuda", 4) == 0 && (length == 4 || entry[4] == ':');
      is_name = false;
    } else if (is_ours && length > 0 && !read_word(entry, length, why, options)) {
      return false;
    }
    entry += length + 1;
  }
  return true;
}

bool graft_cuda_options_read(const char *devices, graft_reason *why, graft_cuda_options *out_options) {
  graft_cuda_options options = {.n_virtual = 1};
  while (devices != NULL && *devices != '\0') {
    const char *end = devices + strcspn(devices, ";");
    if (!read_entry(devices, end, why, &options)) return false;
    devices = *end == ';' ? end + 1 : end;
  }
  *out_options = options;
  return true;
}
