#include "formats/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "format_files.h"

static graft_json *parse(const char *text) {
  graft_error error = {0};
  graft_json *json = NULL;
  assert_ok(graft_json_parse(text, strlen(text), "config.json", &error, &json), &error);
  return json;
}

static const char sample[] =
    "{\"n\":7,\"x\":0.5,\"whole\":2,\"real\":4.0,\"s\":\"text\",\"b\":true,\"null\":null,"
    "\"list\":[1,2,3],\"names\":[\"a\",\"b\"],\"mixed\":[1,\"a\"],\"in\":{\"ner\":{\"v\":5}},\"in.ner\":6}";

static void typed_values(void **state) {
  (void)state;
  graft_error error = {0};
  graft_json *json = parse(sample);
  int64_t n = 0;
  double x = 0;
  bool b = false;
  const char *s = NULL;
  const graft_json_int_rule any = {.min = INT64_MIN, .max = INT64_MAX, .required = true};
  assert_ok(graft_json_get_int(json, "n", any, &error, &n), &error);
  assert_int_equal(n, 7);
  assert_ok(graft_json_get_int(json, "in.ner.v", any, &error, &n), &error);
  assert_int_equal(n, 5);
  assert_ok(graft_json_get_int(json, "in.ner", any, &error, &n), &error);
  assert_int_equal(n, 6);
  assert_ok(graft_json_get_number(json, "x", (graft_json_number_rule){0, 1, true, 0}, &error, &x), &error);
  assert_true(x == 0.5);
  assert_ok(graft_json_get_number(json, "whole", (graft_json_number_rule){0, 2, true, 0}, &error, &x), &error);
  assert_true(x == 2);
  assert_ok(graft_json_get_bool(json, "b", (graft_json_bool_rule){.required = true}, &error, &b), &error);
  assert_true(b);
  assert_ok(graft_json_get_string(json, "s", NULL, &error, &s), &error);
  assert_string_equal(s, "text");
  graft_json_close(json);
}

static void lists(void **state) {
  (void)state;
  graft_error error = {0};
  graft_json *json = parse(sample);
  int64_t ints[3] = {0};
  const char *names[2] = {NULL};
  size_t n = 0;
  const graft_json_list_rule rule = {.min_count = 1, .max_count = 3, .min = 1, .max = 3};
  const graft_json_list_rule optional = {.max_count = 2};
  assert_ok(graft_json_get_ints(json, "list", rule, &error, ints, &n), &error);
  assert_true(n == 3 && ints[0] == 1 && ints[2] == 3);
  assert_ok(graft_json_get_strings(json, "names", optional, &error, names, &n), &error);
  assert_true(n == 2);
  assert_string_equal(names[1], "b");
  assert_ok(graft_json_get_ints(json, "absent", optional, &error, ints, &n), &error);
  assert_int_equal(n, 0);
  const graft_json_list_rule small = {.min_count = 1, .max_count = 2, .min = 0, .max = 9};
  const graft_json_list_rule narrow = {.min_count = 1, .max_count = 3, .min = 1, .max = 2};
  assert_refused(graft_json_get_ints(json, "list", small, &error, ints, &n), &error, GRAFT_E_FORMAT,
                 "config.json: `list`", "a list of 1 to 2 items, found a list of 3");
  assert_refused(graft_json_get_ints(json, "list", narrow, &error, ints, &n), &error, GRAFT_E_FORMAT,
                 "config.json: `list[2]`", "between 1 and 2, found 3");
  assert_refused(graft_json_get_ints(json, "absent", rule, &error, ints, &n), &error, GRAFT_E_FORMAT, "`absent`",
                 "found nothing");
  assert_refused(graft_json_get_ints(json, "n", optional, &error, ints, &n), &error, GRAFT_E_FORMAT, "`n`", "found 7");
  assert_refused(graft_json_get_strings(json, "mixed", optional, &error, names, &n), &error, GRAFT_E_FORMAT,
                 "`mixed[0]`", "a string, found 1");
  graft_json_close(json);
}

static void defaults(void **state) {
  (void)state;
  graft_error error = {0};
  graft_json *json = parse(sample);
  int64_t n = 0;
  double x = 0;
  bool b = false;
  const char *s = NULL;
  static const char *const missing[] = {"null", "absent", "in.absent", "n.inner"};
  for (size_t i = 0; i < 4; ++i) {
    assert_ok(graft_json_get_int(json, missing[i], (graft_json_int_rule){1, 2, false, 9}, &error, &n), &error);
    assert_int_equal(n, 9);
    assert_ok(graft_json_get_number(json, missing[i], (graft_json_number_rule){1, 2, false, 9}, &error, &x), &error);
    assert_true(x == 9);
    assert_ok(graft_json_get_bool(json, missing[i], (graft_json_bool_rule){.otherwise = true}, &error, &b), &error);
    assert_true(b);
    assert_ok(graft_json_get_string(json, missing[i], "d", &error, &s), &error);
    assert_string_equal(s, "d");
    assert_refused(graft_json_get_int(json, missing[i], (graft_json_int_rule){1, 2, true, 0}, &error, &n), &error,
                   GRAFT_E_FORMAT, missing[i], "found nothing");
  }
  graft_json_close(json);
}

