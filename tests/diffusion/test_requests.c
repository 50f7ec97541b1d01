// What can be asked for, what is refused, and what the answer depends on.
#include "studio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Counts evaluations and keeps the latents.
typedef struct observation {
  int n_runs[GRAFT_N_STAGES];
  float latents[4][8 * 8 * TINY_CHANNELS];  // after each of the first steps, of one 16x16 picture
  int n_aborts_left;                        // answers "go on" this many times
  graft_status tensor_status;
} observation;

static void count_run(void *user, graft_pipeline_stage stage, const graft_plan *plan, uint32_t step, bool is_end) {
  observation *o = user;
  (void)plan;
  if (step == 0 && is_end) ++o->n_runs[stage];
}

static graft_status keep_latents(void *user, const char *name, const graft_tensor_desc *desc, const void *data) {
  observation *o = user;
  if (strncmp(name, "latents_step_", 13) == 0 && atoi(name + 13) < 4 &&
      graft_tensor_desc_bytes(desc) == sizeof o->latents[0])
    memcpy(o->latents[atoi(name + 13)], data, sizeof o->latents[0]);
  return o->tensor_status;
}

static bool abort_later(void *user) {
  observation *o = user;
  return o->n_aborts_left-- <= 0;
}

static graft_generate_callbacks observe(observation *o) {
  return (graft_generate_callbacks){
      .struct_size = sizeof(graft_generate_callbacks), .user = o, .on_tensor = keep_latents, .on_plan_step = count_run};
}

// The request must be refused with a sentence that has |part| in it, without a network being run.
static void expect_refusal(studio *s, const graft_generate_request *request, graft_status status, const char *part) {
  observation o = {0};
  const graft_generate_callbacks callbacks = observe(&o);
  graft_generate_result result = {.struct_size = sizeof result, .n_images = 77};
  const graft_status found = graft_pipeline_generate(s->pipeline, request, &callbacks, &result);
  if (found != status || !strstr(studio_message(s), part))
    fail_msg("wanted %s with '%s', found %s: %s", graft_status_name(status), part, graft_status_name(found),
             studio_message(s));
  assert_int_equal(result.n_images, 77);
  for (int i = 0; i < GRAFT_N_STAGES; ++i) assert_int_equal(o.n_runs[i], 0);
}

// An older caller's struct is filled as far as it goes.
static void OP8_older_callers_get_what_they_know(void **state) {
  (void)state;
  studio s = studio_open(0);
  graft_generate_request request;
  graft_pipeline_info info;
  graft_pipeline_memory memory;
  memset(&request, 0x55, sizeof request);
  memset(&info, 0x55, sizeof info);
  memset(&memory, 0x55, sizeof memory);
  request.struct_size = offsetof(graft_generate_request, seeds);
  info.struct_size = offsetof(graft_pipeline_info, class_name);
  memory.struct_size = offsetof(graft_pipeline_memory, stage_bytes);
  graft_generate_request_init(s.pipeline, &request);
  graft_pipeline_describe(s.pipeline, &info);
  const graft_stage_request wanted = {.struct_size = sizeof wanted};
  assert_int_equal(graft_pipeline_measure(s.pipeline, &wanted, &memory), GRAFT_OK);
  assert_int_equal(request.struct_size, offsetof(graft_generate_request, seeds));
  assert_int_equal(request.n_images, 1);
  assert_string_equal(info.family, "Z-Image");
  assert_true(memory.peak_bytes > 0 && memory.peak_bytes != 0x5555555555555555u);
  const unsigned char *behind[] = {(unsigned char *)&request.seeds, (unsigned char *)&info.class_name,
                                   (unsigned char *)&memory.stage_bytes};
  for (int i = 0; i < 3; ++i)
    for (size_t b = 0; b < sizeof(void *); ++b) assert_int_equal(behind[i][b], 0x55);
  studio_close(&s);
}

