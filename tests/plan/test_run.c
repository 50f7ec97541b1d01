// Running: cancelling, failing, observing, several threads; and nothing allocated meanwhile.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fail_alloc.h"
#include "plan_mock.h"

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->context = plan_mock_context(2);
  f->device = plan_mock_device(f->context, "cpu");
  assert_int_equal(graft_graph_create(f->context, &f->graph), GRAFT_OK);
  plan_mock_reset();
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_graph_destroy(f->graph);
  graft_context_destroy(f->context);
  free(f);
  return 0;
}

static graft_tensor *busy_graph(graft_graph *graph) {
  graft_tensor *x = plan_input(graph, "x", 16, 4), *y = x, *halves[2];
  for (int i = 0; i < 5; ++i) {
    y = plan_mix(graph, plan_apply1(graph, "plan.scale.v1", (plan_attrs){.factor = 0.5}, y), x, NULL);
    y = plan_apply1(graph, "plan.reference.v1", (plan_attrs){0}, y);
  }
  plan_split(graph, y, halves);
  return plan_apply2(graph, "plan.add.v1", halves[0], halves[1]);
}

static void write_ramp(graft_plan *plan) {
  float values[64];
  for (int i = 0; i < 64; ++i) values[i] = (float)i / 16;
  assert_int_equal(graft_plan_write(plan, 0, values, sizeof values), GRAFT_OK);
}

static void SC3_no_allocation_while_running(void **state) {
  fixture *f = *state;
  graft_graph_output(f->graph, busy_graph(f->graph), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  fail_alloc_start(0, false);
  for (int run = 0; run < 3; ++run) {
    float result[32];
    write_ramp(plan);
    assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
    assert_int_equal(graft_plan_read(plan, 0, result, sizeof result), GRAFT_OK);
  }
  assert_int_equal(fail_alloc_stop(), 0);
  graft_plan_destroy(plan);
}

typedef struct bytes_of_run {
  float values[32];
} bytes_of_run;

static bytes_of_run run_with_threads(int32_t n_threads) {
  graft_context *context = plan_mock_context(n_threads);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_graph_output(graph, busy_graph(graph), "y");
  graft_plan *plan = plan_make(graph, plan_mock_device(context, "cpu"), 0);
  bytes_of_run result;
  write_ramp(plan);
  for (int run = 0; run < 20; ++run) assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, result.values, sizeof result.values), GRAFT_OK);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
  return result;
}

static void any_number_of_threads_gives_the_same_bytes(void **state) {
  (void)state;
  bytes_of_run one = run_with_threads(1), two = run_with_threads(2), five = run_with_threads(5);
  assert_memory_equal(&one, &two, sizeof one);
  assert_memory_equal(&one, &five, sizeof one);
}

// ---- cancelling ----

static bool is_set(void *user) {
  return atomic_load((atomic_bool *)user);
}

static void *cancel_soon(void *user) {
  while (plan_mock_n_slow_items() == 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  atomic_store((atomic_bool *)user, true);
  return NULL;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void SC7_cancelled_from_another_thread_and_run_again(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 16, 4);
  graft_tensor *y = plan_apply1(f->graph, "plan.scale.v1", (plan_attrs){.factor = 1}, x);
  y = plan_apply1(f->graph, "plan.slow.v1", (plan_attrs){.factor = 1}, y);
  graft_graph_output(f->graph, plan_apply1(f->graph, "plan.scale.v1", (plan_attrs){.factor = 1}, y), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  write_ramp(plan);
  atomic_bool is_cancelled = false;
  uint32_t step = 99;
  const graft_run_control control = {
      .struct_size = sizeof control, .abort = is_set, .abort_user = &is_cancelled, .out_step = &step};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &is_cancelled), 0);
  double begin = seconds();
  assert_int_equal(graft_plan_run(plan, &control), GRAFT_E_CANCELLED);
  assert_true(seconds() - begin < 1.5);  // an item alone takes 2 s
  pthread_join(thread, NULL);
  assert_int_equal(step, 1);
  float got[64];
  assert_int_equal(graft_plan_read(plan, 0, got, sizeof got), GRAFT_E_INVALID);
  plan_mock_release();
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, got, sizeof got), GRAFT_OK);
  for (int i = 0; i < 64; ++i) assert_true(got[i] == (float)i / 16 + 3);
  graft_plan_destroy(plan);
}

