// Nodes that write over existing storage: in place, into slices, into states that outlive a run.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_support.h"

static int set_up(void **state) {
  *state = schedule_open(2, NULL);
  return 0;
}

static int tear_down(void **state) {
  schedule_close(*state);
  return 0;
}

static graft_tensor *over(schedule *s, graft_tensor *x, double factor, graft_tensor *into) {
  return schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = factor}, x, NULL, into);
}

static void SC1_in_place_nodes_share_storage_and_later_readers_see_it(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *h = schedule_scale(s->graph, x, 1);        // x + 1
  graft_tensor *before = schedule_scale(s->graph, h, 10);  // reads h before it is written over
  graft_tensor *w = over(s, h, 2, h);                      // 2·h + 1, where h was
  graft_tensor *after = schedule_scale(s->graph, h, 10);   // the old name shows the new bytes
  graft_graph_output(s->graph, schedule_add(s->graph, before, after), "sum");
  graft_graph_output(s->graph, w, "w");
  graft_error error;
  assert_int_equal(graft_graph_verify(s->graph, &error), GRAFT_OK);
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  schedule_put(plan, 0, (const float[]){1, 2}, 2);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){21 + 51, 31 + 71}, 2);
  schedule_expect(plan, 1, (const float[]){5, 7}, 2);
  graft_plan_destroy(plan);
}

static void SC1_persistent_inputs_keep_what_was_written(void **state) {
  schedule *s = *state;
  graft_tensor *cache = plan_input(s->graph, "cache", 4, 1), *x = plan_input(s->graph, "x", 1, 1);
  (void)schedule_write(s->graph, "plan.copy.v1", (plan_attrs){0}, x, NULL, schedule_slice(s->graph, cache, 2, 1));
  (void)over(s, schedule_slice(s->graph, cache, 0, 2), 2, schedule_slice(s->graph, cache, 0, 2));
  graft_graph_output(s->graph, cache, "cache");
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  schedule_put(plan, 0, (const float[]){1, 2, 3, 4}, 4);
  schedule_put(plan, 1, (const float[]){30}, 1);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){3, 5, 30, 4}, 4);
  schedule_put(plan, 1, (const float[]){40}, 1);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){7, 11, 40, 4}, 4);
  graft_plan_destroy(plan);
}

// The destination does not lie as kernels are promised results: it is computed apart and copied over exactly its range.
static void SC1_strided_and_misaligned_destinations_are_written_exactly(void **state) {
  schedule *s = *state;
  graft_tensor *table = plan_input(s->graph, "table", 2, 3), *x = plan_input(s->graph, "x", 3, 2);
  graft_tensor *turned = plan_apply1(s->graph, "plan.transpose.v1", (plan_attrs){0}, table);
  (void)over(s, schedule_slice(s->graph, x, 1, 2), 1, schedule_slice(s->graph, turned, 1, 2));
  graft_graph_output(s->graph, table, "table");
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  schedule_put(plan, 0, (const float[]){0, 0, 0, 0, 0, 0}, 6);
  schedule_put(plan, 1, (const float[]){1, 2, 3, 4, 5, 6}, 6);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){0, 4, 6, 0, 5, 7}, 6);
  assert_int_equal(schedule_count(plan, "transfer"), 1);
  graft_plan_destroy(plan);
}

// Source and destination overlap by half: every element is computed from what was there before.
static void SC1_overlapping_inputs_are_read_before_they_are_written(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 48, 1);
  graft_tensor *h = schedule_scale(s->graph, x, 1);
  (void)over(s, schedule_slice(s->graph, h, 0, 32), 1, schedule_slice(s->graph, h, 16, 32));
  graft_graph_output(s->graph, h, "h");
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  float values[48], expected[48];
  for (int i = 0; i < 48; ++i) values[i] = (float)i;
  for (int i = 0; i < 48; ++i) expected[i] = i < 16 ? values[i] + 1 : values[i - 16] + 2;
  schedule_put(plan, 0, values, 48);
  schedule_run(plan);
  schedule_expect(plan, 0, expected, 48);
  graft_plan_destroy(plan);
}