// Structs of an older and of a careless caller.
static void struct_sizes(void **state) {
  (void)state;
  studio s = studio_open(0);
  graft_generate_request request = studio_request(&s);
  graft_pipeline *pipeline;
  request.struct_size = offsetof(graft_generate_request, noise);
  memset(&request.noise, 0x55, sizeof request.noise);
  graft_generate_result result = studio_generate(&s, &request, NULL);
  graft_generate_result_release(&result);
  graft_generate_result unset = {0};
  assert_int_equal(graft_pipeline_generate(s.pipeline, &request, NULL, &unset), GRAFT_E_INVALID);
  assert_non_null(strstr(studio_message(&s), "struct_size of a graft_generate_result is 0"));
  unset.struct_size = UINT32_MAX;
  assert_int_equal(graft_pipeline_generate(s.pipeline, &request, NULL, &unset), GRAFT_E_INVALID);
  request.struct_size = 0;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "struct_size");
  const graft_pipeline_options options = {0};
  assert_int_equal(graft_pipeline_open(s.context, s.folder.path, &options, &pipeline), GRAFT_E_INVALID);
  const graft_stage_request stage = {0};
  graft_pipeline_memory memory = {.struct_size = sizeof memory};
  graft_graph *graph;
  assert_int_equal(graft_pipeline_measure(s.pipeline, &stage, &memory), GRAFT_E_INVALID);
  assert_int_equal(graft_pipeline_stage_graph(s.pipeline, &stage, &graph), GRAFT_E_INVALID);
  studio_close(&s);
}

static void sizes(void **state) {
  typedef struct size_case {
    int32_t width, height;
    const char *nearest;  // NULL: legal
  } size_case;
  static const size_case cases[] = {
      {4, 4, NULL},
      {16, 16, NULL},
      {32, 8, NULL},
      {12, 32, NULL},
      {1, 1, "4x4"},
      {0, 16, "4x16"},
      {-8, 16, "4x16"},
      {18, 16, "20x16"},
      {17, 15, "16x16"},
      {16, 36, "16x32"},
      {65536, 8, "32x8"},
      {1000000, 1000000, "32x32"},
      {2147483647, 4, "32x4"},
  };
  studio s = studio_open(0);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    graft_generate_request request = studio_request(&s);
    request.width = cases[i].width;
    request.height = cases[i].height;
    if (cases[i].nearest) {
      expect_refusal(&s, &request, GRAFT_E_INVALID, cases[i].nearest);
      continue;
    }
    graft_generate_result result = studio_generate(&s, &request, NULL);
    assert_int_equal(result.width, request.width);
    assert_int_equal(result.height, request.height);
    graft_generate_result_release(&result);
  }
  studio_close(&s);
}

static void steps_are_counted(void **state) {
  static const int32_t counts[] = {1, 2, 7, 20};
  studio s = studio_open(0);
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    observation o = {0};
    const graft_generate_callbacks callbacks = observe(&o);
    graft_generate_request request = studio_request(&s);
    request.n_steps = counts[i];
    graft_generate_result result = studio_generate(&s, &request, &callbacks);
    graft_generate_result_release(&result);
    assert_int_equal(o.n_runs[GRAFT_STAGE_TEXT_ENCODER], 2);
    assert_int_equal(o.n_runs[GRAFT_STAGE_TRANSFORMER], 2 * counts[i]);
    assert_int_equal(o.n_runs[GRAFT_STAGE_DECODER], 1);
  }
  graft_generate_request request = studio_request(&s);
  request.n_steps = 0;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "between 1 and 1000, not 0");
  request.n_steps = -3;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "not -3");
  request.n_steps = 1001;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "not 1001");
  studio_close(&s);
}

static observation latents_at(studio *s, const char *prompt, const char *negative, double guidance) {
  observation o = {0};
  const graft_generate_callbacks callbacks = observe(&o);
  graft_generate_request request = studio_request(s);
  request.prompt = prompt;
  request.negative_prompt = negative;
  request.guidance = guidance;
  request.n_steps = 1;
  graft_generate_result result = studio_generate(s, &request, &callbacks);
  graft_generate_result_release(&result);
  return o;
}

static void guidance_is_positive_plus_scaled_difference(void **state) {
  studio s = studio_open(0);
  (void)state;
  const observation positive = latents_at(&s, "a cat", NULL, 0), negative = latents_at(&s, "a dog", NULL, 0);
  const double scales[] = {0.5, 1, 7};
  for (size_t i = 0; i < sizeof scales / sizeof scales[0]; ++i) {
    const observation both = latents_at(&s, "a cat", "a dog", scales[i]);
    assert_int_equal(both.n_runs[GRAFT_STAGE_TRANSFORMER], 2);
    for (size_t k = 0; k < sizeof both.latents[0] / sizeof(float); ++k) {
      const double p = (double)positive.latents[0][k], n = (double)negative.latents[0][k];
      assert_true(fabs((double)both.latents[0][k] - (p + scales[i] * (p - n))) < 1e-5);
    }
  }
  studio_close(&s);
}

