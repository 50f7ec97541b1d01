// `graft bench`: figures that can be, as text and as JSON.
#include <string.h>

#include "files.h"
#include "tiny_model.h"

static double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("no %s", key);
  return json_number_value(value);
}

static void peak_is_measured(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "bench", "peak", "--json", "--threads", "1");
  assert_code(&result, 0);
  json_t *peak = parse_json(result.output);
  assert_true(number_of(peak, "f32_gflops") > 0.1);
  assert_true(number_of(peak, "read_gb_per_s") > 0.01);
  assert_int_equal(number_of(peak, "threads"), 1);
  assert_true(number_of(peak, "utilisation") > 0 && number_of(peak, "utilisation") < 2);
  json_decref(peak);
  program_result_release(&result);
  assert_prints(GRAFT(NULL, "bench", "peak", "--threads", "1"), "lanes a clock");
}

static void generations_are_timed(void **state) {
  (void)state;
  const temp_folder model = temp_folder_create();
  tiny_model_write(&model, NULL);
  program_result result = GRAFT(NULL, "bench", "generate", "-m", model.path, "-p", "x", "--runs", "2", "--steps", "1",
                                "--size", "8x8", "--json");
  assert_code(&result, 0);
  json_t *times = parse_json(result.output);
  assert_int_equal(number_of(times, "runs"), 2);
  assert_true(number_of(times, "seconds") > 0 && number_of(times, "first_seconds") > 0);
  assert_true(number_of(times, "flops") > 0);
  assert_true(number_of(times, "seconds") >= number_of(times, "denoise_seconds"));
  json_decref(times);
  program_result_release(&result);
  assert_prints(GRAFT(NULL, "bench", "generate", "-m", model.path, "--runs", "1", "--size", "8x8"), "a picture");
  assert_refused(GRAFT(NULL, "bench", "generate", "-m", model.path, "--size", "7x8"), 1, "nearest legal size");
  temp_folder_remove(&model);
}

static void a_transformer_is_timed_without_files_of_weights(void **state) {
  (void)state;
  const temp_folder model = temp_folder_create();
  tiny_model_write(&model, NULL);
  static const char *const types[] = {"bf16", "f16", "f32", "int8_convrot"};
  for (int i = 0; i < 4; ++i) {
    program_result result = GRAFT(NULL, "bench", "transformer", "-m", model.path, "--runs", "2", "--size", "64x32",
                                  "--tokens", "5", "--type", types[i], "--json");
    assert_code(&result, 0);
    json_t *times = parse_json(result.output);
    assert_string_equal(json_string_value(json_object_get(times, "weights")), types[i]);
    assert_int_equal(number_of(times, "runs"), 2);
    assert_int_equal(number_of(times, "prompt_tokens"), 5);
    assert_true(number_of(times, "seconds") >= number_of(times, "best_seconds"));
    assert_true(number_of(times, "best_seconds") > 0 && number_of(times, "flops") > 0);
    json_decref(times);
    program_result_release(&result);
  }
  assert_prints(GRAFT(NULL, "bench", "transformer", "-m", model.path, "--runs", "1", "--size", "32x32"),
                "one evaluation");
  assert_refused(GRAFT(NULL, "bench", "transformer", "-m", model.path, "--size", "31x32"), 1, "multiples of");
  assert_refused(GRAFT(NULL, "bench", "transformer", "-m", "/nowhere", "--size", "32x32"), 1, "/nowhere");
  temp_folder_remove(&model);
}

// The page must work from a folder without a network.
static void kernels_make_a_page_of_their_own(void **state) {
  (void)state;
  program_result page =
      GRAFT(NULL, "ops", "bench", "--op", "graft.mul.v1", "--case", "residual_demo", "--kernel", "*baseline", "--html");
  assert_code(&page, 0);
  assert_non_null(strstr(page.output, "<!doctype html>"));
  assert_non_null(strstr(page.output, "mul_float_rows__baseline"));
  assert_non_null(strstr(page.output, "i8_gops"));
  assert_null(strstr(page.output, "http"));
  program_result_release(&page);
}

// Of a device whose products are not known no share is told, least of all of the CPU's.
static void devices_are_not_compared_with_the_processor(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "ops", "bench", "--op", "graft.mul.v1", "--case", "residual_demo", "--kernel",
                                "*baseline", "--device", "private", "--json");
  assert_code(&result, 0);
  json_t *list = parse_json(result.output), *first = json_array_get(list, 0);
  assert_true(number_of(first, "gb_per_s") > 0);
  assert_string_equal(json_string_value(json_object_get(first, "products")), "f32");
  assert_null(json_object_get(first, "percent_of_peak"));
  json_decref(list);
  program_result_release(&result);
  program_result page = GRAFT(NULL, "ops", "bench", "--op", "graft.mul.v1", "--case", "residual_demo", "--kernel",
                              "*baseline", "--device", "private", "--html");
  assert_code(&page, 0);
  assert_non_null(strstr(page.output, "\"copy_gb_per_s\""));
  assert_null(strstr(page.output, "\"f32_gflops\""));
  program_result_release(&page);
  assert_prints(GRAFT(NULL, "bench", "peak", "--device", "private"), "copies");
}

static void pictures_of_devices_are_timed_without_peaks(void **state) {
  (void)state;
  const temp_folder model = temp_folder_create();
  tiny_model_write(&model, NULL);
  program_result result = GRAFT(NULL, "bench", "generate", "-m", model.path, "--runs", "1", "--steps", "1", "--size",
                                "8x8", "--device", "private", "--json");
  assert_code(&result, 0);
  json_t *times = parse_json(result.output);
  assert_null(json_object_get(times, "peak"));
  assert_null(json_object_get(times, "peak_pinned_bytes"));
  assert_true(number_of(times, "first_step_seconds") > 0);
  assert_true(number_of(times, "first_step_seconds") < number_of(times, "first_seconds"));
  json_decref(times);
  program_result_release(&result);
  temp_folder_remove(&model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(peak_is_measured),
                                     cmocka_unit_test(generations_are_timed),
                                     cmocka_unit_test(a_transformer_is_timed_without_files_of_weights),
                                     cmocka_unit_test(kernels_make_a_page_of_their_own),
                                     cmocka_unit_test(devices_are_not_compared_with_the_processor),
                                     cmocka_unit_test(pictures_of_devices_are_timed_without_peaks)};
  return cmocka_run_group_tests_name("cli.bench", tests, NULL, NULL);
}
