// FU3: what an optimise callback may move, and what it may not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

// What the callback tries, and what came of it.
static struct {
  uint32_t first, n, after;
  bool is_moved;
  graft_reason why;
  uint32_t n_calls;
  graft_status status;
} attempt;

static graft_status move(graft_fusion_editor *editor, graft_error *error) {
  ++attempt.n_calls;
  if (attempt.status != GRAFT_OK) return GRAFT_FAIL(error, attempt.status, "on purpose");
  attempt.is_moved = graft_fusion_delay(editor, attempt.first, attempt.n, attempt.after, &attempt.why);
  return GRAFT_OK;
}

static bool propose_nothing(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)result, (void)proposal, (void)why;
  return false;
}

static const graft_fusion_def rule = {.struct_size = sizeof rule,
                                      .name = "mover",
                                      .op = "fuse.scale_sub.v1",
                                      .propose = propose_nothing,
                                      .optimise = move};
static const graft_extension mover = {.struct_size = sizeof mover,
                                      .abi_version = GRAFT_ABI_VERSION,
                                      .name = "fuse.mover",
                                      .vendor = "fuse",
                                      .fusions = &rule,
                                      .n_fusions = 1};

static graft_context *begin(graft_graph **out_graph) {
  const graft_extension *const extensions[] = {&fusion_extension, &mover};
  graft_context *context = fusion_context(extensions, 2);
  assert_int_equal(graft_graph_create(context, out_graph), GRAFT_OK);
  memset(&attempt, 0, sizeof attempt);
  return context;
}

static void end(graft_context *context, graft_graph *graph, graft_plan *plan) {
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static const char *op_of(const graft_plan *plan, uint32_t step) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, step, &info);
  return info.op->name;
}

// Steps: split, copy, sub, copy; the first two independent of the third. Unnamed rules stay off: only order counts.
static graft_plan *plan_moved(graft_graph *graph, graft_context *context) {
  return fusion_plan(graph, fusion_device(context), 0, "-split_first,-sub_sub,-liar,-scale_copy,-scale_add");
}

static void FU3_producers_are_delayed_past_independent_steps(void **state) {
  (void)state;
  graft_graph *graph;
  graft_context *context = begin(&graph);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_tensor *s = fusion_scale(graph, 2, a);
  graft_tensor *t = fusion_apply1(graph, "fuse.copy.v1", 0, s);
  graft_tensor *u = fusion_apply2(graph, "fuse.sub.v1", b, b);
  graft_tensor *v = fusion_apply1(graph, "fuse.copy.v1", 0, b);
  graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", t, fusion_apply2(graph, "fuse.add.v1", u, v)), "y");
  attempt.first = 0, attempt.n = 2, attempt.after = 3;
  graft_plan *plan = plan_moved(graph, context);
  assert_true(attempt.is_moved);
  const char *const wanted[] = {"fuse.sub.v1", "fuse.copy.v1", "fuse.scale.v1", "fuse.copy.v1", "fuse.add.v1"};
  for (uint32_t i = 0; i < 5; ++i) assert_string_equal(op_of(plan, i), wanted[i]);
  graft_plan_destroy(plan);
  end(context, graph, fusion_compare(graph, fusion_device(context), 0));
}

static void FU3_readers_are_not_crossed(void **state) {
  (void)state;
  graft_graph *graph;
  graft_context *context = begin(&graph);
  graft_tensor *a = fusion_input(graph, "a");
  graft_tensor *s = fusion_scale(graph, 2, a);
  graft_tensor *u = fusion_apply2(graph, "fuse.sub.v1", fusion_slice(graph, 0, FUSION_N, s), a);
  graft_graph_output(graph, u, "y");
  attempt.first = 0, attempt.n = 1, attempt.after = 1;
  graft_plan *plan = plan_moved(graph, context);
  assert_false(attempt.is_moved);
  assert_string_equal(op_of(plan, 0), "fuse.scale.v1");
  end(context, graph, plan);
}

static void FU3_unknown_effects_are_not_crossed(void **state) {
  (void)state;
  for (int i = 0; i < 4; ++i) {
    graft_graph *graph;
    graft_context *context = begin(&graph);
    graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
    const char *effect = i % 2 == 0 ? "fuse.opaque.v1" : "fuse.impure.v1";
    // The effect is what is crossed, or what moves.
    graft_tensor *first = i < 2 ? fusion_scale(graph, 2, a) : fusion_apply1(graph, effect, 1, a);
    graft_tensor *second = i < 2 ? fusion_apply1(graph, effect, 1, b) : fusion_scale(graph, 2, b);
    graft_graph_output(graph, first, "y");
    graft_graph_output(graph, second, "z");
    attempt.n = 1, attempt.after = 1;
    graft_plan *plan = plan_moved(graph, context);
    assert_false(attempt.is_moved);
    assert_non_null(strstr(attempt.why.text, "not pure"));
    end(context, graph, plan);
  }
}

