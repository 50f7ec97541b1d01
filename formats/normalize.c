#include "formats/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { MAX_DECOMPOSITION = 4, N_CLASSES = 256 };  // no canonical decomposition is longer than four characters

static bool is_ascii(const char *text, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; ++i)
    if ((unsigned char)text[i] >= 0x80) return false;
  return true;
}

static size_t decompose(const char *text, size_t n_bytes, utf8proc_int32_t *target) {
  size_t n = 0;
  for (size_t i = 0; i < n_bytes;) {
    utf8proc_int32_t codepoint = 0;
    size_t left = n_bytes - i;
    i +=
        (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + i, left < 4 ? (utf8proc_ssize_t)left : 4, &codepoint);
    int boundary = 0;
    n += (size_t)utf8proc_decompose_char(codepoint, target + n, MAX_DECOMPOSITION, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE,
                                         &boundary);
  }
  return n;
}

static int combining_class(utf8proc_int32_t codepoint) {
  return utf8proc_get_property(codepoint)->combining_class;
}

// Sorts one run of combining marks by class and keeps the order within a class (a counting sort).
static void sort_marks(utf8proc_int32_t *marks, size_t n, utf8proc_int32_t *scratch) {
  size_t start[N_CLASSES + 1] = {0};
  for (size_t i = 0; i < n; ++i) ++start[combining_class(marks[i]) + 1];
  for (int c = 0; c < N_CLASSES; ++c) start[c + 1] += start[c];
  for (size_t i = 0; i < n; ++i) scratch[start[combining_class(marks[i])]++] = marks[i];
  memcpy(marks, scratch, n * sizeof *marks);
}

static void order_marks(utf8proc_int32_t *codepoints, size_t n, utf8proc_int32_t *scratch) {
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && combining_class(codepoints[end]) != 0) ++end;
    if (end - i > 1) sort_marks(codepoints + i, end - i, scratch);
    i = end + 1;
  }
}

static char *encode(const utf8proc_int32_t *codepoints, size_t n, size_t *out_bytes) {
  char *text = malloc(4 * n + 1);
  if (text == NULL) return NULL;
  size_t bytes = 0;
  for (size_t i = 0; i < n; ++i) bytes += (size_t)utf8proc_encode_char(codepoints[i], (utf8proc_uint8_t *)text + bytes);
  *out_bytes = bytes;
  return text;
}

graft_status graft_normalize_nfc(const char *text, size_t n_bytes, graft_error *error, char **out_text,
                                 size_t *out_bytes) {
  *out_text = NULL;
  if (is_ascii(text, n_bytes)) return GRAFT_OK;
  // Two halves: the characters, and scratch space to sort marks in. A character has at least one byte.
  size_t room = n_bytes > SIZE_MAX / 64 ? 0 : n_bytes * MAX_DECOMPOSITION;
  utf8proc_int32_t *codepoints = room == 0 ? NULL : malloc(2 * room * sizeof *codepoints);
  char *normalized = NULL;
  if (codepoints != NULL) {
    size_t n = decompose(text, n_bytes, codepoints);
    order_marks(codepoints, n, codepoints + room);
    n = (size_t)utf8proc_normalize_utf32(codepoints, (utf8proc_ssize_t)n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    normalized = encode(codepoints, n, out_bytes);
  }
  free(codepoints);
  if (normalized == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory while normalising %zu bytes of text", n_bytes);
  *out_text = normalized;
  return GRAFT_OK;
}
