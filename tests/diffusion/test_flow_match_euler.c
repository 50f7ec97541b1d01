#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "diffusion/samplers/flow_match_euler.h"

// Levels and time steps that diffusers gives for shift 3 and 20 steps; equal bit for bit.
static const float sigmas_20[21] = {1.0f,
                                    0.9827585816383362f,
                                    0.964285671710968f,
                                    0.944444477558136f,
                                    0.9230769872665405f,
                                    0.8999999761581421f,
                                    0.8749999403953552f,
                                    0.8478260636329651f,
                                    0.8181818127632141f,
                                    0.7857143878936768f,
                                    0.75f,
                                    0.7105262875556946f,
                                    0.6666666865348816f,
                                    0.6176469922065735f,
                                    0.5625f,
                                    0.5f,
                                    0.4285714626312256f,
                                    0.3461538851261139f,
                                    0.25f,
                                    0.13636364042758942f,
                                    0.0f};
static const float timesteps_20[20] = {1000.0f,
                                       982.7586059570312f,
                                       964.28564453125f,
                                       944.4444580078125f,
                                       923.0769653320312f,
                                       900.0f,
                                       874.9999389648438f,
                                       847.8260498046875f,
                                       818.1818237304688f,
                                       785.7144165039062f,
                                       750.0f,
                                       710.5263061523438f,
                                       666.6666870117188f,
                                       617.64697265625f,
                                       562.5f,
                                       500.0f,
                                       428.57147216796875f,
                                       346.1539001464844f,
                                       250.0f,
                                       136.3636474609375f};
static const float sigmas_8[9] = {1.0f,
                                  0.9545454382896423f,
                                  0.8999999761581421f,
                                  0.8333333134651184f,
                                  0.75f,
                                  0.6428571343421936f,
                                  0.5f,
                                  0.30000001192092896f,
                                  0.0f};

static const graft_flow_match_euler_config shifted = {.n_train_timesteps = 1000, .shift = 3};

static void levels_are_those_of_diffusers(void **state) {
  float sigmas[21];
  (void)state;
  graft_flow_match_euler_sigmas(&shifted, 8, sigmas);
  assert_memory_equal(sigmas, sigmas_8, sizeof sigmas_8);
  graft_flow_match_euler_sigmas(&shifted, 20, sigmas);
  assert_memory_equal(sigmas, sigmas_20, sizeof sigmas_20);
  for (int i = 0; i < 20; ++i) assert_true(graft_flow_match_euler_timestep(&shifted, sigmas[i]) == timesteps_20[i]);
}

static void levels_fall_strictly_from_one_to_zero(void **state) {
  static const int32_t counts[] = {1, 2, 7, 20, 30, 36, 999, 1000};
  static const double shifts[] = {1, 1.15, 3, 6};
  static float sigmas[1001];
  (void)state;
  for (size_t s = 0; s < sizeof shifts / sizeof shifts[0]; ++s) {
    const graft_flow_match_euler_config config = {.n_train_timesteps = 1000, .shift = shifts[s]};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; ++c) {
      const int32_t n = counts[c];
      graft_flow_match_euler_sigmas(&config, n, sigmas);
      assert_true(sigmas[0] == 1.0f && sigmas[n] == 0.0f);
      for (int32_t i = 0; i < n; ++i) assert_true(sigmas[i] > sigmas[i + 1]);
    }
  }
}

static void one_step_removes_all_noise(void **state) {
  // With the true velocity, noise - picture, a straight path ends in the picture.
  const float noise[2] = {1.5f, -0.25f}, picture[2] = {0.5f, 0.75f};
  float x[2] = {noise[0], noise[1]}, velocity[2];
  (void)state;
  for (int i = 0; i < 2; ++i) velocity[i] = noise[i] - picture[i];
  graft_flow_match_euler_step(x, velocity, 2, 1, 0);
  for (int i = 0; i < 2; ++i) assert_float_equal(x[i], picture[i], 1e-6f);
}

static graft_status read_text(const char *text, graft_error *error, graft_flow_match_euler_config *config) {
  graft_json *json;
  if (graft_json_parse(text, strlen(text), "scheduler_config.json", error, &json) != GRAFT_OK) fail();
  graft_status status = graft_flow_match_euler_read(json, error, config);
  graft_json_close(json);
  return status;
}

static void configuration_is_read(void **state) {
  graft_flow_match_euler_config config;
  graft_error error = {0};
  (void)state;
  assert_int_equal(read_text("{\"shift\": 3.0, \"num_train_timesteps\": 1000, \"use_dynamic_shifting\": false,"
                             " \"shift_terminal\": null}",
                             &error, &config),
                   GRAFT_OK);
  assert_int_equal(config.n_train_timesteps, 1000);
  assert_true(config.shift == 3.0);
}

static void other_options_are_refused_by_name(void **state) {
  static const char *const names[] = {"use_dynamic_shifting", "use_karras_sigmas",   "use_exponential_sigmas",
                                      "use_beta_sigmas",      "stochastic_sampling", "invert_sigmas"};
  graft_flow_match_euler_config config;
  char text[128];
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    graft_error error = {0};
    snprintf(text, sizeof text, "{\"%s\": true}", names[i]);
    assert_int_equal(read_text(text, &error, &config), GRAFT_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, names[i]));
  }
  graft_error error = {0};
  assert_int_equal(read_text("{\"shift_terminal\": 0.02}", &error, &config), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "shift_terminal"));
  assert_int_equal(read_text("{\"_class_name\": \"DDIMScheduler\"}", &error, &config), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "DDIMScheduler"));
  assert_int_equal(read_text("{\"shift\": 0}", &error, &config), GRAFT_E_FORMAT);
  assert_int_equal(read_text("{\"num_train_timesteps\": 0}", &error, &config), GRAFT_E_FORMAT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(levels_are_those_of_diffusers),     cmocka_unit_test(levels_fall_strictly_from_one_to_zero),
      cmocka_unit_test(one_step_removes_all_noise),        cmocka_unit_test(configuration_is_read),
      cmocka_unit_test(other_options_are_refused_by_name),
  };
  return cmocka_run_group_tests_name("diffusion.flow_match_euler", tests, NULL, NULL);
}
