// What a step joins is made in its place where that is right and takes no more memory. That it never changes a result
// is for test_plan_random and test_SC1_random.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan_mock.h"

enum { COLUMNS = 16 };  // a row is as long as the alignment of results

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
  graft_tensor *x;  // an input of four rows
} fixture;

static int set_up(void **state) {
  static fixture f;
  f.context = plan_mock_context(1);
  f.device = plan_mock_device(f.context, "cpu");
  assert_int_equal(graft_graph_create(f.context, &f.graph), GRAFT_OK);
  f.x = plan_input(f.graph, "x", 4, COLUMNS);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_graph_destroy(f->graph);
  graft_context_destroy(f->context);
  return 0;
}

static graft_tensor *scaled(const fixture *f, graft_tensor *x, double factor) {
  return plan_apply1(f->graph, "plan.scale.v1", (plan_attrs){.factor = factor}, x);
}

static graft_tensor *joined(const fixture *f, graft_tensor *a, graft_tensor *b) {
  return plan_join(f->graph, "plan.join.v1", (graft_tensor *[]){a, b}, 2);
}

// The inputs that were placed, by step that joins, in order.
static void expect_placed(const fixture *f, uint32_t flags, const uint32_t *wanted, uint32_t n) {
  graft_plan *plan = plan_make(f->graph, f->device, flags);
  uint32_t n_found = 0;
  for (uint32_t s = 0; s < graft_plan_n_steps(plan); ++s) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, s, &info);
    if (info.op->part == NULL) assert_int_equal(info.placed_inputs, 0);
    if (info.op->part == NULL) continue;
    assert_true(n_found < n);
    assert_int_equal(info.placed_inputs, wanted[n_found++]);
    assert_false(info.is_in_place);
  }
  assert_int_equal(n_found, n);
  graft_plan_destroy(plan);
}

static void DO5_results_are_made_where_they_are_joined(void **state) {
  const fixture *f = *state;
  graft_graph_output(f->graph, joined(f, scaled(f, f->x, 2), scaled(f, f->x, 3)), "y");
  expect_placed(f, 0, (const uint32_t[]){3}, 1);
  const uint32_t apart[] = {GRAFT_PLAN_KEEP_NODES, GRAFT_PLAN_NO_IN_PLACE, GRAFT_PLAN_NO_REUSE};
  for (int i = 0; i < 3; ++i) expect_placed(f, apart[i], (const uint32_t[]){0}, 1);
}

static void DO5_inputs_constants_and_parts_of_values_are_copied(void **state) {
  const fixture *f = *state;
  static const float ones[4 * COLUMNS] = {1};
  graft_tensor *constant = plan_constant(f->graph, "w", 4, COLUMNS, ones);
  graft_tensor *half = plan_apply1(f->graph, "plan.slice.v1", (plan_attrs){.first = 1, .n = 2}, scaled(f, f->x, 2));
  graft_tensor *const parts[] = {f->x, constant, half, scaled(f, f->x, 3)};
  graft_graph_output(f->graph, plan_join(f->graph, "plan.join.v1", parts, 4), "y");
  expect_placed(f, 0, (const uint32_t[]){8}, 1);
}

static void DO5_a_value_has_one_place(void **state) {
  const fixture *f = *state;
  graft_tensor *a = scaled(f, f->x, 2);
  graft_graph_output(f->graph, joined(f, a, a), "twice");
  graft_graph_output(f->graph, joined(f, scaled(f, f->x, 3), a), "again");
  expect_placed(f, 0, (const uint32_t[]){0, 3}, 2);
}

static void DO5_joins_of_joins_are_one_value(void **state) {
  const fixture *f = *state;
  graft_tensor *inner = joined(f, scaled(f, f->x, 2), scaled(f, f->x, 3));
  graft_graph_output(f->graph, joined(f, scaled(f, f->x, 4), inner), "y");
  expect_placed(f, 0, (const uint32_t[]){3, 3}, 2);
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  graft_plan_memory(plan, &report);
  assert_int_equal(report.arena_bytes, (4 + 12) * COLUMNS * sizeof(float));  // the input and the outermost
  graft_plan_destroy(plan);
}

static void DO5_parts_begin_where_results_may(void **state) {
  const fixture *f = *state;
  graft_tensor *narrow = plan_input(f->graph, "narrow", 1, 3);
  graft_graph_output(f->graph, joined(f, scaled(f, narrow, 2), scaled(f, narrow, 3)), "y");
  expect_placed(f, 0, (const uint32_t[]){1}, 1);
}

// A small early part of a large whole, as where a network's end joins what its beginning made.
static void DO5_no_more_memory_is_needed(void **state) {
  const fixture *f = *state;
  graft_tensor *early = scaled(f, f->x, 2), *wide = joined(f, scaled(f, f->x, 3), scaled(f, f->x, 4));
  for (int i = 0; i < 2; ++i) wide = joined(f, wide, scaled(f, wide, 5));
  graft_tensor *sum = scaled(f, plan_apply1(f->graph, "plan.copy.v1", (plan_attrs){0}, wide), 6);
  graft_graph_output(f->graph, joined(f, early, plan_apply1(f->graph, "plan.copy.v1", (plan_attrs){0}, sum)), "y");
  graft_memory_report with = {.struct_size = sizeof with}, without = with;
  graft_plan *plan = plan_make(f->graph, f->device, 0), *apart = plan_make(f->graph, f->device, GRAFT_PLAN_KEEP_NODES);
  graft_plan_memory(plan, &with);
  graft_plan_memory(apart, &without);
  graft_step_info last = {.struct_size = sizeof last};
  graft_plan_step(plan, graft_plan_n_steps(plan) - 1, &last);
  assert_int_equal(last.placed_inputs, 2);
  assert_true(with.arena_bytes <= without.arena_bytes);
  graft_plan_destroy(plan);
  graft_plan_destroy(apart);
}

