// The pre-tokenizer's expression: what is translated, what is refused, and how it cuts.
#include "formats/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "format_files.h"
#include "formats/pretokenize.h"

static void unchanged(void **state) {
  (void)state;
  static const char *const patterns[] = {"a",
                                         "(?i:'s|'t)",
                                         "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+",
                                         "\\p{^L}\\P{Lu}",
                                         "a{1,3}b{2}c{3,}",
                                         "[a-z\\]\\-]",
                                         "(?<=a)b|(?<!a)c",
                                         "(?=a)(?!b)(?>c)(d)",
                                         "\\d\\D\\t",
                                         "é+",
                                         ".*?",
                                         "[^a]",
                                         "\\(\\)\\."};
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; ++i) {
    graft_error error = {0};
    char *text = NULL;
    assert_ok(graft_pattern_translate(patterns[i], "t.json", &error, &text), &error);
    assert_string_equal(text, patterns[i]);
    free(text);
  }
}

static void refused(void **state) {
  (void)state;
  static const char *const patterns[] = {"\\w",    "\\b",   "\\h",   "\\1", "\\K",  "[\\S]",    "[a[b]]",
                                         "[a&&b]", "[]a]",  "^a",    "a$",  "(*F)", "(?m:a)",   "(?<n>a)",
                                         "(?i)",   "a{,3}", "a{2}+", "{",   "\\pL", "\\p{a b}", "\\",
                                         "\\x41",  "(?#c)", "(?R)",  "\\é"};
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; ++i) {
    graft_error error = {0};
    char *text = NULL;
    assert_refused(graft_pattern_translate(patterns[i], "t.json", &error, &text), &error, GRAFT_E_UNSUPPORTED, "t.json",
                   "pattern");
    assert_null(text);
  }
  graft_error error = {0};
  char *text = NULL, *long_pattern = malloc(GRAFT_PATTERN_MAX_BYTES + 2);
  assert_non_null(long_pattern);
  memset(long_pattern, 's', GRAFT_PATTERN_MAX_BYTES + 1);
  long_pattern[GRAFT_PATTERN_MAX_BYTES + 1] = '\0';
  assert_refused(graft_pattern_translate(long_pattern, "t.json", &error, &text), &error, GRAFT_E_FORMAT, "t.json",
                 "4097 bytes");
  assert_refused(graft_pattern_translate("", "t.json", &error, &text), &error, GRAFT_E_FORMAT, "t.json", "0 bytes");
  // The longest that is accepted, made of what grows most.
  for (int i = 0; i < GRAFT_PATTERN_MAX_BYTES; i += 2) memcpy(long_pattern + i, "\\S", 2);
  long_pattern[GRAFT_PATTERN_MAX_BYTES] = '\0';
  assert_ok(graft_pattern_translate(long_pattern, "t.json", &error, &text), &error);
  free(text);
  free(long_pattern);
}

typedef struct words {
  char text[512];
  size_t n_bytes;
} words;

static graft_status note_word(void *context, const char *word, size_t n_bytes, graft_error *error) {
  (void)error;
  words *w = context;
  memcpy(w->text + w->n_bytes, word, n_bytes);
  w->n_bytes += n_bytes;
  w->text[w->n_bytes++] = '|';
  return GRAFT_OK;
}

static void check_words(const char *pattern, const char *text, const char *expected) {
  graft_error error = {0};
  graft_pretokenizer *p = NULL;
  words w = {.n_bytes = 0};
  assert_ok(graft_pretokenizer_create(pattern, "t.json", &error, &p), &error);
  assert_ok(graft_pretokenize(p, text, strlen(text), (graft_pretokenize_sink){note_word, &w}, &error), &error);
  w.text[w.n_bytes] = '\0';
  assert_string_equal(w.text, expected);
  graft_pretokenizer_destroy(p);
}

static void cuts(void **state) {
  (void)state;
  const char *qwen2 = graft_pretokenize_qwen2_pattern;
  check_words(qwen2, "", "");
  check_words(qwen2, "I'm 12 a  b\n\n c!?\n", "I|'m| |1|2| a| | b|\n\n| c|!?\n|");
  check_words(qwen2, "a\n\n\n  b", "a|\n\n\n| | b|");
  check_words(qwen2, "  ", "  |");
  check_words(qwen2, "IT'S'ſ", "IT|'S|'ſ|");
  // U+180E is no white space since Unicode 6.3, whatever PCRE2's \s says; U+0085 and U+3000 are.
  check_words("\\s+|\\S", "\xE1\xA0\x8E\xC2\x85\xE3\x80\x80x", "\xE1\xA0\x8E|\xC2\x85\xE3\x80\x80|x|");
  check_words("[\\s]", "a \t", "a| |\t|");
  check_words("b+", "aabbcéb", "aa|bb|cé|b|");
  check_words("x*", "ax", "a|x|");
  check_words(".", "a\nb\r", "a|\n|b|\r|");
}

static graft_status stop(void *context, const char *word, size_t n_bytes, graft_error *error) {
  (void)word;
  (void)n_bytes;
  ++*(int *)context;
  return GRAFT_FAIL(error, GRAFT_E_CANCELLED, "stopped");
}

static void sink_failures_end_it(void **state) {
  (void)state;
  graft_error error = {0};
  graft_pretokenizer *p = NULL;
  int calls = 0;
  assert_ok(graft_pretokenizer_create("a", "t.json", &error, &p), &error);
  assert_refused(graft_pretokenize(p, "aaa", 3, (graft_pretokenize_sink){stop, &calls}, &error), &error,
                 GRAFT_E_CANCELLED, "stopped", "");
  assert_int_equal(calls, 1);
  graft_pretokenizer_destroy(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unchanged),
      cmocka_unit_test(refused),
      cmocka_unit_test(cuts),
      cmocka_unit_test(sink_failures_end_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
