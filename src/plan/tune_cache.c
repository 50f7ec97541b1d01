// The file of measured times: a line "graft-tuning 1 CHECKSUM", then a line "kernel TAB seconds TAB key" each.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/array.h"
#include "src/base/text.h"
#include "src/plan/tune.h"
#include "src/run/context_internal.h"

enum { MAX_FILE_BYTES = 64 << 20 };

#define HEAD_FORMAT "graft-tuning 1 %016llx\n"
enum { HEAD_BYTES = sizeof "graft-tuning 1 0123456789abcdef\n" - 1 };

// FNV-1a: finds what a crash, a full disk or an editor did to the file; nobody is kept from forging it.
static unsigned long long checksum(const char *text) {
  unsigned long long h = 0xcbf29ce484222325u;
  for (; *text != '\0'; ++text) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
  return h;
}

void graft_tune_warn(const graft_tuner *tuner, graft_tune_act act, const char *format, ...) {
  char line[1024];
  uint64_t *last = &tuner->context->tuning_warnings[act];
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(line, sizeof line, format, arguments);
  va_end(arguments);
  const uint64_t sum = checksum(line);
  if (*last != sum) graft_context_log(tuner->context, GRAFT_LOG_WARNING, "%s", line);
  *last = sum;
}

const graft_tune_entry *graft_tune_find(const graft_tuner *tuner, const char *key) {
  for (uint32_t i = 0; i < tuner->n_entries; ++i) {
    if (strcmp(tuner->entries[i].key, key) == 0) return &tuner->entries[i];
  }
  return NULL;
}

bool graft_tune_add(graft_tuner *tuner, const char *key, const char *kernel, double seconds) {
  graft_tune_entry *entries =
      graft_array_reserve(tuner->entries, tuner->n_entries, 1, &tuner->capacity, sizeof *entries);
  if (entries == NULL) return false;
  tuner->entries = entries;
  graft_tune_entry entry = {strdup(key), strdup(kernel), seconds};
  if (entry.key == NULL || entry.kernel == NULL) {
    free(entry.key);
    free(entry.kernel);
    return false;
  }
  entries[tuner->n_entries++] = entry;
  return true;
}

void graft_tune_forget(graft_tuner *tuner) {
  for (uint32_t i = 0; i < tuner->n_entries; ++i) {
    free(tuner->entries[i].key);
    free(tuner->entries[i].kernel);
  }
  free(tuner->entries);
  tuner->entries = NULL;
  tuner->n_entries = tuner->capacity = 0;
}

// Reads the whole file, terminated; NULL with errno 0 where it is too long or holds a zero byte.
static char *read_file(const char *path) {
  FILE *file = fopen(path, "rbe");
  if (file == NULL) return NULL;
  char *text = NULL;
  size_t n = 0, capacity = 1 << 14;
  for (;; capacity *= 2) {
    char *longer = realloc(text, capacity + 1);
    if (longer == NULL) break;
    text = longer;
    n += fread(text + n, 1, capacity - n, file);
    if (n < capacity || capacity > MAX_FILE_BYTES) break;
  }
  bool is_whole = text != NULL && n < capacity && !ferror(file);
  int code = ferror(file) ? errno : 0;
  fclose(file);
  if (is_whole) text[n] = '\0';
  if (is_whole && strlen(text) == n) return text;
  free(text);
  errno = code;
  return NULL;
}

// Takes one line apart and adds it; |line| is terminated where its newline was.
static bool add_line(graft_tuner *tuner, char *line) {
  char *seconds = strchr(line, '\t'), *key = seconds == NULL ? NULL : strchr(seconds + 1, '\t');
  if (key == NULL || key[1] == '\0' || seconds == line) return false;
  *seconds++ = *key++ = '\0';
  char *end;
  double value = strtod(seconds, &end);
  if (end == seconds || *end != '\0' || !isfinite(value) || value < 0) return false;
  return graft_tune_find(tuner, key) != NULL || graft_tune_add(tuner, key, line, value);
}