static void SC7_cancelled_before_the_first_step(void **state) {
  fixture *f = *state;
  (void)plan_apply1(f->graph, "plan.opaque.v1", (plan_attrs){0}, plan_input(f->graph, "x", 16, 4));
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  write_ramp(plan);
  atomic_bool is_cancelled = true;
  assert_int_equal(graft_plan_run(plan, &(graft_run_control){.struct_size = sizeof(graft_run_control),
                                                             .abort = is_set,
                                                             .abort_user = &is_cancelled}),
                   GRAFT_E_CANCELLED);
  assert_int_equal(plan_mock_n_opaque_runs(), 0);
  is_cancelled = false;
  assert_int_equal(graft_plan_run(plan, &(graft_run_control){.struct_size = sizeof(graft_run_control),
                                                             .abort = is_set,
                                                             .abort_user = &is_cancelled}),
                   GRAFT_OK);
  assert_int_equal(plan_mock_n_opaque_runs(), 1);
  graft_plan_destroy(plan);
}

// ---- failing ----

static void a_kernel_that_fails_says_where(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 16, 4);
  graft_tensor *y = plan_apply1(f->graph, "plan.check.v1", (plan_attrs){0}, x);
  graft_graph_output(f->graph, plan_apply1(f->graph, "plan.opaque.v1", (plan_attrs){0}, y), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  float values[64] = {0};
  values[4 * 9] = -1;
  assert_int_equal(graft_plan_write(plan, 0, values, sizeof values), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_E_INVALID);
  const graft_error *error = graft_context_error(f->context);
  assert_string_equal(error->message, "row 9 is negative");
  assert_string_equal(error->op, "plan.check.v1");
  assert_string_equal(error->kernel, "check_f32__mock");
  assert_non_null(strstr(error->notes[0], "step 0"));
  assert_int_equal(plan_mock_n_opaque_runs(), 0);
  write_ramp(plan);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  graft_plan_destroy(plan);
}

static void a_reference_that_fails_says_why(void **state) {
  fixture *f = *state;
  graft_tensor *x = plan_input(f->graph, "x", 1, 1);
  graft_graph_output(f->graph, plan_apply1(f->graph, "plan.reference.v1", (plan_attrs){0}, x), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  const uint32_t nan = 0x7fc00000;
  assert_int_equal(graft_plan_write(plan, 0, &nan, 4), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_E_INVALID);
  assert_string_equal(graft_context_error(f->context)->message, "plan.reference.v1: element is not a number");
  graft_plan_destroy(plan);
}

// ---- observing ----

typedef struct observed {
  graft_plan *plan;
  uint32_t n_begun, n_ended;
  graft_status nested;
} observed;

static void observe(void *user, uint32_t step, bool is_end) {
  observed *o = user;
  assert_int_equal(step, o->n_ended);
  ++*(is_end ? &o->n_ended : &o->n_begun);
  if (o->plan != NULL) o->nested = graft_plan_run(o->plan, NULL);
}

static void FU5_steps_are_observed_in_order(void **state) {
  fixture *f = *state;
  graft_graph_output(f->graph, busy_graph(f->graph), "y");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  write_ramp(plan);
  observed o = {0};
  assert_int_equal(
      graft_plan_run(
          plan, &(graft_run_control){.struct_size = sizeof(graft_run_control), .on_step = observe, .on_step_user = &o}),
      GRAFT_OK);
  assert_int_equal(o.n_begun, graft_plan_n_steps(plan));
  assert_int_equal(o.n_ended, graft_plan_n_steps(plan));
  o = (observed){.plan = plan};
  assert_int_equal(
      graft_plan_run(
          plan, &(graft_run_control){.struct_size = sizeof(graft_run_control), .on_step = observe, .on_step_user = &o}),
      GRAFT_OK);
  assert_int_equal(o.nested, GRAFT_E_BUSY);  // instead of waiting for itself for ever
  graft_plan_destroy(plan);
}

// ---- two plans, two threads, one device ----

static void *run_many(void *user) {
  graft_plan *plan = user;
  float first[32], again[32];
  for (int i = 0; i < 200; ++i) {
    if (graft_plan_run(plan, NULL) != GRAFT_OK) return plan;
    if (graft_plan_read(plan, 0, again, sizeof again) != GRAFT_OK) return plan;
    if (i == 0) memcpy(first, again, sizeof first);
    if (memcmp(first, again, sizeof first) != 0) return plan;
  }
  return NULL;
}

static void run_two(fixture *f, void *(*thread_main)(void *plan)) {
  graft_plan *plans[2];
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    plans[i] = plan_make(f->graph, f->device, 0);
    write_ramp(plans[i]);
  }
  for (int i = 0; i < 2; ++i) assert_int_equal(pthread_create(&threads[i], NULL, thread_main, plans[i]), 0);
  for (int i = 0; i < 2; ++i) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
    graft_plan_destroy(plans[i]);
  }
}