static void SC1_a_decomposed_node_writes_where_it_is_told(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *h = schedule_scale(s->graph, x, 1);
  graft_tensor *w = schedule_write(s->graph, "plan.nested.v1", (plan_attrs){.factor = 3}, h, NULL, h);
  graft_graph_output(s->graph, schedule_add(s->graph, w, h), "y");
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  schedule_put(plan, 0, (const float[]){0, 1}, 2);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){16, 28}, 2);
  graft_plan_destroy(plan);
}

static void SC1_writes_that_nobody_sees_are_dropped(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *seen = schedule_scale(s->graph, x, 1), *unseen = schedule_scale(s->graph, x, 2);
  (void)over(s, seen, 1, seen);
  (void)over(s, unseen, 1, unseen);
  graft_graph_output(s->graph, seen, "seen");
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  assert_int_equal(graft_plan_n_steps(plan), 2);
  assert_true(schedule_step(plan, "plan.scale.v1").op != NULL);
  graft_plan_destroy(plan);
}

static void expect_refusal(schedule *s, graft_status status, const char *text) {
  assert_int_equal(graft_graph_status(s->graph), status);
  if (strstr(graft_graph_error(s->graph)->message, text) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", graft_graph_error(s->graph)->message, text);
  }
  graft_graph_destroy(s->graph);
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
}

static void SC10_wrong_destinations_are_refused(void **state) {
  schedule *s = *state;
  static const float ones[2] = {1, 1};
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  (void)over(s, x, 1, plan_constant(s->graph, "w", 2, 1, ones));
  expect_refusal(s, GRAFT_E_INVALID, "cannot be written over");
  x = plan_input(s->graph, "x", 2, 1);
  (void)over(s, x, 1, plan_input(s->graph, "y", 1, 2));
  expect_refusal(s, GRAFT_E_SHAPE, "the destination y is f32[1, 2]");
  x = plan_input(s->graph, "x", 2, 1);
  (void)schedule_write(s->graph, "plan.slice.v1", (plan_attrs){.n = 2}, x, NULL, x);
  expect_refusal(s, GRAFT_E_INVALID, "is a view");
  x = plan_input(s->graph, "x", 2, 1);
  (void)over(s, x, 1, graft_graph_none());
  expect_refusal(s, GRAFT_E_INVALID, "left out");
}

typedef struct printed {
  char text[2048];
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

static void SC1_printing_shows_destinations_and_order(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *y = schedule_scale(s->graph, x, 1);
  (void)over(s, y, 2, x);
  graft_graph_output(s->graph, schedule_add(s->graph, x, y), "z");
  static printed p;
  p.n = 0;
  assert_int_equal(graft_graph_print(s->graph, (graft_writer){collect, &p}), GRAFT_OK);
  assert_non_null(strstr(p.text, "%2 f32[2, 1] = plan.scale.v1(%1) -> %0 {factor=2"));
  assert_non_null(strstr(p.text, "%3 f32[2, 1] = plan.add.v1(%0, %1) {factor=0, first=0, n=0} after %2"));
  p.n = 0;
  assert_int_equal(graft_graph_print_dot(s->graph, (graft_writer){collect, &p}), GRAFT_OK);
  assert_non_null(strstr(p.text, "node1 -> node2 [style=dashed]"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(SC1_in_place_nodes_share_storage_and_later_readers_see_it),
      TEST(SC1_persistent_inputs_keep_what_was_written),
      TEST(SC1_strided_and_misaligned_destinations_are_written_exactly),
      TEST(SC1_overlapping_inputs_are_read_before_they_are_written),
      TEST(SC1_a_decomposed_node_writes_where_it_is_told),
      TEST(SC1_writes_that_nobody_sees_are_dropped),
      TEST(SC10_wrong_destinations_are_refused),
      TEST(SC1_printing_shows_destinations_and_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