static bool parse(graft_tuner *tuner, char *text) {
  char head[HEAD_BYTES + 1];
  if (strlen(text) < HEAD_BYTES) return false;
  snprintf(head, sizeof head, HEAD_FORMAT, checksum(text + HEAD_BYTES));
  if (strncmp(text, head, HEAD_BYTES) != 0) return false;
  for (char *line = text + HEAD_BYTES; *line != '\0';) {
    char *end = strchr(line, '\n');
    if (end == NULL) return false;
    *end = '\0';
    if (!add_line(tuner, line)) return false;
    line = end + 1;
  }
  return true;
}

void graft_tune_read(graft_tuner *tuner) {
  errno = 0;
  char *text = read_file(tuner->path);
  if (text == NULL && errno == ENOENT) return;
  if (text == NULL && errno != 0) {
    graft_tune_warn(tuner, GRAFT_TUNE_READING, "measured times in %s cannot be read: %s", tuner->path, strerror(errno));
    return;
  }
  if (text == NULL || !parse(tuner, text)) {
    graft_tune_forget(tuner);
    graft_tune_warn(tuner, GRAFT_TUNE_READING, "%s is damaged or no file of measured times; what it says is ignored",
                    tuner->path);
  } else {
    tuner->context->tuning_warnings[GRAFT_TUNE_READING] = 0;
  }
  free(text);
}

static char *format_entries(const graft_tuner *tuner, size_t *out_bytes) {
  char *text = NULL;
  FILE *stream = open_memstream(&text, out_bytes);
  if (stream == NULL) return NULL;
  for (uint32_t i = 0; i < tuner->n_entries; ++i) {
    const graft_tune_entry *entry = &tuner->entries[i];
    fprintf(stream, "%s\t%.9g\t%s\n", entry->kernel, entry->seconds, entry->key);
  }
  bool is_whole = !ferror(stream);
  if (fclose(stream) == 0 && is_whole) return text;
  free(text);
  return NULL;
}

static bool write_all(int file, const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t written = write(file, bytes, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    n -= (size_t)written;
  }
  return true;
}

// Another process may write the same file: each writes one of its own and renames it, and a reader sees either whole.
static graft_status replace_file(const char *path, const char *text, size_t bytes, graft_error *error) {
  size_t path_bytes = strlen(path) + sizeof ".XXXXXX";
  char *draft = malloc(path_bytes), head[HEAD_BYTES + 1];
  if (draft == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to write %s", path);
  snprintf(draft, path_bytes, "%s.XXXXXX", path);
  snprintf(head, sizeof head, HEAD_FORMAT, checksum(text));
  int file = mkostemp(draft, O_CLOEXEC);
  bool is_written = file >= 0 && write_all(file, head, HEAD_BYTES) && write_all(file, text, bytes) && fsync(file) == 0;
  int code = errno;
  if (file >= 0 && close(file) != 0 && is_written) {
    code = errno;
    is_written = false;
  }
  if (is_written && rename(draft, path) != 0) {
    code = errno;
    is_written = false;
  }
  if (!is_written && file >= 0) unlink(draft);
  free(draft);
  return is_written ? GRAFT_OK : GRAFT_FAIL(error, GRAFT_E_IO, "%s cannot be written: %s", path, strerror(code));
}

graft_status graft_tune_write(graft_tuner *tuner, graft_error *error) {
  graft_tuner present = {.context = tuner->context, .path = tuner->path};
  // What others measured meanwhile is kept; if memory ends it is measured again some day.
  graft_tune_read(&present);
  for (uint32_t i = 0; i < present.n_entries; ++i) {
    const graft_tune_entry *entry = &present.entries[i];
    if (graft_tune_find(tuner, entry->key) == NULL)
      (void)graft_tune_add(tuner, entry->key, entry->kernel, entry->seconds);
  }
  graft_tune_forget(&present);
  size_t bytes = 0;
  char *text = format_entries(tuner, &bytes);
  if (text == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to write %s", tuner->path);
  graft_status status = replace_file(tuner->path, text, bytes, error);
  free(text);
  return status;
}
