// Several copies of inputs: the next run's values are written while one runs; and what that costs is known.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "schedule_support.h"

enum { N = 64, N_RUNS = 60 };

static graft_plan *make(schedule *s, graft_device *device, uint32_t n_copies) {
  graft_tensor *x = plan_input(s->graph, "x", 16, 4);
  graft_graph_output(s->graph, schedule_scale(s->graph, schedule_scale(s->graph, x, 2), 2), "y");
  return plan_make_with(s->graph, (graft_plan_options){.device = device, .n_input_copies = n_copies});
}

static void put(graft_plan *plan, float value) {
  float values[N];
  for (int i = 0; i < N; ++i) values[i] = value + (float)i;
  schedule_put(plan, 0, values, N);
}

static void expect(graft_plan *plan, float value) {
  float expected[N];
  for (int i = 0; i < N; ++i) expected[i] = 4 * (value + (float)i) + 3;
  schedule_expect(plan, 0, expected, N);
}

static void FU5_values_wait_in_turn(void **state) {
  (void)state;
  for (int d = 0; d < 2; ++d) {
    schedule *s = schedule_open(1, NULL);
    graft_plan *plan = make(s, d == 0 ? s->cpu : s->first, 3);
    put(plan, 1);
    put(plan, 2);
    float values[N] = {0};
    assert_int_equal(graft_plan_write(plan, 0, values, sizeof values), GRAFT_E_BUSY);
    schedule_run(plan);
    expect(plan, 1);
    put(plan, 3);
    schedule_run(plan);
    expect(plan, 2);
    schedule_run(plan);
    expect(plan, 3);
    schedule_run(plan);  // nothing new: the input keeps its value
    expect(plan, 3);
    graft_plan_destroy(plan);
    schedule_close(s);
  }
}

typedef struct feeder {
  graft_plan *plan;
  bool is_good;
} feeder;

static void *feed(void *user) {
  feeder *f = user;
  f->is_good = true;
  for (int run = 0; run < N_RUNS && f->is_good; ++run) {
    float values[N];
    for (int i = 0; i < N; ++i) values[i] = (float)(run + i);
    graft_status status;
    while ((status = graft_plan_write(f->plan, 0, values, sizeof values)) == GRAFT_E_BUSY) {
      nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    f->is_good = status == GRAFT_OK;
  }
  return NULL;
}

// Another thread writes all the time; every run sees one whole value, in order.
static void FU5_inputs_are_written_while_the_plan_runs(void **state) {
  (void)state;
  for (int d = 0; d < 2; ++d) {
    schedule *s = schedule_open(2, NULL);
    feeder f = {.plan = make(s, d == 0 ? s->cpu : s->first, 4)};
    pthread_t thread;
    float last = -1;
    put(f.plan, 0);
    schedule_run(f.plan);
    assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
    while (last < N_RUNS - 1) {
      float got[N];
      schedule_run(f.plan);
      assert_int_equal(graft_plan_read(f.plan, 0, got, sizeof got), GRAFT_OK);
      float value = (got[0] - 3) / 4;
      assert_true(value >= last && value <= last + 1 + (last < 0));
      for (int i = 0; i < N; ++i) assert_true(got[i] == 4 * (value + (float)i) + 3);
      last = value;
    }
    pthread_join(thread, NULL);
    assert_true(f.is_good);
    graft_plan_destroy(f.plan);
    schedule_close(s);
  }
}

static void SC4_copies_are_in_the_report(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_plan *one = make(s, s->first, 0);
  graft_memory_report a = {.struct_size = sizeof a}, b = {.struct_size = sizeof b};
  graft_plan_memory(one, &a);
  graft_plan *three = plan_make_with(s->graph, (graft_plan_options){.device = s->first, .n_input_copies = 3});
  graft_plan_memory(three, &b);
  assert_int_equal(b.arena_bytes, a.arena_bytes + 2 * N * sizeof(float));
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(s->first, &info);
  assert_int_equal(info.allocated_bytes, a.allocated_bytes + b.allocated_bytes);
  graft_plan *plan = NULL;
  const graft_plan_options wrong = {.struct_size = sizeof wrong, .device = s->first, .n_input_copies = 9};
  assert_int_equal(graft_plan_create(s->graph, &wrong, &plan), GRAFT_E_INVALID);
  graft_plan_destroy(one);
  graft_plan_destroy(three);
  schedule_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU5_values_wait_in_turn),
      cmocka_unit_test(FU5_inputs_are_written_while_the_plan_runs),
      cmocka_unit_test(SC4_copies_are_in_the_report),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
