// Pictures and what else `graft generate` writes, with a model that takes a millisecond.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "formats/safetensors_writer.h"
#include "tiny_model.h"

// A folder to work in and a model beside it.
typedef struct desk {
  temp_folder folder, model;
} desk;

static int open_desk(void **state) {
  static desk d;
  d.folder = temp_folder_create();
  d.model = temp_folder_create();
  tiny_model_write(&d.model, NULL);
  *state = &d;
  return 0;
}

static int close_desk(void **state) {
  desk *d = *state;
  temp_folder_remove(&d->folder);
  temp_folder_remove(&d->model);
  return 0;
}

#define GENERATE(desk_, ...) GRAFT((desk_)->folder.path, "generate", "-m", (desk_)->model.path, __VA_ARGS__)

static picture read_picture(const desk *d, const char *name) {
  return picture_read(temp_folder_join(&d->folder, name).text);
}

static void picture_has_its_parameters(void **state) {
  const desk *d = *state;
  assert_done(GENERATE(d, "-p", "a cat, \xE4\xB8\x80", "-n", "a dog", "--steps", "3", "--guidance", "2.5", "--seed",
                       "18446744073709551615", "--size", "24x16"));
  picture p = read_picture(d, "graft.png");
  assert_int_equal(p.width, 24);
  assert_int_equal(p.height, 16);
  assert_parameter(&p, "a cat, \xE4\xB8\x80");
  assert_parameter(&p, "Negative prompt: a dog");
  assert_parameter(&p, "Steps: 3");
  assert_parameter(&p, "CFG scale: 2.5");
  assert_parameter(&p, "Seed: 18446744073709551615");
  assert_parameter(&p, "Size: 24x16");
  assert_parameter(&p, "Version: graft ");
  assert_int_equal(temp_folder_count(&d->folder), 1);
  free(p.bytes);
}

static void batch_is_numbered_and_equals_single_pictures(void **state) {
  const desk *d = *state;
  assert_done(GENERATE(d, "-p", "x", "--batch", "3", "--seed", "7", "-o", "b.png"));
  assert_int_equal(temp_folder_count(&d->folder), 3);
  for (int i = 0; i < 3; ++i) {
    char name[16], seed[16];
    snprintf(name, sizeof name, "b-%d.png", i + 1);
    snprintf(seed, sizeof seed, "%d", 7 + i);
    assert_done(GENERATE(d, "-p", "x", "--seed", seed, "-o", "single.png"));
    picture one = read_picture(d, name), single = read_picture(d, "single.png");
    assert_same_picture(&one, &single);
    free(one.bytes);
    free(single.bytes);
  }
}

static void says_what_it_does_only_when_not_quiet(void **state) {
  const desk *d = *state;
  program_result loud = GENERATE(d, "-p", "x", "--batch", "2"), quiet = GENERATE(d, "-p", "x", "-q");
  assert_code(&loud, 0);
  assert_code(&quiet, 0);
  assert_holds(loud.errors, "graft: drawing: 2/2");
  assert_holds(loud.errors, "wrote graft-2.png");
  assert_null(strchr(loud.errors, '\r'));  // no terminal, no redrawing
  assert_string_equal(loud.output, "");
  assert_string_equal(quiet.errors, "");
  program_result_release(&loud);
  program_result_release(&quiet);
}

static void dump_holds_every_stage(void **state) {
  const desk *d = *state;
  assert_done(GENERATE(d, "-p", "x", "--batch", "2", "--steps", "3", "--size", "16x24", "--dump", "all.safetensors",
                       "--dump-blocks"));
  graft_safetensors *file = open_tensors(temp_folder_join(&d->folder, "all.safetensors").text);
  const int64_t latents[] = {2, TINY_CHANNELS, 24 / TINY_FACTOR, 16 / TINY_FACTOR, 0}, image[] = {2, 3, 24, 16, 0};
  const graft_safetensors_tensor *ids = graft_safetensors_find(file, "token_ids");
  assert_non_null(ids);
  assert_string_equal(ids->dtype_name, "I32");
  assert_int_equal(ids->rank, 1);
  assert_tensor(file, "prompt_embeds", (const int64_t[]){ids->shape[0], 8, 0});
  assert_non_null(graft_safetensors_find(file, "negative_prompt_embeds"));
  assert_tensor(file, "noise", latents);
  assert_tensor(file, "latents_step_0", latents);
  assert_tensor(file, "latents_step_1", latents);
  const float *last = assert_tensor(file, "latents_step_2", latents), *end = assert_tensor(file, "latents", latents);
  assert_memory_equal(last, end, count_of(latents) * sizeof *last);
  assert_tensor(file, "image", image);
  assert_null(graft_safetensors_find(file, "latents_step_3"));
  uint32_t n_blocks = 0;
  for (size_t i = 0; i < graft_safetensors_count(file); ++i)
    n_blocks += strncmp(graft_safetensors_at(file, i)->name, "step0.", 6) == 0;
  assert_in_range(n_blocks, 3, 100);  // both refiners and the layer at least
  graft_safetensors_close(file);
}

