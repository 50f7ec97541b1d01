// Where nodes run and why; copies between devices; the caller's graph stays as it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_support.h"

typedef struct printed {
  char text[16384];
  size_t n;
} printed;

static graft_status collect(void *user, const char *text, size_t size) {
  printed *p = user;
  assert_true(p->n + size < sizeof p->text);
  memcpy(p->text + p->n, text, size);
  p->n += size;
  p->text[p->n] = '\0';
  return GRAFT_OK;
}

static const float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static graft_tensor *build(schedule *s) {
  graft_tensor *x = plan_input(s->graph, "x", 4, 2), *w = plan_constant(s->graph, "w", 4, 2, weights);
  graft_tensor *a = plan_apply2(s->graph, "plan.packed.v1", x, w);
  graft_tensor *b = plan_apply1(s->graph, "plan.reference.v1", (plan_attrs){0}, a);
  graft_tensor *c = schedule_add(s->graph, b, w);
  graft_graph_output(s->graph, schedule_add(s->graph, c, a), "y");
  return b;
}

static void SC1_missing_operators_run_elsewhere(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  (void)build(s);
  static printed before, after;
  before.n = after.n = 0;
  assert_int_equal(graft_graph_print(s->graph, (graft_writer){collect, &before}), GRAFT_OK);
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  assert_int_equal(graft_graph_print(s->graph, (graft_writer){collect, &after}), GRAFT_OK);
  assert_string_equal(before.text, after.text);
  assert_string_equal(schedule_step(plan, "plan.reference.v1").device, "private:1");
  assert_string_equal(schedule_step(plan, "plan.reference.v1").placement, "can run only on private:1");
  assert_string_equal(schedule_step(plan, "plan.packed.v1").device, "private:0");
  // One copy there, one back; the constant comes from the host to where it is needed.
  assert_int_equal(schedule_count(plan, "transfer"), 2);
  after.n = 0;
  assert_int_equal(graft_plan_print(plan, (graft_writer){collect, &after}), GRAFT_OK);
  assert_non_null(strstr(after.text, "private:0, private:1, 6 steps"));
  assert_non_null(strstr(after.text, "reference#1  private:1: can run only on private:1"));
  schedule_put(plan, 0, weights, 8);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){9, 18, 27, 36, 45, 54, 63, 72}, 8);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC1_pins_are_kept_or_refused(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:1 lacks=plan.add.v1");
  graft_tensor *b = build(s);
  graft_device *const devices[] = {s->first, s->second};
  graft_pin pin = {sizeof pin, b, s->second};
  graft_plan_options options = {
      .struct_size = sizeof options, .devices = devices, .n_devices = 2, .pins = &pin, .n_pins = 1};
  graft_plan *plan = plan_make_with(s->graph, options);
  assert_string_equal(schedule_step(plan, "plan.reference.v1").device, "private:1");
  assert_non_null(strstr(schedule_step(plan, "plan.reference.v1").placement, "pinned"));
  graft_plan_destroy(plan);
  pin.device = s->cpu;
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_E_INVALID);
  pin = (graft_pin){sizeof pin, graft_graph_output_at(s->graph, 0, NULL), s->second};
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(graft_context_error(s->context)->message, "pinned to private:1, which cannot run"));
  schedule_close(s);
}

static void SC1_wrong_device_lists_are_refused(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  (void)build(s);
  graft_device *const twice[] = {s->first, s->first}, *const one[] = {s->first};
  graft_plan *plan = NULL;
  graft_plan_options options = {.struct_size = sizeof options, .devices = twice, .n_devices = 2};
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_E_INVALID);
  options = (graft_plan_options){.struct_size = sizeof options, .devices = one, .n_devices = 1, .device = s->cpu};
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_E_INVALID);
  options.n_devices = 99;
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_E_INVALID);
  schedule_close(s);
}

static void SC1_nobody_can_run_it(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1; private:1 lacks=plan.reference.v1");
  (void)build(s);
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = NULL;
  graft_plan_options options = {.struct_size = sizeof options, .devices = devices, .n_devices = 2};
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_E_UNSUPPORTED);
  const graft_error *error = graft_context_error(s->context);
  assert_non_null(strstr(error->message, "none of the plan's 2 devices can run plan.reference.v1"));
  assert_non_null(strstr(error->notes[1], "private:1: reference__cpu: private:1 was told to lack it"));
  schedule_close(s);
}

// A decomposition keeps its node on the device that is preferred, although another one has a kernel for the whole.
static void SC1_decompositions_come_before_other_devices(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.packed.v1; private:1 lacks=plan.scale.v1");
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *y = plan_apply1(s->graph, "plan.nested.v1", (plan_attrs){.factor = 2}, x);
  // Neither device can run all parts of this one: they are placed one by one.
  graft_tensor *z = plan_apply1(s->graph, "plan.twice.v1", (plan_attrs){0}, schedule_scale(s->graph, y, 1));
  graft_graph_output(s->graph, plan_apply2(s->graph, "plan.packed.v1", z, x), "y");
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  assert_string_equal(schedule_step(plan, "plan.scale.v1").device, "private:0");
  assert_string_equal(schedule_step(plan, "plan.add.v1").device, "private:0");
  assert_string_equal(schedule_step(plan, "plan.packed.v1").device, "private:1");
  schedule_put(plan, 0, (const float[]){1, 2}, 2);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){2 * (2 * 3 + 1) + 1, 2 * (2 * 5 + 1) + 2}, 2);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC1_parts_go_to_different_devices(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.scale.v1; private:1 lacks=plan.add.v1");
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *h = schedule_add(s->graph, x, x);
  graft_tensor *y = schedule_write(s->graph, "plan.nested.v1", (plan_attrs){.factor = 2}, h, NULL, h);
  graft_graph_output(s->graph, schedule_add(s->graph, y, h), "y");
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  assert_string_equal(schedule_step(plan, "plan.scale.v1").device, "private:1");
  schedule_put(plan, 0, (const float[]){1, 2}, 2);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){20, 36}, 2);
  graft_plan_destroy(plan);
  schedule_close(s);
}

// One device, however it is given, plans as it always did.
static void SC2_one_device_is_planned_as_without_devices(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  (void)build(s);
  graft_device *const devices[] = {s->cpu};
  graft_plan *plain = plan_make(s->graph, s->cpu, 0), *listed = schedule_plan(s->graph, devices, 1, 0);
  static printed a, b;
  a.n = b.n = 0;
  assert_int_equal(graft_plan_print(plain, (graft_writer){collect, &a}), GRAFT_OK);
  assert_int_equal(graft_plan_print(listed, (graft_writer){collect, &b}), GRAFT_OK);
  assert_string_equal(a.text, b.text);
  assert_int_equal(schedule_count(plain, "transfer"), 0);
  graft_plan_destroy(plain);
  graft_plan_destroy(listed);
  schedule_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC1_missing_operators_run_elsewhere),
      cmocka_unit_test(SC1_pins_are_kept_or_refused),
      cmocka_unit_test(SC1_wrong_device_lists_are_refused),
      cmocka_unit_test(SC1_nobody_can_run_it),
      cmocka_unit_test(SC1_decompositions_come_before_other_devices),
      cmocka_unit_test(SC1_parts_go_to_different_devices),
      cmocka_unit_test(SC2_one_device_is_planned_as_without_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
