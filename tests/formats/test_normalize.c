// Form C against utf8proc's own mapping, which is right but slow for long runs of marks.
#include "formats/normalize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "format_files.h"
#include "formats/name_table.h"

static void check(const char *text, size_t n) {
  utf8proc_uint8_t *expected = NULL;
  utf8proc_ssize_t n_expected =
      utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &expected, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  assert_true(n_expected >= 0);
  graft_error error = {0};
  char *actual = NULL;
  size_t n_actual = n;
  assert_ok(graft_normalize_nfc(text, n, &error, &actual, &n_actual), &error);
  assert_int_equal(n_actual, n_expected);
  assert_memory_equal(actual == NULL ? text : actual, expected, n_actual);
  free(actual);
  free(expected);
}

static void single_characters(void **state) {
  (void)state;
  char text[16];
  for (int32_t c = 1; c < 0x30000; c += c < 0x3400 ? 1 : 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    size_t n = (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)text);
    check(text, n);
    memcpy(text + n, "\xCC\x81", 2);
    check(text, n + 2);
  }
}

static void random_sequences(void **state) {
  (void)state;
  static const int32_t pool[] = {'a',    'e',    0x301,  0x300,  0x323,  0x327, 0x345,  0x344,   0x1100,  0x1161,
                                 0x11A8, 0xAC00, 0xAC01, 0x958,  0x93C,  0x915, 0x1E69, 0x212B,  0x2F801, 0x1D15E,
                                 0x5B0,  0x5B1,  0x64B,  0x3099, 0x304B, 0x6C1, 0x654,  0x110BA, 0,       0x20000};
  uint64_t random = 7;
  for (int round = 0; round < 20000; ++round) {
    char text[64];
    size_t n = 0;
    random = graft_name_table_mix(random + 1);
    for (uint64_t left = random, k = 0; k < 2 + random % 8; ++k, left /= 30)
      n += (size_t)utf8proc_encode_char(pool[left % 30], (utf8proc_uint8_t *)text + n);
    check(text, n);
  }
}

static void ascii_is_left_alone(void **state) {
  (void)state;
  graft_error error = {0};
  char *text = NULL;
  size_t n = 3;
  assert_ok(graft_normalize_nfc("abc", 3, &error, &text, &n), &error);
  assert_null(text);
  assert_int_equal(n, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(single_characters),
      cmocka_unit_test(random_sequences),
      cmocka_unit_test(ascii_is_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
