#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

golden golden_open(void) {
  golden g = {0};
  graft_error error = {0};
  if (graft_context_create(NULL, &error, &g.context) != GRAFT_OK) fail_msg("%s", error.message);
  const char *device = getenv("GRAFT_TEST_DEVICE");  // "cuda:0": the same numbers on a GPU
  golden_check(&g, graft_device_open(g.context, device != NULL ? device : "cpu", &g.device));
  return g;
}

void golden_close(golden *g) {
  graft_context_destroy(g->context);
}

void golden_check(const golden *g, graft_status status) {
  if (status != GRAFT_OK) fail_msg("%s: %s", graft_status_name(status), graft_context_error(g->context)->message);
}

graft_weights *golden_weights(const char *name) {
  char path[512];
  graft_error error = {0};
  graft_weights *weights;
  snprintf(path, sizeof path, "%s/%s", GRAFT_GOLDEN_FOLDER, name);
  if (graft_weights_open(path, GRAFT_SAFETENSORS_MAP, &error, &weights) != GRAFT_OK) fail_msg("%s", error.message);
  return weights;
}

graft_json *golden_json(const char *text) {
  graft_error error = {0};
  graft_json *json;
  if (graft_json_parse(text, strlen(text), "test", &error, &json) != GRAFT_OK) fail_msg("%s", error.message);
  return json;
}

const graft_safetensors_tensor *golden_tensor(const graft_weights *weights, const char *name) {
  const graft_safetensors_tensor *tensor = graft_weights_find(weights, name);
  if (!tensor) fail_msg("%s has no tensor %s", graft_weights_path(weights), name);
  return tensor;
}

double golden_error(const float *got, const float *want, size_t n) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < n; ++i) {
    const double d = (double)got[i] - (double)want[i];
    difference += d * d;
    size += (double)want[i] * (double)want[i];
  }
  const double error = sqrt(difference / size);
  return isfinite(error) ? error : HUGE_VAL;
}

double golden_shown(float sample) {
  const double value = (double)sample / 2 + 0.5;
  return value < 0 ? 0 : value > 1 ? 1 : value;
}

double golden_psnr(const float *got, const float *want, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += pow(golden_shown(got[i]) - golden_shown(want[i]), 2);
  return -10 * log10(sum / (double)n);
}

void golden_expect(const char *what, const float *got, const float *want, size_t n, double bound) {
  const double error = golden_error(got, want, n);
  print_message("    %-28s relative error %.2e, allowed %.0e\n", what, error, bound);
  if (!(error <= bound)) fail_msg("%s: relative error %g is above %g", what, error, bound);
}

golden_plan golden_plan_open(const golden *g, graft_model *model) {
  golden_plan plan = {.graph = model->graph};
  golden_check(g, graft_model_finish(model));
  const graft_plan_options options = {.struct_size = sizeof options, .device = g->device};
  golden_check(g, graft_plan_create(plan.graph, &options, &plan.plan));
  return plan;
}

void golden_plan_close(golden_plan *plan) {
  graft_plan_destroy(plan->plan);
  graft_graph_destroy(plan->graph);
}

void golden_write(const golden *g, const golden_plan *plan, const char *input, const void *data) {
  uint32_t index;
  golden_check(g, graft_plan_find_input(plan->plan, input, &index));
  const graft_tensor_desc *desc = graft_tensor_describe(graft_graph_input_at(plan->graph, index));
  golden_check(g, graft_plan_write(plan->plan, index, data, graft_tensor_desc_bytes(desc)));
}

void golden_run(const golden *g, const golden_plan *plan) {
  golden_check(g, graft_plan_run(plan->plan, NULL));
}

float *golden_read(const golden *g, const golden_plan *plan, const char *output, size_t *out_n) {
  uint32_t index;
  const char *name;
  golden_check(g, graft_plan_find_output(plan->plan, output, &index));
  const graft_tensor *tensor = graft_graph_output_at(plan->graph, index, &name);
  const size_t n = (size_t)graft_tensor_desc_elements(graft_tensor_describe(tensor));
  float *values = malloc(n * sizeof *values);
  assert_non_null(values);
  golden_check(g, graft_plan_read(plan->plan, index, values, n * sizeof *values));
  if (out_n) *out_n = n;
  return values;
}