static void without_guidance_the_negative_prompt_is_nothing(void **state) {
  studio s = studio_open(0);
  (void)state;
  const observation plain = latents_at(&s, "a cat", NULL, 0);
  const observation off = latents_at(&s, "a cat", "a dog", 0), below = latents_at(&s, "a cat", "a dog", -1);
  assert_int_equal(off.n_runs[GRAFT_STAGE_TRANSFORMER], 1);
  assert_int_equal(off.n_runs[GRAFT_STAGE_TEXT_ENCODER], 1);
  assert_memory_equal(plain.latents, off.latents, sizeof plain.latents);
  assert_memory_equal(plain.latents, below.latents, sizeof plain.latents);
  graft_generate_request request = studio_request(&s);
  request.guidance = (double)NAN;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "guidance");
  request.guidance = HUGE_VAL;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "guidance");
  studio_close(&s);
}

static void prompts(void **state) {
  static const char *const good[] = {
      "", " ", "\n\n\n  a", "un chaton très mignon", "一只猫", "e\xCC\x81", "<|endoftext|> cat", "(((a))", "(a:1e9)"};
  studio s = studio_open(0);
  (void)state;
  graft_generate_request request = studio_request(&s);
  request.n_steps = 1;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; ++i) {
    request.prompt = good[i];
    graft_generate_result result = studio_generate(&s, &request, NULL);
    graft_generate_result_release(&result);
  }
  request.prompt = "\xFF\xFE";
  expect_refusal(&s, &request, GRAFT_E_INVALID, "UTF-8");
  request.prompt = NULL;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "prompt");
  request.prompt = "a cat";
  request.negative_prompt = "a\xC0";
  expect_refusal(&s, &request, GRAFT_E_INVALID, "negative prompt");
  char *text = malloc(100001);
  assert_non_null(text);
  for (size_t i = 0; i < 100000; ++i) text[i] = i % 2 ? ' ' : 'a';
  text[100000] = '\0';
  request.negative_prompt = NULL;
  request.prompt = text;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "too long");
  free(text);
  studio_close(&s);
}

static void each_picture_of_a_batch_is_its_seeds(void **state) {
  static const uint64_t seeds[3] = {5, 0xFFFFFFFFFFFFFFFFu, 7};
  studio s = studio_open(0);
  (void)state;
  graft_generate_request request = studio_request(&s);
  request.seeds = seeds;
  request.n_images = 3;
  graft_generate_result batch = studio_generate(&s, &request, NULL);
  assert_int_equal(batch.n_images, 3);
  request.n_images = 1;
  for (size_t i = 0; i < 3; ++i) {
    request.seeds = &seeds[i];
    graft_generate_result single = studio_generate(&s, &request, NULL);
    assert_memory_equal(batch.rgb + i * 16 * 16 * 3, single.rgb, 16 * 16 * 3);
    assert_memory_equal(batch.samples + i * 16 * 16 * 3, single.samples, 16 * 16 * 3 * sizeof(float));
    graft_generate_result_release(&single);
  }
  graft_generate_result_release(&batch);
  request.n_images = 0;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "number of pictures");
  request.n_images = GRAFT_MAX_IMAGES + 1;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "number of pictures");
  studio_close(&s);
}

static void noise_can_be_given(void **state) {
  studio s = studio_open(0);
  (void)state;
  float values[TINY_CHANNELS * 8 * 8] = {0};
  graft_view noise = {.data = values};
  graft_generate_request request = studio_request(&s);
  request.noise = &noise;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 4, (int64_t[]){1, TINY_CHANNELS, 8, 8}, NULL, &noise.desc), 0);
  graft_generate_result a = studio_generate(&s, &request, NULL);
  const uint64_t seed = 99;
  request.seeds = &seed;
  graft_generate_result b = studio_generate(&s, &request, NULL);
  assert_memory_equal(a.samples, b.samples, 16 * 16 * 3 * sizeof(float));
  graft_generate_result_release(&a);
  graft_generate_result_release(&b);
  values[17] = (float)NAN;
  expect_refusal(&s, &request, GRAFT_E_INVALID, "element 17");
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 4, (int64_t[]){1, TINY_CHANNELS, 4, 16}, NULL, &noise.desc), 0);
  expect_refusal(&s, &request, GRAFT_E_SHAPE, "f32[1, 4, 8, 8]");
  studio_close(&s);
}

