// Plans for a device with less memory than they need: what does not fit runs on the next one, and results are the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_support.h"

enum { ROWS = 128, COLUMNS = 128, N = ROWS * COLUMNS, BYTES = N * 4, N_LAYERS = 8 };

static float weights[N_LAYERS][N], values[N], expected[N], got[N];

// Every second layer packs its weights.
static void build(schedule *s) {
  graft_tensor *x = plan_input(s->graph, "x", ROWS, COLUMNS);
  for (int i = 0; i < N_LAYERS; ++i) {
    for (int k = 0; k < N; ++k) weights[i][k] = (float)((k * 3 + i) % 41);
    graft_tensor *w = plan_constant(s->graph, "w", ROWS, COLUMNS, weights[i]);
    x = plan_apply2(s->graph, i % 2 == 0 ? "plan.add.v1" : "plan.packed.v1", schedule_scale(s->graph, x, 0.5), w);
  }
  graft_graph_output(s->graph, x, "y");
}

static void run(graft_plan *plan, float *out) {
  schedule_put(plan, 0, values, N);
  schedule_run(plan);
  assert_int_equal(graft_plan_read(plan, 0, out, BYTES), GRAFT_OK);
}

// Steps on the first device; those behind the last of them are all on the host.
static uint32_t count_first(const graft_plan *plan) {
  uint32_t n = 0, n_switches = 0;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info step = {.struct_size = sizeof step};
    graft_plan_step(plan, i, &step);
    const bool is_first = strcmp(step.device, "private:0") == 0;
    if (strcmp(step.kernel->name, "transfer") == 0) ++n_switches;
    n += is_first;
  }
  assert_true(n_switches <= 1);
  return n;
}

static uint32_t check_with(size_t memory) {
  char words[64];
  snprintf(words, sizeof words, "private:0 memory=%zu", memory);
  schedule *s = schedule_open(2, words);
  build(s);
  graft_device *const devices[] = {s->first, s->cpu};
  graft_plan *whole = plan_make(s->graph, s->cpu, 0), *split = schedule_plan(s->graph, devices, 2, 0);
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_device_memory(split, 0, &report);
  assert_true(report.allocated_bytes <= memory);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < N; ++i) values[i] = (float)((i + round) % 17);
    run(whole, expected);
    run(split, got);
    assert_memory_equal(got, expected, sizeof got);
  }
  const uint32_t n = count_first(split);
  graft_plan_destroy(whole);
  graft_plan_destroy(split);
  schedule_close(s);
  return n;
}

static void SC1_what_does_not_fit_runs_elsewhere(void **state) {
  (void)state;
  uint32_t most = 0;
  for (size_t memory = BYTES / 2; memory <= 14 * BYTES; memory += BYTES / 2) {
    const uint32_t n = check_with(memory);
    printf("%zu KiB: %u of %d steps\n", memory >> 10, (unsigned)n, 2 * N_LAYERS);
    assert_true(n + 1 >= most);
    if (n > most) most = n;
  }
  assert_int_equal(most, 2 * N_LAYERS);
}

static void SC1_pins_are_kept_where_it_is_full(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:0 memory=300000");
  graft_tensor *x = plan_input(s->graph, "x", ROWS, COLUMNS), *pinned = NULL;
  for (int i = 0; i < N_LAYERS; ++i) {
    x = schedule_add(s->graph, x, plan_constant(s->graph, "w", ROWS, COLUMNS, weights[i]));
    if (i == N_LAYERS - 1) pinned = x;
  }
  graft_graph_output(s->graph, x, "y");
  graft_device *const devices[] = {s->first, s->cpu};
  const graft_pin pin = {.struct_size = sizeof pin, .tensor = pinned, .device = s->first};
  graft_plan *plan = plan_make_with(
      s->graph,
      (graft_plan_options){
          .struct_size = sizeof(graft_plan_options), .devices = devices, .n_devices = 2, .pins = &pin, .n_pins = 1});
  graft_step_info last = {.struct_size = sizeof last};
  graft_plan_step(plan, graft_plan_n_steps(plan) - 1, &last);
  assert_string_equal(last.placement, "pinned to private:0");
  graft_plan_destroy(plan);
  schedule_close(s);
}

// The join takes a few rows of what is large, so that memory for all that is joined is wanted early.
static void build_join_of_rows(schedule *s) {
  graft_tensor *x = plan_input(s->graph, "x", 4, 16), *large = plan_input(s->graph, "large", 64, 16);
  graft_tensor *rows = schedule_slice(s->graph, schedule_scale(s->graph, large, 2), 0, 4);
  rows = plan_apply1(s->graph, "plan.copy.v1", (plan_attrs){0}, rows);
  graft_graph_output(s->graph, plan_join(s->graph, "plan.join.v1", (graft_tensor *[]){x, rows}, 2), "y");
}

static size_t run_join_of_rows(const schedule *s, graft_device *device, uint32_t flags, float *out) {
  graft_plan *plan = plan_make(s->graph, device, flags);
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  schedule_put(plan, 0, values, 4 * 16);
  schedule_put(plan, 1, values, 64 * 16);
  schedule_run(plan);
  assert_int_equal(graft_plan_read(plan, 0, out, 8 * 16 * sizeof *out), GRAFT_OK);
  graft_plan_destroy(plan);
  return report.allocated_bytes;
}

static void SC1_what_does_not_fit_with_parts_is_made_without(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  for (int i = 0; i < N; ++i) values[i] = (float)(i % 17);
  build_join_of_rows(s);
  const size_t with = run_join_of_rows(s, s->first, 0, got);
  const size_t without = run_join_of_rows(s, s->first, GRAFT_PLAN_KEEP_NODES, expected);
  assert_true(with > without);
  schedule_close(s);
  char words[64];
  snprintf(words, sizeof words, "private:0 memory=%zu", without);
  s = schedule_open(1, words);
  build_join_of_rows(s);
  assert_int_equal(run_join_of_rows(s, s->first, 0, got), without);
  assert_memory_equal(got, expected, 8 * 16 * sizeof *got);
  schedule_close(s);
}

static void SC1_memory_must_be_a_number(void **state) {
  (void)state;
  const char *const wrong[] = {"private:0 memory=", "private:0 memory=0", "private:0 memory=9x", "private:0 memory=-1"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    const graft_context_options options = {
        .struct_size = sizeof options, .devices = wrong[i], .without_builtins = true, .ignore_environment = true};
    graft_context *context = NULL;
    graft_device *device = NULL;
    assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
    assert_int_equal(graft_context_register(context, &graft_extension_private_backend), GRAFT_OK);
    assert_int_equal(graft_device_open(context, "private:0", &device), GRAFT_E_INVALID);
    assert_non_null(strstr(graft_context_error(context)->message, "memory=BYTES"));
    graft_context_destroy(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC1_what_does_not_fit_runs_elsewhere),
      cmocka_unit_test(SC1_pins_are_kept_where_it_is_full),
      cmocka_unit_test(SC1_what_does_not_fit_with_parts_is_made_without),
      cmocka_unit_test(SC1_memory_must_be_a_number),
  };
  return cmocka_run_group_tests_name("SC1_split", tests, NULL, NULL);
}
