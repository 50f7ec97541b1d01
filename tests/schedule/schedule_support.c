#include "schedule_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

schedule *schedule_open(int32_t n_threads, const char *words) {
  schedule *s = calloc(1, sizeof *s);
  const graft_context_options options = {.struct_size = sizeof options,
                                         .n_threads = n_threads,
                                         .without_builtins = true,
                                         .ignore_environment = true,
                                         .devices = words};
  const graft_extension *const extensions[] = {&graft_extension_cpu_backend, &graft_extension_private_backend,
                                               &plan_extension};
  assert_int_equal(graft_context_create(&options, NULL, &s->context), GRAFT_OK);
  for (int i = 0; i < 3; ++i) {
    if (graft_context_register(s->context, extensions[i]) != GRAFT_OK) {
      fail_msg("%s", graft_context_error(s->context)->message);
    }
  }
  s->cpu = plan_mock_device(s->context, "cpu");
  s->first = plan_mock_device(s->context, "private:0");
  s->second = plan_mock_device(s->context, "private:1");
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  plan_mock_reset();
  return s;
}

void schedule_close(schedule *s) {
  graft_graph_destroy(s->graph);
  assert_int_equal(plan_mock_n_states(), 0);
  const graft_device *const devices[] = {s->cpu, s->first, s->second};
  for (int i = 0; i < 3; ++i) {
    graft_device_info info = {.struct_size = sizeof info};
    graft_device_describe(devices[i], &info);
    assert_int_equal(info.allocated_bytes, 0);
  }
  graft_context_destroy(s->context);
  free(s);
}

graft_tensor *schedule_write(graft_graph *graph, const char *op, plan_attrs attrs, graft_tensor *a, graft_tensor *b,
                             graft_tensor *into) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS] = {0}, *inputs[] = {a, b};
  const graft_application application = {.struct_size = sizeof application,
                                         .op = op,
                                         .attrs = &attrs,
                                         .attrs_bytes = sizeof attrs,
                                         .inputs = inputs,
                                         .n_inputs = b != NULL ? 2 : 1,
                                         .into = into};
  graft_graph_apply_into(graph, &application, out);
  return out[0];
}

graft_tensor *schedule_scale(graft_graph *graph, graft_tensor *x, double factor) {
  return plan_apply1(graph, "plan.scale.v1", (plan_attrs){.factor = factor}, x);
}

graft_tensor *schedule_slice(graft_graph *graph, graft_tensor *x, int64_t first, int64_t n) {
  return plan_apply1(graph, "plan.slice.v1", (plan_attrs){.first = first, .n = n}, x);
}

graft_tensor *schedule_add(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  return plan_apply2(graph, "plan.add.v1", a, b);
}

graft_plan *schedule_plan(const graft_graph *graph, graft_device *const *devices, uint32_t n, uint32_t flags) {
  return plan_make_with(graph, (graft_plan_options){.devices = devices, .n_devices = n, .flags = flags});
}

void schedule_put(graft_plan *plan, uint32_t input, const float *values, size_t n) {
  assert_int_equal(graft_plan_write(plan, input, values, n * sizeof *values), GRAFT_OK);
}

void schedule_run(graft_plan *plan) {
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
}

void schedule_expect(graft_plan *plan, uint32_t output, const float *expected, size_t n) {
  float got[256];
  assert_true(n <= 256);
  assert_int_equal(graft_plan_read(plan, output, got, n * sizeof *got), GRAFT_OK);
  for (size_t i = 0; i < n; ++i) {
    if (got[i] != expected[i]) fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)expected[i]);
  }
}

graft_step_info schedule_step(const graft_plan *plan, const char *op) {
  graft_step_info info = {.struct_size = sizeof info};
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_plan_step(plan, i, &info);
    if (strcmp(info.op->name, op) == 0) return info;
  }
  fail_msg("the plan has no step %s", op);
  return info;
}

uint32_t schedule_count(const graft_plan *plan, const char *op) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    n += strcmp(info.op->name, op) == 0;
  }
  return n;
}