static void SC3_plans_of_one_device_take_turns(void **state) {
  fixture *f = *state;
  graft_graph_output(f->graph, busy_graph(f->graph), "y");
  run_two(f, run_many);
}

static void *run_cancelled(void *user) {
  static atomic_bool is_cancelled = true;
  const graft_run_control control = {.struct_size = sizeof control, .abort = is_set, .abort_user = &is_cancelled};
  for (int i = 0; i < 100; ++i) {
    if (graft_plan_run(user, &control) != GRAFT_E_CANCELLED) return user;
  }
  return NULL;
}

static void SC7_two_plans_cancelled_at_once(void **state) {
  fixture *f = *state;
  graft_graph_output(f->graph, busy_graph(f->graph), "y");
  run_two(f, run_cancelled);
  assert_string_equal(graft_context_error(f->context)->message, "the run was cancelled");
}

// ---- allocations that fail ----

typedef struct sweep {
  const graft_graph *graph;
  graft_context *context;
  graft_device *device;
  graft_status status;
} sweep;

static void try_plan(void *user) {
  sweep *s = user;
  const graft_plan_options options = {.struct_size = sizeof options, .device = s->device, .flags = 1u << 30};
  graft_plan *plan = NULL;
  s->status = graft_plan_create(s->graph, &options, &plan);
  graft_plan_destroy(plan);
}

static void check_plan(void *user, int64_t failed) {
  sweep *s = user;
  assert_int_equal(s->status, failed == 0 ? GRAFT_OK : GRAFT_E_NO_MEMORY);
  if (failed != 0) assert_true(strlen(graft_context_error(s->context)->message) > 0);
  assert_int_equal(plan_mock_n_states(), 0);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(s->device, &info);
  assert_int_equal(info.allocated_bytes, 0);
}

static void every_failing_allocation_is_a_status(void **state) {
  fixture *f = *state;
  static const float weights[64] = {1};
  graft_tensor *x = plan_input(f->graph, "x", 16, 4);
  graft_tensor *w = plan_constant(f->graph, "w", 16, 4, weights),
               *odd = plan_constant(f->graph, "odd", 8, 4, (const char *)weights + 1);
  graft_tensor *y = plan_apply2(f->graph, "plan.packed.v1", x, w), *halves[2];
  y = plan_apply1(f->graph, "plan.nested.v1", (plan_attrs){.factor = 2}, plan_mix(f->graph, y, x, NULL));
  plan_split(f->graph, plan_apply1(f->graph, "plan.reference.v1", (plan_attrs){0}, y), halves);
  graft_graph_output(f->graph, plan_apply2(f->graph, "plan.packed.v1", halves[1], odd), "y");
  sweep s = {.graph = f->graph, .context = f->context, .device = f->device};
  int64_t n = fail_alloc_sweep(try_plan, check_plan, &s);
  printf("%d allocations make a plan\n", (int)n);
  assert_in_range(n, 10, 10000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(SC3_no_allocation_while_running),
      TEST(any_number_of_threads_gives_the_same_bytes),
      TEST(SC7_cancelled_from_another_thread_and_run_again),
      TEST(SC7_cancelled_before_the_first_step),
      TEST(a_kernel_that_fails_says_where),
      TEST(a_reference_that_fails_says_why),
      TEST(FU5_steps_are_observed_in_order),
      TEST(SC3_plans_of_one_device_take_turns),
      TEST(SC7_two_plans_cancelled_at_once),
      TEST(every_failing_allocation_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