static void dump_without_blocks_has_none(void **state) {
  const desk *d = *state;
  assert_done(GENERATE(d, "-p", "x", "--guidance", "0", "--dump", "some.safetensors"));
  graft_safetensors *file = open_tensors(temp_folder_join(&d->folder, "some.safetensors").text);
  for (size_t i = 0; i < graft_safetensors_count(file); ++i) {
    const char *name = graft_safetensors_at(file, i)->name;
    if (strncmp(name, "step0.", 6) == 0 || strncmp(name, "negative", 8) == 0) fail_msg("unexpected %s", name);
  }
  graft_safetensors_close(file);
}

static void noise_of_a_dump_gives_its_picture_again(void **state) {
  const desk *d = *state;
  assert_done(GENERATE(d, "-p", "x", "--seed", "5", "--dump", "first.safetensors", "-o", "a.png"));
  assert_done(GENERATE(d, "-p", "x", "--seed", "9", "--noise", "first.safetensors", "--dump", "second.safetensors",
                       "-o", "b.png"));
  graft_safetensors *first = open_tensors(temp_folder_join(&d->folder, "first.safetensors").text);
  graft_safetensors *second = open_tensors(temp_folder_join(&d->folder, "second.safetensors").text);
  const int64_t image[] = {1, 3, 16, 16, 0};
  assert_memory_equal(assert_tensor(first, "image", image), assert_tensor(second, "image", image),
                      count_of(image) * sizeof(float));
  graft_safetensors_close(first);
  graft_safetensors_close(second);
  picture b = read_picture(d, "b.png");
  assert_null(memmem(b.bytes, b.n_bytes, "Seed: ", 6));  // it would not be true
  free(b.bytes);
}

static void write_noise(const desk *d, const char *name, const graft_dtype dtype, int64_t height) {
  static const float zeros[4096];
  const graft_safetensors_source tensor = {
      .name = "noise", .dtype = dtype, .rank = 4, .shape = {1, TINY_CHANNELS, height, 8}, .data = zeros};
  const graft_safetensors_contents contents = {.tensors = &tensor, .n_tensors = 1};
  graft_error error = {0};
  assert_int_equal(graft_safetensors_write(temp_folder_join(&d->folder, name).text, &contents, &error), GRAFT_OK);
}

static void noise_that_does_not_fit_is_refused(void **state) {
  const desk *d = *state;
  write_noise(d, "right.safetensors", GRAFT_F32, 8);
  write_noise(d, "tall.safetensors", GRAFT_F32, 9);
  write_noise(d, "half.safetensors", GRAFT_F16, 8);
  temp_folder_write_text(&d->folder, "page.safetensors", "<html><body>not found</body></html>");
  const size_t n = temp_folder_count(&d->folder);
  assert_refused(GENERATE(d, "-q", "-p", "x", "--noise", "tall.safetensors"), 1, "noise");
  assert_refused(GENERATE(d, "-q", "-p", "x", "--noise", "half.safetensors"), 1, "must be F32");
  assert_refused(GENERATE(d, "-q", "-p", "x", "--noise", "page.safetensors"), 1, "page.safetensors");
  assert_refused(GENERATE(d, "-q", "-p", "x", "--noise", "none.safetensors"), 1, "none.safetensors");
  assert_refused(GENERATE(d, "-q", "-p", "x", "--batch", "2", "--noise", "right.safetensors"), 1, "noise");
  assert_int_equal(temp_folder_count(&d->folder), n);
  assert_done(GENERATE(d, "-q", "-p", "x", "--noise", "right.safetensors"));
}

static double number_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (!json_is_number(value)) fail_msg("an event has no %s", key);
  return json_number_value(value);
}

static void profile_is_a_chrome_trace(void **state) {
  const desk *d = *state;
  assert_done(GENERATE(d, "-p", "x", "--steps", "2", "--profile", "trace.json"));
  char *text = temp_folder_read(temp_folder_join(&d->folder, "trace.json").text, NULL);
  json_t *trace = parse_json(text), *events = json_object_get(trace, "traceEvents"), *event;
  size_t i;
  double worked = 0;
  assert_in_range(json_array_size(events), 50, 100000);
  json_array_foreach(events, i, event) {
    const json_t *arguments = json_object_get(event, "args");
    assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
    assert_true(number_of(event, "ts") >= 0 && number_of(event, "dur") >= 0 && number_of(arguments, "ms") >= 0);
    worked += number_of(arguments, "gflop_per_s") + number_of(arguments, "gb_per_s");
    for (const char *const *key = (const char *const[]){"op", "kernel", "shape", NULL}; *key != NULL; ++key)
      if (!json_is_string(json_object_get(arguments, *key))) fail_msg("event %zu has no %s", i, *key);
  }
  assert_true(worked > 0);
  json_decref(trace);
  free(text);
}

int main(void) {
#define DESK_TEST(f) cmocka_unit_test_setup_teardown(f, open_desk, close_desk)
  const struct CMUnitTest tests[] = {
      DESK_TEST(picture_has_its_parameters),
      DESK_TEST(batch_is_numbered_and_equals_single_pictures),
      DESK_TEST(says_what_it_does_only_when_not_quiet),
      DESK_TEST(dump_holds_every_stage),
      DESK_TEST(dump_without_blocks_has_none),
      DESK_TEST(noise_of_a_dump_gives_its_picture_again),
      DESK_TEST(noise_that_does_not_fit_is_refused),
      DESK_TEST(profile_is_a_chrome_trace),
  };
  return cmocka_run_group_tests_name("cli.generate", tests, NULL, NULL);
}
