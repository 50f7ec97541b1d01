// The real Z-Image, of zeros: the program recognises and plans it, and refuses to draw with what is missing.
#include <sys/resource.h>

#include "files.h"
#include "large_model.h"

static int64_t integer_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  assert_true(json_is_integer(value));
  return json_integer_value(value);
}

static void it_is_recognised_and_planned(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  large_model_write(&folder);
  program_result inspected = GRAFT(NULL, "inspect", folder.path, "--json");
  assert_code(&inspected, 0);
  json_t *info = parse_json(inspected.output);
  assert_string_equal(json_string_value(json_object_get(info, "family")), "Z-Image");
  assert_int_equal(integer_of(info, "parameters"), LARGE_MODEL_PARAMETERS);
  assert_int_equal(integer_of(info, "weight_bytes"), 4 * LARGE_MODEL_PARAMETERS);
  assert_true(integer_of(info, "peak_bytes") >= 4 * LARGE_MODEL_PARAMETERS);
  json_decref(info);

  program_result planned = GRAFT(NULL, "plan", folder.path, "--json", "--size", "1024x1024");
  assert_code(&planned, 0);
  json_t *stages = parse_json(planned.output);
  const json_t *transformer = json_array_get(stages, 0);
  assert_string_equal(json_string_value(json_object_get(transformer, "stage")), "transformer");
  assert_true(integer_of(json_object_get(transformer, "memory"), "peak_bytes") >= 4 * LARGE_MODEL_PARAMETERS);
  assert_holds(planned.errors, "no plan for the text encoder");
  json_decref(stages);
  assert_prints(GRAFT(NULL, "plan", folder.path, "--brief"), "GiB");
  assert_refused(GRAFT(folder.path, "generate", "-q", "-m", ".", "-p", "x"), 1, "is missing");

  // Reading the weights would take 24 million of these.
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
  assert_in_range(usage.ru_maxrss, 0, 1 << 20);
  print_message("    inspect %.2f s, plan %.2f s\n", inspected.seconds, planned.seconds);
  program_result_release(&inspected);
  program_result_release(&planned);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_recognised_and_planned)};
  return cmocka_run_group_tests_name("cli.large_model", tests, NULL, NULL);
}
