// Memory is known before it is taken, per device and stage; and a run keeps within a budget.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fail_alloc.h"
#include "schedule_support.h"

enum { ROWS = 32, COLUMNS = 64, N = ROWS * COLUMNS, N_LAYERS = 8 };

static float weights[N_LAYERS][N + 1];

// Eight layers, each with a weight that its kernel packs, and one that is read as it is.
static void build(schedule *s) {
  graft_tensor *y = plan_input(s->graph, "x", ROWS, COLUMNS);
  for (int i = 0; i < N_LAYERS; ++i) {
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    for (int j = 0; j < N; ++j) weights[i][j] = (float)((i * 37 + j * 11) % 101) / 8;
    graft_tensor *w = plan_constant(s->graph, name, ROWS, COLUMNS, weights[i]);
    y = plan_apply2(s->graph, "plan.packed.v1", y, w);
    if (i % 2 == 0) y = schedule_add(s->graph, y, w);
  }
  graft_graph_output(s->graph, y, "y");
}

static uint64_t allocated(const graft_device *device) {
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(device, &info);
  return info.allocated_bytes;
}

static void SC4_every_device_takes_what_its_report_says(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  graft_tensor *x = plan_input(s->graph, "x", ROWS, COLUMNS), *w = plan_constant(s->graph, "w", ROWS, COLUMNS, weights);
  graft_tensor *y = plan_apply1(s->graph, "plan.reference.v1", (plan_attrs){0}, plan_mix(s->graph, x, w, NULL));
  graft_graph_output(s->graph, plan_apply2(s->graph, "plan.packed.v1", y, w), "y");
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *measured = schedule_plan(s->graph, devices, 2, GRAFT_PLAN_MEASURE_ONLY);
  assert_int_equal(allocated(s->first) + allocated(s->second), 0);
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  size_t sum = 0;
  assert_int_equal(graft_plan_n_devices(plan), 2);
  for (uint32_t d = 0; d < 2; ++d) {
    graft_memory_report before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
    graft_plan_device_memory(measured, d, &before);
    graft_plan_device_memory(plan, d, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_ptr_equal(graft_plan_used_device(plan, d), devices[d]);
    assert_true(after.allocated_bytes > 0);
    assert_int_equal(after.allocated_bytes, allocated(devices[d]));
    sum += after.peak_bytes;
  }
  graft_memory_report all = {.struct_size = sizeof all};
  graft_plan_memory(plan, &all);
  assert_int_equal(all.peak_bytes, sum);
  graft_plan_destroy(measured);
  graft_plan_destroy(plan);
  schedule_close(s);
}

static void SC4_stages_add_up(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1");
  graft_tensor *x = plan_input(s->graph, "x", 4, 4);
  graft_tensor *y = plan_apply1(s->graph, "plan.reference.v1", (plan_attrs){0}, schedule_scale(s->graph, x, 1));
  graft_graph_output(s->graph, schedule_scale(s->graph, y, 1), "y");
  graft_device *const devices[] = {s->first, s->second};
  graft_plan *plan = schedule_plan(s->graph, devices, 2, 0);
  const char *const names[] = {"private:0", "private:1", "private:1"};
  assert_int_equal(graft_plan_n_stages(plan), 3);
  uint32_t next = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    graft_stage_info stage = {.struct_size = sizeof stage};
    graft_plan_stage(plan, i, &stage);
    assert_string_equal(stage.device, names[i]);
    assert_int_equal(stage.is_transfer, i % 2);
    assert_int_equal(stage.moved_bytes, i % 2 ? 64 : 0);
    assert_int_equal(stage.first_step, next);
    assert_in_range(stage.live_bytes, 64, 128);
    next += stage.n_steps;
  }
  assert_int_equal(next, graft_plan_n_steps(plan));
  graft_plan_destroy(plan);
  schedule_close(s);
}

static graft_memory_report report_of(const graft_plan *plan) {
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  return report;
}

