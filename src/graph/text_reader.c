#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"
#include "src/graph/serialize.h"

graft_status graft_text_fail(graft_text_reader *reader, graft_status status, const char *format, ...) {
  char message[384];
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(message, sizeof message, format, arguments);
  va_end(arguments);
  return GRAFT_FAIL(reader->error, status, "line %u: %s", (unsigned)reader->line, message);
}

void graft_text_skip_spaces(graft_text_reader *reader) {
  while (*reader->at == ' ') ++reader->at;
}

bool graft_text_take(graft_text_reader *reader, const char *token) {
  graft_text_skip_spaces(reader);
  size_t n = strlen(token);
  if (strncmp(reader->at, token, n) != 0) return false;
  reader->at += n;
  return true;
}

graft_status graft_text_expect(graft_text_reader *reader, const char *token) {
  if (graft_text_take(reader, token)) return GRAFT_OK;
  size_t n = strcspn(reader->at, "\n");
  return graft_text_fail(reader, GRAFT_E_FORMAT, "expected \"%s\" before \"%.*s\"", token, (int)(n < 40 ? n : 40),
                         reader->at);
}

static bool is_word_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

size_t graft_text_word(graft_text_reader *reader, const char **out_word) {
  graft_text_skip_spaces(reader);
  *out_word = reader->at;
  while (is_word_byte(*reader->at)) ++reader->at;
  return (size_t)(reader->at - *out_word);
}

graft_status graft_text_i64(graft_text_reader *reader, int64_t *out_value) {
  const char *word;
  size_t n = graft_text_word(reader, &word);
  char *end = NULL;
  errno = 0;
  long long value = n == 0 ? 0 : strtoll(word, &end, 10);
  if (n == 0 || end != reader->at || errno != 0)
    return graft_text_fail(reader, GRAFT_E_FORMAT, "\"%.*s\" is no whole number of 64 bits", (int)(n < 40 ? n : 40),
                           word);
  *out_value = value;
  return GRAFT_OK;
}

graft_status graft_text_f64(graft_text_reader *reader, double *out_value) {
  const char *word;
  graft_text_skip_spaces(reader);
  char *begin = reader->at;
  while (is_word_byte(*reader->at) || *reader->at == '+') ++reader->at;
  word = begin;
  size_t n = (size_t)(reader->at - begin);
  char *end = NULL;
  double value = n == 0 ? 0 : strtod(begin, &end);
  if (n == 0 || end != reader->at)
    return graft_text_fail(reader, GRAFT_E_FORMAT, "\"%.*s\" is no number", (int)(n < 40 ? n : 40), word);
  *out_value = value;
  return GRAFT_OK;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The byte that the escape behind a backslash stands for; steps over it. 0 where there is none: text has no zero bytes.
static char take_escape(char **at) {
  char c = **at;
  if (c == '"' || c == '\\') {
    ++*at;
    return c;
  }
  if (c != 'x') return '\0';
  int high = hex_digit((*at)[1]), low = high < 0 ? -1 : hex_digit((*at)[2]);
  if (low < 0) return '\0';
  *at += 3;
  return (char)(16 * high + low);
}

graft_status graft_text_quoted(graft_text_reader *reader, char **out_text) {
  GRAFT_TRY(graft_text_expect(reader, "\""));
  char *from = reader->at, *to = reader->at;
  *out_text = to;
  while (*from != '"') {
    if (*from == '\0' || *from == '\n')
      return graft_text_fail(reader, GRAFT_E_FORMAT, "a name in quotes does not end on its line");
    char c = *from++;
    if (c == '\\') c = take_escape(&from);
    if (c == '\0') return graft_text_fail(reader, GRAFT_E_FORMAT, "a backslash stands before nothing that it escapes");
    *to++ = c;
  }
  reader->at = from + 1;
  *to = '\0';
  return GRAFT_OK;
}

graft_status graft_text_dtype(graft_text_reader *reader, const graft_context *context, graft_dtype *out_dtype) {
  const char *word;
  char name[64];
  size_t n = graft_text_word(reader, &word);
  if (n == 0 || n >= sizeof name) return graft_text_fail(reader, GRAFT_E_FORMAT, "expected the name of a dtype");
  memcpy(name, word, n);
  name[n] = '\0';
  *out_dtype = graft_context_find_dtype(context, name);
  if (*out_dtype == NULL)
    return graft_text_fail(reader, GRAFT_E_NOT_FOUND,
                           "there is no dtype %s here; load the plug-in or register the extension that brings it",
                           name);
  return GRAFT_OK;
}
