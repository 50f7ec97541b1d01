// Cancelled plans of several devices can be run again; what a run reports is numbered as the plan is; contexts do not
// disturb each other.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "schedule_support.h"

static bool is_set(void *user) {
  return atomic_load((atomic_bool *)user);
}

static void *cancel_soon(void *user) {
  while (plan_mock_n_slow_items() == 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  atomic_store((atomic_bool *)user, true);
  return NULL;
}

// scale on private:0 → slow on private:1 → scale on private:0, with copies between.
static graft_plan *build(schedule *s) {
  graft_tensor *x = plan_input(s->graph, "x", 16, 4);
  graft_tensor *y = schedule_scale(s->graph, x, 1);
  graft_tensor *z = plan_apply1(s->graph, "plan.slow.v1", (plan_attrs){.factor = 1}, y);
  graft_graph_output(s->graph, schedule_add(s->graph, schedule_scale(s->graph, z, 1), y), "y");
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = (float)i;
  schedule_put(plan, 0, values, 64);
  return plan;
}

static void SC7_cancelled_on_the_second_device_and_run_again(void **state) {
  (void)state;
  schedule *s = schedule_open(2, "private:0 lacks=plan.slow.v1");
  graft_plan *plan = build(s);
  for (int round = 0; round < 3; ++round) {
    atomic_bool is_cancelled = false;
    uint32_t step = 99;
    pthread_t thread;
    plan_mock_reset();
    const graft_run_control control = {
        .struct_size = sizeof control, .abort = is_set, .abort_user = &is_cancelled, .out_step = &step};
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &is_cancelled), 0);
    assert_int_equal(graft_plan_run(plan, &control), GRAFT_E_CANCELLED);
    pthread_join(thread, NULL);
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, step, &info);
    assert_string_equal(info.op->name, "plan.slow.v1");
    plan_mock_release();
    schedule_run(plan);
    float expected[64];
    for (int i = 0; i < 64; ++i) expected[i] = (float)i + 3 + (float)i + 1;
    schedule_expect(plan, 0, expected, 64);
  }
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void cancel_behind_the_first(void *user, uint32_t step, bool is_end) {
  if (step == 0 && is_end) atomic_store((atomic_bool *)user, true);
}

static void SC7_cancelled_before_a_transfer(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.slow.v1");
  graft_plan *plan = build(s);
  atomic_bool is_cancelled = false;
  uint32_t step = 99;
  const graft_run_control control = {.struct_size = sizeof control,
                                     .abort = is_set,
                                     .abort_user = &is_cancelled,
                                     .on_step = cancel_behind_the_first,
                                     .on_step_user = &is_cancelled,
                                     .out_step = &step};
  assert_int_equal(graft_plan_run(plan, &control), GRAFT_E_CANCELLED);
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, step, &info);
  assert_string_equal(info.op->name, "transfer");
  plan_mock_release();
  schedule_run(plan);
  graft_plan_destroy(plan);
  schedule_close(s);
}

typedef struct observed {
  uint32_t n_begun, n_ended;
  bool is_in_order;
} observed;

static void observe(void *user, uint32_t step, bool is_end) {
  observed *o = user;
  o->is_in_order = o->is_in_order && step == o->n_ended && step + 1 >= o->n_begun;
  ++*(is_end ? &o->n_ended : &o->n_begun);
}

static void FU5_steps_of_several_devices_are_observed_in_order(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.slow.v1");
  graft_plan *plan = build(s);
  plan_mock_release();
  observed o = {.is_in_order = true};
  assert_int_equal(
      graft_plan_run(
          plan, &(graft_run_control){.struct_size = sizeof(graft_run_control), .on_step = observe, .on_step_user = &o}),
      GRAFT_OK);
  assert_true(o.is_in_order);
  assert_int_equal(o.n_begun, graft_plan_n_steps(plan));
  assert_int_equal(o.n_ended, graft_plan_n_steps(plan));
  graft_plan_destroy(plan);
  schedule_close(s);
}

// ---- two contexts at once; checks of cmocka belong to the main thread ----

typedef struct worker {
  schedule *s;
  int kind;
  bool is_good;
} worker;

static bool run_often(schedule *s) {
  graft_device *const devices[] = {s->first, s->second};
  const graft_plan_options options = {.struct_size = sizeof options, .devices = devices, .n_devices = 2};
  graft_plan *plan = NULL;
  float values[64] = {1}, got[64];
  bool is_good = graft_plan_create(s->graph, &options, &plan) == GRAFT_OK;
  is_good = is_good && graft_plan_write(plan, 0, values, sizeof values) == GRAFT_OK;
  for (int i = 0; is_good && i < 20; ++i) {
    is_good = graft_plan_run(plan, NULL) == GRAFT_OK && graft_plan_read(plan, 0, got, sizeof got) == GRAFT_OK &&
              got[0] == 6 && got[1] == 4;
  }
  graft_plan_destroy(plan);
  return is_good;
}

static bool register_often(schedule *s) {
  static const graft_extension more = {
      .struct_size = sizeof more, .abi_version = GRAFT_ABI_VERSION, .name = "more", .vendor = "more"};
  bool is_good = true;
  graft_graph_destroy(s->graph);
  for (int i = 0; i < 20 && is_good; ++i) {
    is_good = graft_context_register(s->context, &more) == GRAFT_OK;
    is_good = is_good && graft_context_unregister(s->context, &more) == GRAFT_OK;
  }
  return graft_graph_create(s->context, &s->graph) == GRAFT_OK && is_good;
}

static void *work(void *argument) {
  worker *w = argument;
  w->is_good = true;
  for (int i = 0; i < 5 && w->is_good; ++i) w->is_good = w->kind == 0 ? run_often(w->s) : register_often(w->s);
  return NULL;
}

static void SC3_contexts_plan_run_and_register_in_parallel(void **state) {
  (void)state;
  worker workers[3];
  pthread_t threads[3];
  plan_mock_reset();
  for (int i = 0; i < 3; ++i) {
    workers[i] = (worker){.s = schedule_open(2, "private:0 lacks=plan.slow.v1"), .kind = i == 2};
    if (workers[i].kind == 0) graft_plan_destroy(build(workers[i].s));
  }
  plan_mock_release();
  for (int i = 0; i < 3; ++i) assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  for (int i = 0; i < 3; ++i) {
    pthread_join(threads[i], NULL);
    assert_true(workers[i].is_good);
    schedule_close(workers[i].s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC7_cancelled_on_the_second_device_and_run_again),
      cmocka_unit_test(SC7_cancelled_before_a_transfer),
      cmocka_unit_test(FU5_steps_of_several_devices_are_observed_in_order),
      cmocka_unit_test(SC3_contexts_plan_run_and_register_in_parallel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