static void wrong_values(void **state) {
  (void)state;
  graft_error error = {0};
  graft_json *json = parse(sample);
  int64_t n = 77;
  double x = 0;
  bool b = false;
  const char *s = NULL;
  const graft_json_int_rule rule = {.min = 1, .max = 6, .required = true};
  assert_refused(graft_json_get_int(json, "n", rule, &error, &n), &error, GRAFT_E_FORMAT,
                 "config.json: `n` must be an integer between 1 and 6, found 7", "");
  assert_refused(graft_json_get_int(json, "s", rule, &error, &n), &error, GRAFT_E_FORMAT, "`s`", "found \"text\"");
  assert_refused(graft_json_get_int(json, "real", rule, &error, &n), &error, GRAFT_E_FORMAT, "`real`", "found 4");
  assert_refused(graft_json_get_int(json, "b", rule, &error, &n), &error, GRAFT_E_FORMAT, "`b`", "found true");
  assert_refused(graft_json_get_int(json, "in", rule, &error, &n), &error, GRAFT_E_FORMAT, "`in`", "found an object");
  assert_int_equal(n, 77);
  assert_refused(graft_json_get_number(json, "x", (graft_json_number_rule){1, 2, false, 0}, &error, &x), &error,
                 GRAFT_E_FORMAT, "a number between 1 and 2", "found 0.5");
  assert_refused(graft_json_get_number(json, "s", (graft_json_number_rule){1, 2, false, 0}, &error, &x), &error,
                 GRAFT_E_FORMAT, "a number", "\"text\"");
  assert_refused(graft_json_get_bool(json, "n", (graft_json_bool_rule){0}, &error, &b), &error, GRAFT_E_FORMAT,
                 "true or false", "found 7");
  assert_refused(graft_json_get_string(json, "n", "d", &error, &s), &error, GRAFT_E_FORMAT, "a string", "found 7");
  graft_json_close(json);
  json = parse("[1]");
  assert_refused(graft_json_get_int(json, "n", (graft_json_int_rule){0}, &error, &n), &error, GRAFT_E_FORMAT,
                 "must be a JSON object", "a list of 1");
  graft_json_close(json);
}

static void broken_texts(void **state) {
  (void)state;
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"", "empty"},
      {" ", "line 1"},
      {"{", "line 1"},
      {"{\"a\":1,}", "line 1, column 8"},
      {"{\"a\":1}\n\n  x", "line 3, column 3"},
      {"{\"a\":1,\n\"a\":2}", "duplicate"},
      {"{\"a\":\"\xFF\"}", "line 1"},
      {"{\"a\":\"\xED\xA0\x80\"}", "line 1"},
      {"{\"a\":\"\\ud800\"}", "line 1"},
      {"{\"a\":\"\\u0000\"}", "line 1"},
      {"{\"a\":nan}", "line 1"},
      {"{\"a\":1e400}", "line 1"},
      {"{\"a\":99999999999999999999}", "too big integer"},
      {"{'a':1}", "line 1"},
      {"\xEF\xBB\xBF{}", "line 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    graft_error error = {0};
    graft_json *json = NULL;
    assert_refused(graft_json_parse(cases[i].text, strlen(cases[i].text), "config.json", &error, &json), &error,
                   GRAFT_E_FORMAT, "config.json", cases[i].reason);
    assert_null(json);
  }
}

static void depth_and_size_limits(void **state) {
  (void)state;
  graft_error error = {0};
  graft_json *json = NULL;
  char text[2 * (GRAFT_JSON_MAX_DEPTH + 1)];
  size_t depth = GRAFT_JSON_MAX_DEPTH;
  memset(text, '[', depth);
  memset(text + depth, ']', depth);
  assert_ok(graft_json_parse(text, 2 * depth, "deep.json", &error, &json), &error);
  graft_json_close(json);
  ++depth;
  memset(text, '[', depth);
  memset(text + depth, ']', depth);
  assert_refused(graft_json_parse(text, 2 * depth, "deep.json", &error, &json), &error, GRAFT_E_FORMAT, "deep.json",
                 "nested");
  // Brackets inside of strings do not count.
  char quoted[300] = "[\"\\\"";
  memset(quoted + 4, '[', 200);
  strcpy(quoted + 204, "\"]");
  assert_ok(graft_json_parse(quoted, strlen(quoted), "deep.json", &error, &json), &error);
  graft_json_close(json);
  temp_folder folder = temp_folder_create();
  temp_path path = temp_folder_write_text(&folder, "big.json", "{\"a\":1}");
  assert_ok(graft_json_open(path.text, 7, &error, &json), &error);
  graft_json_close(json);
  assert_refused(graft_json_open(path.text, 6, &error, &json), &error, GRAFT_E_FORMAT, "big.json", "at most 6");
  assert_refused(graft_json_open(folder.path, 6, &error, &json), &error, GRAFT_E_IO, folder.path, "a folder");
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(typed_values), cmocka_unit_test(lists),        cmocka_unit_test(defaults),
      cmocka_unit_test(wrong_values), cmocka_unit_test(broken_texts), cmocka_unit_test(depth_and_size_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
