// `--device`: one or several, with words for their backends; the private devices that find wrong ones.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "tiny_model.h"

static temp_folder folder, model;

static int set_up(void **state) {
  (void)state;
  folder = temp_folder_create();
  model = temp_folder_create();
  tiny_model_write(&model, NULL);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  temp_folder_remove(&folder);
  temp_folder_remove(&model);
  return 0;
}

static picture draw(const char *devices, const char *fusion) {
  assert_done(GRAFT(folder.path, "generate", "-q", "-m", model.path, "-p", "two bananas", "--steps", "2", "--guidance",
                    "2", "--device", devices, "--fusion", fusion, "-o", "drawn.png"));
  return picture_read(temp_folder_join(&folder, "drawn.png").text);
}

static void assert_draws_the_same(const char *devices, const char *fusion) {
  picture one = draw("cpu", fusion), several = draw(devices, fusion);
  assert_same_picture(&one, &several);
  free(one.bytes);
  free(several.bytes);
}

static void SC1_several_devices_draw_the_picture_of_one(void **state) {
  (void)state;
  assert_draws_the_same("private", "on");
  assert_draws_the_same("private,cpu", "on");
  assert_draws_the_same("private lacks=linear,cpu", "off");
  assert_draws_the_same("private:1 lacks=softmax+graft.rms_norm.v1+conv2d , private:0 lacks=add, cpu", "off");
}

static json_t *plan(const char *devices) {
  program_result result =
      GRAFT(folder.path, "plan", model.path, "--stage", "transformer", "--json", "--device", devices);
  assert_code(&result, 0);
  json_t *stages = parse_json(result.output);
  program_result_release(&result);
  assert_int_equal(json_array_size(stages), 1);
  return stages;
}

static size_t count_steps(const json_t *stages, const char *device, const char *op) {
  size_t n = 0, i;
  json_t *step;
  json_array_foreach(json_object_get(json_array_get(stages, 0), "steps"), i, step) {
    const char *where = json_string_value(json_object_get(step, "device"));
    const char *what = json_string_value(json_object_get(step, "op"));
    if (strcmp(where, device) != 0 || (op != NULL && strcmp(what, op) != 0)) continue;
    if (op != NULL) assert_string_equal(json_string_value(json_object_get(step, "placement")), "can run only on cpu:0");
    ++n;
  }
  return n;
}

static void KS6_plan_says_where_each_step_runs_and_why(void **state) {
  (void)state;
  static const char op[] = "graft.rms_norm.v1";
  json_t *whole = plan("private,cpu");
  assert_true(count_steps(whole, "private:0", NULL) > 0);
  assert_int_equal(count_steps(whole, "cpu:0", NULL), 0);
  json_decref(whole);
  json_t *split = plan("private lacks=rms_norm,cpu");
  assert_int_equal(count_steps(split, "private:0", op), 0);
  assert_true(count_steps(split, "cpu:0", op) > 0);
  assert_true(count_steps(split, "private:0", NULL) > 0);
  const json_t *memory = json_object_get(json_array_get(split, 0), "memory"),
               *devices = json_object_get(memory, "devices");
  assert_int_equal(json_array_size(devices), 2);
  json_int_t n_steps = 0, peak = 0;
  for (size_t i = 0; i < 2; ++i) {
    n_steps += json_integer_value(json_object_get(json_array_get(devices, i), "steps"));
    peak += json_integer_value(json_object_get(json_array_get(devices, i), "peak_bytes"));
  }
  assert_int_equal(n_steps, json_array_size(json_object_get(json_array_get(split, 0), "steps")));
  assert_int_equal(peak, json_integer_value(json_object_get(memory, "peak_bytes")));
  json_decref(split);
  assert_prints(GRAFT(NULL, "plan", model.path, "--brief", "--device", "private lacks=rms_norm,cpu"),
                "can run only on cpu:0");
}

static void SC9_private_devices_are_listed_and_tested(void **state) {
  (void)state;
  assert_prints(GRAFT(NULL, "devices"), "private:1");
  assert_prints(GRAFT(NULL, "devices", "--json"), "\"private:0\"");
  program_result result = GRAFT(NULL, "ops", "test", "--device", "private", "--op", "graft.rms_norm.v1", "--quick");
  assert_code(&result, 0);
  assert_holds(result.output, "ok   rms_norm");
  assert_null(strstr(result.output, " 0 kernels ("));
  program_result_release(&result);
}

static void bench_takes_several_devices(void **state) {
  (void)state;
  program_result result = GRAFT(NULL, "bench", "generate", "-m", model.path, "--runs", "1", "--steps", "1", "--size",
                                "8x8", "--device", "private lacks=softmax,cpu");
  assert_code(&result, 0);
  assert_holds(result.output, "a picture");
  assert_holds(result.errors, "graft: of ");
  program_result_release(&result);
}

