// Storage is written on the device that owns it. The bug class: an operator that a device lacks falls back to another
// one, and the in-place node behind it is still sent to the first, which is given a foreign pointer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_support.h"

enum { N = 64 };

// x → scale → reference (missing on private:0) → in-place scale over its result → sum with what came before.
static void build(schedule *s) {
  graft_tensor *x = plan_input(s->graph, "x", 16, 4);
  graft_tensor *a = schedule_scale(s->graph, x, 0.5);
  graft_tensor *b = plan_apply1(s->graph, "plan.reference.v1", (plan_attrs){0}, a);
  graft_tensor *c = schedule_write(s->graph, "plan.add.v1", (plan_attrs){0}, b, a, b);
  graft_graph_output(s->graph, schedule_add(s->graph, c, a), "y");
}

static void fill(float *values, uint32_t seed) {
  for (uint32_t i = 0; i < N; ++i) values[i] = (float)((i * 2654435761u + seed * 40503u) >> 8 & 0xffff) / 64 - 500;
}

static void compare(schedule *s, graft_plan *plan, int n_runs) {
  graft_plan *plain = plan_make(s->graph, s->cpu, 0);
  float values[N], expected[N];
  for (int run = 0; run < n_runs; ++run) {
    fill(values, (uint32_t)run);
    schedule_put(plain, 0, values, N);
    schedule_put(plan, 0, values, N);
    schedule_run(plain);
    schedule_run(plan);
    assert_int_equal(graft_plan_read(plain, 0, expected, sizeof expected), GRAFT_OK);
    schedule_expect(plan, 0, expected, N);
  }
  graft_plan_destroy(plain);
}

static void expect_device(const graft_plan *plan, uint32_t step, const char *op, const char *device) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, step, &info);
  assert_string_equal(info.op->name, op);
  assert_string_equal(info.device, device);
}

static void SC2_in_place_node_runs_where_its_memory_is(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  build(s);
  graft_device *const lists[2][2] = {{s->first, s->second}, {s->first, s->cpu}};
  for (int i = 0; i < 2; ++i) {
    graft_plan *plan = schedule_plan(s->graph, lists[i], 2, 0);
    const char *owner = graft_device_name(lists[i][1]);
    expect_device(plan, 0, "plan.scale.v1", "private:0");
    expect_device(plan, 1, "transfer", owner);
    expect_device(plan, 2, "plan.reference.v1", owner);
    expect_device(plan, 3, "plan.add.v1", owner);  // without the rule: private:0, beside the first node
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, 3, &info);
    assert_true(info.is_in_place);
    assert_non_null(strstr(info.placement, "writes over"));
    compare(s, plan, 10);
    graft_plan_destroy(plan);
  }
  schedule_close(s);
}

static void SC2_thousand_runs_of_thousand_are_equal(void **state) {
  (void)state;
  schedule *s = schedule_open(2, "private:0 lacks=plan.reference.v1");
  build(s);
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  compare(s, plan, 1000);
  graft_plan_destroy(plan);
  schedule_close(s);
}

// The owner cannot run the node either: copied in, run elsewhere, and copied back over the exact range.
static void SC2_owner_that_lacks_the_node_gets_it_back(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1; private:1 lacks=plan.add.v1");
  build(s);
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  graft_step_info info = schedule_step(plan, "plan.add.v1");
  assert_string_equal(info.device, "private:0");
  assert_non_null(strstr(info.placement, "copied back"));
  compare(s, plan, 10);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC2_parts_of_a_state_are_written_back_exactly(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:1 lacks=plan.scale.v1");
  graft_tensor *cache = plan_input(s->graph, "cache", 4, 2);
  graft_tensor *part =
      schedule_slice(s->graph, plan_apply1(s->graph, "plan.transpose.v1", (plan_attrs){0}, cache), 1, 1);
  (void)schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = 2}, part, NULL, part);
  graft_graph_output(s->graph, cache, "cache");
  graft_device *const devices[] = {s->first, s->second};
  const graft_pin pin = {sizeof pin, cache, s->second};
  graft_plan *plan =
      plan_make_with(s->graph, (graft_plan_options){.devices = devices, .n_devices = 2, .pins = &pin, .n_pins = 1});
  assert_string_equal(schedule_step(plan, "plan.scale.v1").device, "private:0");
  schedule_put(plan, 0, (const float[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
  schedule_run(plan);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){1, 11, 3, 19, 5, 27, 7, 35}, 8);
  graft_plan_destroy(plan);
  schedule_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC2_in_place_node_runs_where_its_memory_is),
      cmocka_unit_test(SC2_thousand_runs_of_thousand_are_equal),
      cmocka_unit_test(SC2_owner_that_lacks_the_node_gets_it_back),
      cmocka_unit_test(SC2_parts_of_a_state_are_written_back_exactly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