static graft_status try_budget(schedule *s, graft_device *device, size_t budget, graft_plan **out_plan) {
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = device, .memory_budget = budget, .flags = 1u << 30};
  return graft_plan_create(s->graph, &options, out_plan);
}

static void run_both(graft_plan *whole, graft_plan *cut) {
  static float values[N], expected[N], got[N];
  for (int run = 0; run < 3; ++run) {
    for (int i = 0; i < N; ++i) values[i] = (float)((i * 7 + run) % 50);
    schedule_put(whole, 0, values, N);
    schedule_put(cut, 0, values, N);
    schedule_run(whole);
    fail_alloc_start(0, false);
    schedule_run(cut);
    assert_int_equal(fail_alloc_stop(), 0);
    assert_int_equal(graft_plan_read(whole, 0, expected, sizeof expected), GRAFT_OK);
    assert_int_equal(graft_plan_read(cut, 0, got, sizeof got), GRAFT_OK);
    assert_memory_equal(got, expected, sizeof got);
  }
}

// From a budget in which everything fits to the smallest in which single steps do, results are the same bytes.
static void check_budgets(const char *device_name) {
  schedule *s = schedule_open(2, NULL);
  graft_device *device = plan_mock_device(s->context, device_name);
  build(s);
  graft_plan *whole = plan_make(s->graph, device, 0), *cut = NULL;
  const size_t peak = report_of(whole).peak_bytes;
  uint32_t most_stages = 0;
  size_t smallest = 0;
  for (size_t budget = peak + 8 * 4096; budget > 0; budget -= budget / 8 + 1) {
    if (try_budget(s, device, budget, &cut) != GRAFT_OK) {
      const graft_error *error = graft_context_error(s->context);
      assert_int_equal(error->status, GRAFT_E_NO_MEMORY);
      assert_non_null(strstr(error->message, "the memory budget is"));
      break;
    }
    assert_true(report_of(cut).peak_bytes <= budget);
    const uint64_t shared = allocated(device);
    assert_true(report_of(cut).allocated_bytes <= shared);
    run_both(whole, cut);
    if (graft_plan_n_stages(cut) > most_stages) most_stages = graft_plan_n_stages(cut);
    smallest = budget;
    graft_plan_destroy(cut);
  }
  printf("%s: all at once %zu bytes, cut into %u stages %zu bytes\n", device_name, peak, (unsigned)most_stages,
         smallest);
  assert_true(most_stages >= N_LAYERS);
  assert_true(smallest < peak / 2);
  graft_plan_destroy(whole);
  schedule_close(s);
}

static void SC4_budget_on_the_host(void **state) {
  (void)state;
  check_budgets("cpu");
}

static void SC4_budget_on_private_memory(void **state) {
  (void)state;
  check_budgets("private");
}

static void SC4_budgeted_plan_takes_what_it_reports(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  build(s);
  graft_plan *plan = NULL;
  assert_int_equal(try_budget(s, s->first, 80000, &plan), GRAFT_OK);
  assert_int_equal(allocated(s->first), report_of(plan).allocated_bytes);
  assert_true(report_of(plan).peak_bytes <= 80000);
  graft_stage_info stage = {.struct_size = sizeof stage};
  size_t brought = 0;
  for (uint32_t i = 0; i < graft_plan_n_stages(plan); ++i) {
    graft_plan_stage(plan, i, &stage);
    assert_true(stage.live_bytes <= report_of(plan).arena_bytes);
    brought += stage.brought_bytes;
  }
  assert_true(brought >= (size_t)N_LAYERS * N * sizeof(float));
  graft_plan_destroy(plan);
  schedule_close(s);
}

typedef struct discards {
  int n;
} discards;

static void count_discard(void *user, const void *data, size_t bytes) {
  (void)data;
  (void)bytes;
  ++((discards *)user)->n;
}

