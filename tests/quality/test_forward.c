// One evaluation of the transformer in int8 against the same in f32, on inputs of the f32 run: errors of steps do not
// add up here, so that the bounds can be tight. Above them something is lost that need not be (truncation, one scale
// for a whole tensor, no rotation); far below, the activations are not being quantised at all.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/samplers/flow_match_euler.h"
#include "diffusion/transformers/z_image.h"
#include "golden.h"
#include "prompts.h"

enum { N_PROMPTS = 8, N_STEPS = 20, N_PROBES = 3, MAX_TOKENS = 32, SIDE = 256, FACTOR = 8 };
enum { LATENTS = 16 * (SIDE / FACTOR) * (SIDE / FACTOR) };

static const int probed_steps[N_PROBES] = {0, 10, 19};
static const double bounds[N_PROBES] = {0.0066, 0.0083, 0.026};
static const double least = 0.0045;  // at step 0

// What the transformer reads at the probed steps of one prompt.
typedef struct trajectory {
  float latents[N_PROBES][LATENTS];
  float caption[MAX_TOKENS][256], keep[MAX_TOKENS];
} trajectory;

static graft_status capture(void *user, const char *name, const graft_tensor_desc *desc, const void *data) {
  trajectory *t = user;
  if (strcmp(name, "prompt_embeds") == 0) {
    assert_in_range(desc->shape[0], 1, MAX_TOKENS);
    memcpy(t->caption, data, graft_tensor_desc_bytes(desc));
    for (int64_t i = 0; i < desc->shape[0]; ++i) t->keep[i] = 1;
  }
  for (int i = 0; i < N_PROBES; ++i) {
    char wanted[32];
    snprintf(wanted, sizeof wanted, probed_steps[i] == 0 ? "noise" : "latents_step_%d", probed_steps[i] - 1);
    if (strcmp(name, wanted) == 0) memcpy(t->latents[i], data, sizeof t->latents[i]);
  }
  return GRAFT_OK;
}

static void follow(const golden *g, graft_pipeline *pipeline, int prompt, trajectory *out) {
  const uint64_t seed = (uint64_t)prompt;
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_request_init(pipeline, &request);
  request.prompt = quality_prompts[prompt];
  request.seeds = &seed;
  request.n_steps = N_STEPS;
  request.width = request.height = SIDE;
  request.guidance = 4;
  memset(out, 0, sizeof *out);
  const graft_generate_callbacks callbacks = {.struct_size = sizeof callbacks, .user = out, .on_tensor = capture};
  graft_generate_result result = {.struct_size = sizeof result};
  golden_check(g, graft_pipeline_generate(pipeline, &request, &callbacks, &result));
  graft_generate_result_release(&result);
}

// A transformer of one type, ready to be evaluated.
typedef struct transformer {
  graft_pipeline *pipeline;
  golden_plan plan;
} transformer;

static graft_json *open_json(const char *name) {
  char path[512];
  graft_json *json = NULL;
  graft_error error = {0};
  snprintf(path, sizeof path, "%s/%s", GRAFT_GOLDEN_MODEL, name);
  if (graft_json_open(path, 1 << 20, &error, &json) != GRAFT_OK) fail_msg("%s", error.message);
  return json;
}

static void write_positions(const golden *g, const golden_plan *plan) {
  graft_json *json = open_json("transformer/config.json");
  graft_z_image_config config;
  graft_error error = {0};
  if (graft_z_image_read(json, &error, &config) != GRAFT_OK) fail_msg("%s", error.message);
  graft_json_close(json);
  const graft_z_image_shape shape = {
      .batch = 1, .height = SIDE / FACTOR, .width = SIDE / FACTOR, .n_caption = MAX_TOKENS};
  const int64_t n = graft_z_image_n_image_tokens(&config, &shape) + MAX_TOKENS;
  float *table = malloc((size_t)(n * config.head_dim) * sizeof *table);
  assert_non_null(table);
  graft_z_image_rotary(&config, &shape, MAX_TOKENS, table);
  golden_write(g, plan, "rotary", table);
  free(table);
}