// What is alive when the part is made leaves no room for more than the part.
static void DO5_budgets_are_met_without_parts(void **state) {
  const fixture *f = *state;
  graft_tensor *large = scaled(f, plan_input(f->graph, "large", 64, COLUMNS), 2);
  graft_tensor *rows = plan_apply1(f->graph, "plan.slice.v1", (plan_attrs){.n = 4}, large);
  graft_graph_output(f->graph, joined(f, f->x, plan_apply1(f->graph, "plan.copy.v1", (plan_attrs){0}, rows)), "y");
  graft_memory_report with = {.struct_size = sizeof with}, without = with;
  expect_placed(f, 0, (const uint32_t[]){2}, 1);
  graft_plan *plan = plan_make(f->graph, f->device, 0), *apart = plan_make(f->graph, f->device, GRAFT_PLAN_KEEP_NODES);
  graft_plan_memory(plan, &with);
  graft_plan_memory(apart, &without);
  assert_true(with.arena_bytes > without.arena_bytes);
  graft_plan_destroy(plan);
  graft_plan_destroy(apart);
  plan = plan_make_with(f->graph, (graft_plan_options){.device = f->device, .memory_budget = without.arena_bytes});
  graft_plan_memory(plan, &with);
  assert_int_equal(with.arena_bytes, without.arena_bytes);
  graft_plan_destroy(plan);
}

static void write_over(const fixture *f, graft_tensor *target) {
  graft_tensor *out[GRAFT_MAX_OUTPUTS];
  const plan_attrs attrs = {.factor = 7};
  const graft_application application = {.struct_size = sizeof application,
                                         .op = "plan.scale.v1",
                                         .attrs = &attrs,
                                         .attrs_bytes = sizeof attrs,
                                         .inputs = &f->x,
                                         .n_inputs = 1,
                                         .into = target};
  graft_graph_apply_into(f->graph, &application, out);
}

static void DO5_what_is_written_over_is_no_part(void **state) {
  const fixture *f = *state;
  graft_tensor *a = scaled(f, f->x, 2), *b = scaled(f, f->x, 3), *y = joined(f, a, b);
  graft_tensor *upper = plan_apply1(f->graph, "plan.slice.v1", (plan_attrs){.first = 0, .n = 4}, y);
  graft_tensor *c = scaled(f, f->x, 4), *z = joined(f, c, scaled(f, f->x, 5));
  write_over(f, a);      // which the join has read before
  write_over(f, upper);  // where nobody reads b any more
  write_over(f, z = plan_apply1(f->graph, "plan.slice.v1", (plan_attrs){.first = 4, .n = 4}, z));
  graft_graph_output(f->graph, a, "a");
  graft_graph_output(f->graph, y, "y");
  graft_graph_output(f->graph, z, "z");
  graft_graph_output(f->graph, c, "c");  // which is read after that
  expect_placed(f, 0, (const uint32_t[]){2, 2}, 2);
}

typedef struct text {
  char bytes[4096];
  size_t n;
} text;

static graft_status append(void *user, const char *bytes, size_t n) {
  text *t = user;
  if (n >= sizeof t->bytes - t->n) return GRAFT_E_IO;
  memcpy(t->bytes + t->n, bytes, n);
  t->n += n;
  return GRAFT_OK;
}

static void KS6_plans_say_what_needs_no_copy(void **state) {
  const fixture *f = *state;
  graft_graph_output(f->graph, joined(f, scaled(f, f->x, 2), scaled(f, f->x, 3)), "all");
  graft_graph_output(f->graph, joined(f, f->x, scaled(f, f->x, 3)), "some");
  graft_plan *plan = plan_make(f->graph, f->device, 0);
  text t = {.n = 0};
  assert_int_equal(graft_plan_print(plan, (graft_writer){append, &t}), GRAFT_OK);
  assert_non_null(strstr(t.bytes, ", all inputs made in their places: nothing to do\n"));
  assert_non_null(strstr(t.bytes, ", 1 of 2 inputs made in their places\n"));
  graft_plan_destroy(plan);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(DO5_results_are_made_where_they_are_joined),
      TEST(DO5_inputs_constants_and_parts_of_values_are_copied),
      TEST(DO5_a_value_has_one_place),
      TEST(DO5_joins_of_joins_are_one_value),
      TEST(DO5_parts_begin_where_results_may),
      TEST(DO5_no_more_memory_is_needed),
      TEST(DO5_budgets_are_met_without_parts),
      TEST(DO5_what_is_written_over_is_no_part),
      TEST(KS6_plans_say_what_needs_no_copy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