// Weights that lie askew, in a file, go through staging; what a segment is done with is given back every run.
static void SC4_sources_are_given_back_after_their_segment(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  discards d = {0};
  graft_tensor *x = plan_input(s->graph, "x", ROWS, COLUMNS);
  graft_tensor_desc desc = *graft_tensor_describe(x);
  const graft_constant constant = {.struct_size = sizeof constant,
                                   .data = (const char *)weights[0] + 2,
                                   .bytes = N * sizeof(float),
                                   .discard = count_discard,
                                   .user = &d};
  graft_tensor *w = graft_graph_constant(s->graph, "w", &desc, &constant);
  graft_graph_output(s->graph, plan_apply2(s->graph, "plan.packed.v1", x, w), "y");
  graft_plan *whole = plan_make(s->graph, s->cpu, 0), *cut = NULL;
  assert_int_equal(try_budget(s, s->cpu, 64 * N, &cut), GRAFT_OK);
  d.n = 0;
  run_both(whole, cut);
  assert_int_equal(d.n, 3);
  graft_plan_destroy(whole);
  graft_plan_destroy(cut);
  schedule_close(s);
}

// ---- allocations that fail ----

typedef struct sweep {
  schedule *s;
  size_t budget;
  graft_status status;
} sweep;

static void try_plan(void *user) {
  sweep *w = user;
  graft_device *const devices[] = {w->s->first, w->s->second};
  const graft_plan_options options = {.struct_size = sizeof options,
                                      .devices = devices,
                                      .n_devices = 2,
                                      .memory_budget = w->budget,
                                      .n_input_copies = 2,
                                      .flags = 1u << 30};
  graft_plan *plan = NULL;
  w->status = graft_plan_create(w->s->graph, &options, &plan);
  graft_plan_destroy(plan);
}

static void check_sweep(void *user, int64_t failed) {
  sweep *w = user;
  assert_int_equal(w->status, failed == 0 ? GRAFT_OK : GRAFT_E_NO_MEMORY);
  assert_int_equal(allocated(w->s->first) + allocated(w->s->second), 0);
  assert_int_equal(plan_mock_n_states(), 0);
}

static void SC4_every_failing_allocation_is_a_status(void **state) {
  (void)state;
  for (int i = 0; i < 2; ++i) {
    schedule *s = schedule_open(1, "private:0 lacks=plan.reference.v1+plan.scale.v1; private:1 lacks=plan.add.v1");
    graft_tensor *x = plan_input(s->graph, "x", ROWS, COLUMNS),
                 *w = plan_constant(s->graph, "w", ROWS, COLUMNS, weights);
    graft_tensor *y =
        plan_apply1(s->graph, "plan.nested.v1", (plan_attrs){0}, plan_apply2(s->graph, "plan.packed.v1", x, w));
    y = plan_apply1(s->graph, "plan.reference.v1", (plan_attrs){0}, y);
    y = schedule_write(s->graph, "plan.add.v1", (plan_attrs){0}, y, w, y);
    graft_tensor *const parts[] = {y, schedule_scale(s->graph, y, 2)};
    graft_graph_output(s->graph, plan_join(s->graph, "plan.join.v1", parts, 2), "y");
    sweep attempt = {.s = s, .budget = i == 0 ? 0 : 1 << 20};
    int64_t n = fail_alloc_sweep(try_plan, check_sweep, &attempt);
    printf("%d allocations make a plan for two devices\n", (int)n);
    assert_in_range(n, 20, 10000);
    schedule_close(s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC4_every_device_takes_what_its_report_says),
      cmocka_unit_test(SC4_stages_add_up),
      cmocka_unit_test(SC4_budget_on_the_host),
      cmocka_unit_test(SC4_budget_on_private_memory),
      cmocka_unit_test(SC4_budgeted_plan_takes_what_it_reports),
      cmocka_unit_test(SC4_sources_are_given_back_after_their_segment),
      cmocka_unit_test(SC4_every_failing_allocation_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