static void FU3_aliasing_writes_are_not_crossed(void **state) {
  (void)state;
  graft_graph *graph;
  graft_context *context = begin(&graph);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_graph_output(graph, fusion_scale(graph, 2, a), "y");
  graft_graph_output(graph, fusion_copy_into(graph, b, a), "z");
  attempt.n = 1, attempt.after = 1;
  graft_plan *plan = plan_moved(graph, context);
  assert_false(attempt.is_moved);
  assert_non_null(strstr(attempt.why.text, "writes over"));
  graft_plan_destroy(plan);
  end(context, graph, fusion_compare(graph, fusion_device(context), 0));
}

static void FU3_writes_to_unrelated_storage_are_crossed(void **state) {
  (void)state;
  graft_graph *graph;
  graft_context *context = begin(&graph);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_graph_output(graph, fusion_scale(graph, 2, a), "y");
  graft_graph_output(graph, fusion_scale_into(graph, 3, b, b), "z");
  attempt.n = 1, attempt.after = 1;
  graft_plan *plan = plan_moved(graph, context);
  assert_true(attempt.is_moved);
  graft_plan_destroy(plan);
  end(context, graph, fusion_compare(graph, fusion_device(context), 0));
}

static void FU3_a_producer_takes_its_consumers_in_place_along(void **state) {
  (void)state;
  graft_graph *graph;
  graft_context *context = begin(&graph);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_tensor *s = fusion_scale(graph, 2, a);
  graft_tensor *t = fusion_scale_into(graph, 3, s, s);
  graft_tensor *u = fusion_apply2(graph, "fuse.sub.v1", b, b);
  graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", t, u), "y");
  attempt.n = 1, attempt.after = 2;
  graft_plan *plan = plan_moved(graph, context);
  assert_true(attempt.is_moved);
  const char *const wanted[] = {"fuse.sub.v1", "fuse.scale.v1", "fuse.scale.v1", "fuse.sub.v1"};
  for (uint32_t i = 0; i < 4; ++i) assert_string_equal(op_of(plan, i), wanted[i]);
  graft_plan_destroy(plan);
  end(context, graph, fusion_compare(graph, fusion_device(context), 0));
}

static void FU3_ranges_are_checked_and_failures_reported(void **state) {
  (void)state;
  const uint32_t ranges[][3] = {{0, 0, 1}, {5, 1, 5}, {0, 9, 9}, {1, 1, 0}, {0, 1, 7}, {UINT32_MAX, 2, 1}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; ++i) {
    graft_graph *graph;
    graft_context *context = begin(&graph);
    graft_tensor *a = fusion_input(graph, "a");
    graft_graph_output(graph, fusion_scale(graph, 2, a), "y");
    graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", a, a), "z");
    attempt.first = ranges[i][0], attempt.n = ranges[i][1], attempt.after = ranges[i][2];
    graft_plan *plan = plan_moved(graph, context);
    assert_false(attempt.is_moved);
    graft_plan_destroy(plan);
    attempt.status = GRAFT_E_UNSUPPORTED;
    const graft_plan_options options = {.struct_size = sizeof options, .device = fusion_device(context)};
    assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_E_UNSUPPORTED);
    assert_non_null(strstr(graft_context_error(context)->notes[0], "mover"));
    end(context, graph, NULL);
  }
}

static void FU3_what_was_moved_is_matched_afterwards(void **state) {
  (void)state;
  graft_graph *graph;
  graft_context *context = begin(&graph);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_tensor *s = fusion_scale(graph, 3, a);
  graft_tensor *u = fusion_apply2(graph, "fuse.sub.v1", b, b);
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", s, u), "y");
  attempt.n = 1, attempt.after = 1;
  graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
  assert_true(attempt.is_moved);
  assert_int_equal(fusion_n_groups(plan, "scale_add"), 1);
  end(context, graph, plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU3_producers_are_delayed_past_independent_steps),
      cmocka_unit_test(FU3_readers_are_not_crossed),
      cmocka_unit_test(FU3_unknown_effects_are_not_crossed),
      cmocka_unit_test(FU3_aliasing_writes_are_not_crossed),
      cmocka_unit_test(FU3_writes_to_unrelated_storage_are_crossed),
      cmocka_unit_test(FU3_a_producer_takes_its_consumers_in_place_along),
      cmocka_unit_test(FU3_ranges_are_checked_and_failures_reported),
      cmocka_unit_test(FU3_what_was_moved_is_matched_afterwards),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
