// graft --plugin: a plug-in's operators in lists, tests, benchmarks and pictures.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

#define GOOD SAMPLE_FOLDER "/sample_good.so"

static void OP8_its_operators_are_listed(void **state) {
  (void)state;
  assert_prints(GRAFT(NULL, "--plugin", GOOD, "ops", "list"),
                "sample.double.v1\n    cpu    double_f32__portable, from sample.ops");
  assert_prints(GRAFT(NULL, "--plugin=" GOOD, "ops", "list", "--op", "sample.*"), "sample.double.v1");
  assert_refused(GRAFT(NULL, "ops", "list", "--op", "sample.*"), 1, "no operator matches");
}

static void OP8_its_operators_are_tested(void **state) {
  (void)state;
  assert_prints(GRAFT(NULL, "--plugin", GOOD, "ops", "test", "--op", "sample.*", "--quick", "--seed", "7"),
                "ok   double_f32__portable");
  program_result result =
      GRAFT(NULL, "--plugin", SAMPLE_FOLDER "/sample_wrong.so", "ops", "test", "--op", "sample.*", "--quick");
  assert_code(&result, 1);
  assert_holds(result.output, "FAIL double_f32__portable");
  program_result_release(&result);
}

static void OP8_its_operators_are_timed(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "--plugin", GOOD, "ops", "bench", "--op", "sample.*", "--json");
  assert_code(&result, 0);
  json_t *list = parse_json(result.output), *first = json_array_get(list, 0);
  assert_int_equal(json_array_size(list), 1);
  assert_string_equal(json_string_value(json_object_get(first, "kernel")), "double_f32__portable");
  assert_string_equal(json_string_value(json_object_get(first, "case")), "large");
  assert_true(json_real_value(json_object_get(first, "gb_per_s")) > 0);
  assert_true(json_real_value(json_object_get(first, "percent_of_peak")) > 0);
  json_decref(list);
  program_result_release(&result);
}

static void OP8_any_command_may_have_it(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  assert_done(GRAFT(folder.path, "--plugin", GOOD, "generate", "-q", "-p", "x", "--steps", "1", "--size", "16x16", "-o",
                    "a.png"));
  assert_done(GRAFT(folder.path, "--plugin", GOOD, "plan", "--stage", "decoder", "--brief"));
  assert_prints(GRAFT(folder.path, "--plugin", GOOD, "--version"), "graft ");
  temp_folder_remove(&folder);
}

static void OP8_what_never_runs_is_told(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "--plugin", SAMPLE_FOLDER "/sample_orphan.so", "ops", "list", "--op", "sample.*");
  assert_code(&result, 0);
  assert_holds(result.errors, "no operator sample.duoble.v1, for which kernel double_f32__portable is: it never runs");
  assert_holds(result.errors, "no operator sample.halve.v1, which fusion rule sample_halve makes: it never applies");
  program_result_release(&result);
  result = GRAFT(NULL, "--plugin", GOOD, "ops", "list", "--op", "sample.*");
  assert_string_equal(result.errors, "");
  program_result_release(&result);
}

static void OP8_what_cannot_be_loaded_is_said_once(void **state) {
  (void)state;
  assert_refused(GRAFT(NULL, "--plugin", "missing.so", "ops", "list"), 1, "there is no plug-in missing.so");
  assert_refused(GRAFT(NULL, "--plugin", GOOD, "--plugin", GOOD, "ops", "list"), 1, "exists already");
  assert_refused(GRAFT(NULL, "--plugin", SAMPLE_FOLDER "/sample_newer.so", "plan"), 1, "update graft");
  assert_refused(GRAFT(NULL, "--plugin"), 2, "--plugin needs the path");
  assert_refused(GRAFT(NULL, "--plugin", GOOD, "no-such-command"), 2, "no command 'no-such-command'");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(OP8_its_operators_are_listed), cmocka_unit_test(OP8_its_operators_are_tested),
      cmocka_unit_test(OP8_its_operators_are_timed),  cmocka_unit_test(OP8_any_command_may_have_it),
      cmocka_unit_test(OP8_what_never_runs_is_told),  cmocka_unit_test(OP8_what_cannot_be_loaded_is_said_once),
  };
  return cmocka_run_group_tests_name("cli.plugin", tests, NULL, NULL);
}