static void a_stopped_generation_can_be_repeated(void **state) {
  studio s = studio_open(2);
  (void)state;
  const graft_generate_request request = studio_request(&s);
  graft_generate_result whole = studio_generate(&s, &request, NULL);
  for (int n = 0; n < 40; n += 3) {
    observation o = {.n_aborts_left = n};
    graft_generate_callbacks callbacks = observe(&o);
    callbacks.on_plan_step = NULL;
    callbacks.abort = abort_later;
    graft_generate_result result = {.struct_size = sizeof result};
    const graft_status status = graft_pipeline_generate(s.pipeline, &request, &callbacks, &result);
    if (status == GRAFT_OK) {
      graft_generate_result_release(&result);
      break;
    }
    assert_int_equal(status, GRAFT_E_CANCELLED);
    assert_null(result.rgb);
  }
  graft_generate_result again = studio_generate(&s, &request, NULL);
  assert_memory_equal(whole.samples, again.samples, 16 * 16 * 3 * sizeof(float));
  graft_generate_result_release(&whole);
  graft_generate_result_release(&again);
  studio_close(&s);
}

static void a_callbacks_failure_ends_the_generation(void **state) {
  studio s = studio_open(0);
  observation o = {.tensor_status = GRAFT_E_IO};
  const graft_generate_callbacks callbacks = observe(&o);
  const graft_generate_request request = studio_request(&s);
  graft_generate_result result = {.struct_size = sizeof result};
  (void)state;
  assert_int_equal(graft_pipeline_generate(s.pipeline, &request, &callbacks, &result), GRAFT_E_IO);
  assert_int_equal(o.n_runs[GRAFT_STAGE_TRANSFORMER], 0);
  studio_close(&s);
}

static void threads_and_repetition_change_nothing(void **state) {
  static const int32_t counts[] = {1, 2, 5, 1};
  graft_generate_result first = {.struct_size = sizeof first};
  (void)state;
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    studio s = studio_open(counts[i]);
    graft_generate_request request = studio_request(&s);
    request.width = 32;
    request.height = 32;
    graft_generate_result result = studio_generate(&s, &request, NULL);
    if (i == 0) {
      first = result;
    } else {
      assert_memory_equal(first.samples, result.samples, 32 * 32 * 3 * sizeof(float));
      graft_generate_result_release(&result);
    }
    studio_close(&s);
  }
  graft_generate_result_release(&first);
}

static void sizes_and_prompts_can_alternate(void **state) {
  // More combinations than plans are kept, so that some are made anew.
  studio s = studio_open(0);
  const char *const texts[] = {"a", "a prompt that is long enough for a second group of thirty-two tokens"};
  graft_generate_result first[4] = {0};
  (void)state;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 4; ++i) {
      graft_generate_request request = studio_request(&s);
      request.width = i < 2 ? 8 : 16;
      request.prompt = texts[i % 2];
      graft_generate_result result = studio_generate(&s, &request, NULL);
      if (round == 0) {
        first[i] = result;
      } else {
        assert_memory_equal(first[i].samples, result.samples, (size_t)(request.width * 16) * 3 * sizeof(float));
        graft_generate_result_release(&result);
      }
    }
  for (int i = 0; i < 4; ++i) graft_generate_result_release(&first[i]);
  studio_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(OP8_older_callers_get_what_they_know),
      cmocka_unit_test(struct_sizes),
      cmocka_unit_test(sizes),
      cmocka_unit_test(steps_are_counted),
      cmocka_unit_test(guidance_is_positive_plus_scaled_difference),
      cmocka_unit_test(without_guidance_the_negative_prompt_is_nothing),
      cmocka_unit_test(prompts),
      cmocka_unit_test(each_picture_of_a_batch_is_its_seeds),
      cmocka_unit_test(noise_can_be_given),
      cmocka_unit_test(a_stopped_generation_can_be_repeated),
      cmocka_unit_test(a_callbacks_failure_ends_the_generation),
      cmocka_unit_test(threads_and_repetition_change_nothing),
      cmocka_unit_test(sizes_and_prompts_can_alternate),
  };
  return cmocka_run_group_tests_name("diffusion.requests", tests, NULL, NULL);
}