// The line's number of steps, 0 where there is none; those of private:0 and of cpu:0, and copies.
static unsigned count_told(const char *devices, const char *quiet, unsigned n[3]) {
  program_result result = GRAFT(folder.path, "generate", "-m", model.path, "-p", "x", "--steps", "1", "--size", "8x8",
                                "--device", devices, "-o", "told.png", quiet);
  assert_code(&result, 0);
  unsigned total = 0;
  const char *line = strstr(result.errors, "graft: of ");
  if (line != NULL) {
    assert_int_equal(sscanf(line, "graft: of %u steps private:0 runs %u in ", &total, &n[0]), 2);
    assert_int_equal(sscanf(strstr(line, ", cpu:0 runs "), ", cpu:0 runs %u in ", &n[1]), 1);
    assert_int_equal(sscanf(strstr(line, "; "), "; %u copies between them\n", &n[2]), 1);
  }
  program_result_release(&result);
  return total;
}

static void SC1_several_devices_are_told_in_one_line(void **state) {
  (void)state;
  unsigned n[3] = {0};
  unsigned total = count_told("private,cpu", "--guidance=2", n);
  assert_true(total > 0 && n[0] == total && n[1] == 0);
  total = count_told("private lacks=rms_norm,cpu", "--fusion=off", n);
  assert_true(n[0] > 0 && n[1] > 0 && n[0] + n[1] == total && n[2] > 1);
  assert_int_equal(count_told("private lacks=rms_norm,cpu", "-q", n), 0);
  assert_int_equal(count_told("cpu", "--guidance=2", n), 0);
}

// The model that ships has weights worth bringing to a device. However little memory that has, few plans are made until
// one fits.
static void SC1_what_has_no_room_at_all_runs_elsewhere(void **state) {
  (void)state;
  static const char *const devices[] = {"private memory=1,cpu", "private memory=50000,cpu"};
  for (size_t i = 0; i < sizeof devices / sizeof devices[0]; ++i) {
    assert_prints(GRAFT(NULL, "plan", "--stage", "transformer", "--brief", "--device", devices[i]),
                  "does not fit private:0: on cpu:0");
  }
}

static void SC4_memory_that_is_too_small_is_named_in_a_unit_that_fits(void **state) {
  (void)state;
  static const char *const small[][2] = {{"private memory=1", " has 1 B:"},
                                         {"private memory=50000", " has 48.8 KiB:"},
                                         {"private memory=1000000", " has 976.6 KiB:"}};
  for (size_t i = 0; i < sizeof small / sizeof small[0]; ++i) {
    program_result result = GRAFT(folder.path, "generate", "-p", "x", "--device", small[i][0]);
    assert_code(&result, 1);
    assert_holds(result.errors, small[i][1]);
    assert_holds(result.errors, " would take ");
    assert_null(strstr(result.errors, " 0.0 "));
    program_result_release(&result);
  }
}

static void wrong_devices_are_refused_with_a_sentence(void **state) {
  (void)state;
  static const char *const wrong[][2] = {
      {"cpu,cpu", "cpu:0 is listed twice"},
      {"gramophone", "there is no device \"gramophone\""},
      {"cpu,gramophone:1", "there is no device \"gramophone:1\""},
      {"cpu,", "a name is missing"},
      {"", "a name is missing"},
      {"private wants=x", "it takes lacks=OPERATOR+OPERATOR"},
      {"private lacks=", "it takes lacks=OPERATOR+OPERATOR"},
      {"private lacks=softmix,cpu", "private:0 cannot lack \"softmix\": no operator is called so; see graft ops list"},
      {"private lacks=softmax+,cpu", "private:0 cannot lack \"\": no operator is called so"},
      {"private lacks=softmax lacks=graft.linear.v9,cpu", "private:0 cannot lack \"graft.linear.v9\""},
      {"cpu fast,private", "cpu:0 takes no words; got \"fast\""},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    program_result result = GRAFT(NULL, "plan", model.path, "--device", wrong[i][0]);
    assert_code(&result, 1);
    assert_holds(result.errors, wrong[i][1]);
    program_result_release(&result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC1_several_devices_draw_the_picture_of_one),
      cmocka_unit_test(KS6_plan_says_where_each_step_runs_and_why),
      cmocka_unit_test(SC9_private_devices_are_listed_and_tested),
      cmocka_unit_test(bench_takes_several_devices),
      cmocka_unit_test(SC1_several_devices_are_told_in_one_line),
      cmocka_unit_test(SC1_what_has_no_room_at_all_runs_elsewhere),
      cmocka_unit_test(SC4_memory_that_is_too_small_is_named_in_a_unit_that_fits),
      cmocka_unit_test(wrong_devices_are_refused_with_a_sentence),
  };
  return cmocka_run_group_tests_name("cli.devices", tests, set_up, tear_down);
}