static transformer open_transformer(const golden *g, graft_weight_type type) {
  transformer t = {0};
  const graft_pipeline_options options = {.struct_size = sizeof options, .type = type};
  const graft_stage_request request = {.struct_size = sizeof request,
                                       .stage = GRAFT_STAGE_TRANSFORMER,
                                       .width = SIDE,
                                       .height = SIDE,
                                       .n_tokens = MAX_TOKENS};
  golden_check(g, graft_pipeline_open(g->context, GRAFT_GOLDEN_MODEL, &options, &t.pipeline));
  golden_check(g, graft_pipeline_stage_graph(t.pipeline, &request, &t.plan.graph));
  const graft_plan_options plan_options = {.struct_size = sizeof plan_options, .device = g->device};
  golden_check(g, graft_plan_create(t.plan.graph, &plan_options, &t.plan.plan));
  write_positions(g, &t.plan);
  return t;
}

static void close_transformer(transformer *t) {
  golden_plan_close(&t->plan);
  graft_pipeline_close(t->pipeline);
}

static float *evaluate(const golden *g, const transformer *t, const trajectory *inputs, int probe, float time) {
  golden_write(g, &t->plan, "latents", inputs->latents[probe]);
  golden_write(g, &t->plan, "time", &time);
  golden_write(g, &t->plan, "caption", inputs->caption);
  golden_write(g, &t->plan, "caption_keep", inputs->keep);
  golden_run(g, &t->plan);
  return golden_read(g, &t->plan, "flow", NULL);
}

static void fill_times(float times[N_PROBES]) {
  float sigmas[N_STEPS + 1];
  graft_json *json = open_json("scheduler/scheduler_config.json");
  graft_flow_match_euler_config config;
  graft_error error = {0};
  if (graft_flow_match_euler_read(json, &error, &config) != GRAFT_OK) fail_msg("%s", error.message);
  graft_json_close(json);
  graft_flow_match_euler_sigmas(&config, N_STEPS, sigmas);
  const float n = (float)config.n_train_timesteps;
  for (int i = 0; i < N_PROBES; ++i)
    times[i] = (n - graft_flow_match_euler_timestep(&config, sigmas[probed_steps[i]])) / n;
}

static void add_errors(const golden *g, const transformer *exact, const transformer *quantized,
                       const trajectory *inputs, double sums[N_PROBES]) {
  float times[N_PROBES];
  fill_times(times);
  for (int i = 0; i < N_PROBES; ++i) {
    float *want = evaluate(g, exact, inputs, i, times[i]), *got = evaluate(g, quantized, inputs, i, times[i]);
    sums[i] += golden_error(got, want, LATENTS);
    free(want);
    free(got);
  }
}

static void int8_is_close_to_f32(void **state) {
  (void)state;
  golden g = golden_open();
  transformer exact = open_transformer(&g, GRAFT_WEIGHT_F32);
  transformer rotated = open_transformer(&g, GRAFT_WEIGHT_INT8_CONVROT),
              plain = open_transformer(&g, GRAFT_WEIGHT_INT8);
  trajectory *inputs = malloc(sizeof *inputs);
  assert_non_null(inputs);
  double errors[N_PROBES] = {0}, plain_errors[N_PROBES] = {0};
  for (int i = 0; i < N_PROMPTS; ++i) {
    follow(&g, exact.pipeline, i, inputs);
    add_errors(&g, &exact, &rotated, inputs, errors);
    add_errors(&g, &exact, &plain, inputs, plain_errors);
  }
  free(inputs);
  for (int i = 0; i < N_PROBES; ++i) {
    print_message("    step %2d: relative error %.5f, allowed %.4f; without rotation %.5f\n", probed_steps[i],
                  errors[i] / N_PROMPTS, bounds[i], plain_errors[i] / N_PROMPTS);
  }
  for (int i = 0; i < N_PROBES; ++i) assert_true(errors[i] / N_PROMPTS <= bounds[i]);
  assert_true(errors[0] / N_PROMPTS >= least);
  close_transformer(&plain);
  close_transformer(&rotated);
  close_transformer(&exact);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(int8_is_close_to_f32)};
  return cmocka_run_group_tests_name("quality.forward", tests, NULL, NULL);
}
