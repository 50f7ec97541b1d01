#include "diffusion/samplers/flow_match_euler.h"

#include <string.h>

#include "formats/excerpt.h"

static graft_status refuse_options(const graft_json *json, graft_error *error) {
  static const char *const switches[] = {"use_dynamic_shifting", "use_karras_sigmas",   "use_exponential_sigmas",
                                         "use_beta_sigmas",      "stochastic_sampling", "invert_sigmas"};
  for (size_t i = 0; i < sizeof switches / sizeof switches[0]; ++i) {
    bool is_on;
    GRAFT_TRY(graft_json_get_bool(json, switches[i], (graft_json_bool_rule){0}, error, &is_on));
    if (is_on)
      return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                        "%s: the scheduler option `%s` is on, and graft knows only static shifting without it",
                        graft_excerpt_path(graft_json_origin(json)).text, switches[i]);
  }
  if (graft_json_find(json, "shift_terminal"))
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "%s: the scheduler option `shift_terminal` is set, and graft knows only null for it",
                      graft_excerpt_path(graft_json_origin(json)).text);
  return GRAFT_OK;
}

graft_status graft_flow_match_euler_read(const graft_json *json, graft_error *error,
                                         graft_flow_match_euler_config *out_config) {
  const char *class_name;
  int64_t n_train;
  double shift;
  GRAFT_TRY(graft_json_get_string(json, "_class_name", "FlowMatchEulerDiscreteScheduler", error, &class_name));
  if (strcmp(class_name, "FlowMatchEulerDiscreteScheduler") != 0)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "%s: the scheduler class %.100s is not supported; supported is FlowMatchEulerDiscreteScheduler",
                      graft_excerpt_path(graft_json_origin(json)).text, class_name);
  GRAFT_TRY(refuse_options(json, error));
  graft_json_int_rule train_rule = {.min = 1, .max = 10000, .otherwise = 1000};
  GRAFT_TRY(graft_json_get_int(json, "num_train_timesteps", train_rule, error, &n_train));
  graft_json_number_rule shift_rule = {.min = 0.01, .max = 100, .otherwise = 1};
  GRAFT_TRY(graft_json_get_number(json, "shift", shift_rule, error, &shift));
  *out_config = (graft_flow_match_euler_config){.n_train_timesteps = (int32_t)n_train, .shift = shift};
  return GRAFT_OK;
}

void graft_flow_match_euler_sigmas(const graft_flow_match_euler_config *config, int32_t n_steps, float *sigmas) {
  const float shift = (float)config->shift;
  const float shift_minus_one = (float)(config->shift - 1.0);
  const double last = 1.0 / n_steps;
  const double distance = n_steps > 1 ? (last - 1.0) / (n_steps - 1) : 0.0;
  for (int32_t i = 0; i < n_steps; ++i) {
    double level = i > 0 && i == n_steps - 1 ? last : i * distance + 1.0;
    float s = (float)level;
    sigmas[i] = shift * s / (1.0f + shift_minus_one * s);
  }
  sigmas[n_steps] = 0.0f;
}

float graft_flow_match_euler_timestep(const graft_flow_match_euler_config *config, float sigma) {
  return sigma * (float)config->n_train_timesteps;
}

void graft_flow_match_euler_step(float *x, const float *velocity, size_t n, float sigma, float sigma_next) {
  const float distance = sigma_next - sigma;
  for (size_t i = 0; i < n; ++i) x[i] += distance * velocity[i];
}
