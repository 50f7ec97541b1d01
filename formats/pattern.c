#include "formats/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"

// Unicode's White_Space, as the inside of a character class.
static const char white_space[] =
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

enum { MAX_EXPANSION = sizeof white_space + 4 };  // no two characters of input become longer than this

typedef struct translator {
  const char *next;
  char *target;
  bool in_class;
  const char *refusal;  // why the pattern cannot be translated, or NULL
} translator;

static void put(translator *t, const char *text, size_t n) {
  memcpy(t->target, text, n);
  t->target += n;
}

static void put_text(translator *t, const char *text) {
  put(t, text, strlen(text));
}

static void take(translator *t, size_t n) {
  put(t, t->next, n);
  t->next += n;
}

static void refuse(translator *t, const char *why) {
  t->refusal = why;
}

// \p{L}, \p{^Lu}: a name in braces, taken as it is.
static void translate_property(translator *t) {
  const char *name = t->next + 2;
  size_t n = *name == '{' ? strspn(name + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_^") : 0;
  if (n == 0 || name[n + 1] != '}') return refuse(t, "a property that is not a name in braces");
  take(t, n + 4);
}

static void translate_space(translator *t, bool negated) {
  if (t->in_class && negated) return refuse(t, "`\\S` in a character class");
  if (!t->in_class) put_text(t, negated ? "[^" : "[");
  put_text(t, white_space);
  if (!t->in_class) put_text(t, "]");
  t->next += 2;
}

static void translate_escape(translator *t) {
  char c = t->next[1];
  if (c == 's' || c == 'S') return translate_space(t, c == 'S');
  if (c == 'p' || c == 'P') return translate_property(t);
  if (c != '\0' && strchr("rntdD", c) != NULL) return take(t, 2);
  if (c > ' ' && c <= '~' && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c) != NULL) return take(t, 2);
  refuse(t, c == '\0' ? "a backslash at its end" : "an escape other than \\s \\S \\d \\D \\p \\P \\r \\n \\t");
}

static void translate_in_class(translator *t) {
  if (*t->next == '[') return refuse(t, "a class inside a class");
  if (t->next[0] == '&' && t->next[1] == '&') return refuse(t, "an intersection of classes");
  if (*t->next == ']') t->in_class = false;
  take(t, 1);
}

static void translate_class_start(translator *t) {
  t->in_class = true;
  take(t, t->next[1] == '^' ? 2 : 1);
  if (*t->next == ']') refuse(t, "a class that begins with `]`");
}

static void translate_group(translator *t) {
  static const char *const groups[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:"};
  if (t->next[1] == '*') return refuse(t, "a verb");
  if (t->next[1] != '?') return take(t, 1);
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    size_t n = strlen(groups[i]);
    if (strncmp(t->next, groups[i], n) == 0) return take(t, n);
  }
  refuse(t, "a group other than (?: (?= (?! (?> (?<= (?<! (?i:");
}

// {n}, {n,} and {n,m}. A `+` behind it means "possessive" to one syntax and "again" to the other.
static void translate_interval(translator *t) {
  static const char digits[] = "0123456789";
  size_t n = strspn(t->next + 1, digits), length = n + 1;
  if (n > 0 && t->next[length] == ',') length += 1 + strspn(t->next + length + 1, digits);
  if (n == 0 || t->next[length] != '}' || t->next[length + 1] == '+')
    return refuse(t, "a repetition other than {n}, {n,} or {n,m}");
  take(t, length + 1);
}

static void translate_next(translator *t) {
  if (*t->next == '\\') return translate_escape(t);
  if (t->in_class) return translate_in_class(t);
  switch (*t->next) {
    case '[': return translate_class_start(t);
    case '(': return translate_group(t);
    case '{': return translate_interval(t);
    case '^':
    case '$': return refuse(t, "an anchor");
    default: return take(t, 1);
  }
}

graft_status graft_pattern_translate(const char *pattern, const char *origin, graft_error *error, char **out_pattern) {
  size_t n = strlen(pattern);
  if (n == 0 || n > GRAFT_PATTERN_MAX_BYTES)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the pre-tokenizer's pattern has %zu bytes, must be 1 to %d",
                      graft_excerpt_path(origin).text, n, GRAFT_PATTERN_MAX_BYTES);
  char *text = malloc(n * MAX_EXPANSION + 1);
  if (text == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(origin).text);
  translator t = {pattern, text, false, NULL};
  while (*t.next != '\0' && t.refusal == NULL) translate_next(&t);
  if (t.refusal != NULL) {
    free(text);
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "%s: the pre-tokenizer's pattern has %s, which graft does not support",
                      graft_excerpt_path(origin).text, t.refusal);
  }
  *t.target = '\0';
  *out_pattern = text;
  return GRAFT_OK;
}
