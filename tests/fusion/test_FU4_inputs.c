// FU4: what a group reads stays until its last node; a backend's own rules take no nodes that another rule wants.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

static void FU4_inputs_stay_until_the_last_node(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  // x ends with the scaling, where no fusion is; the steps behind it would be glad of its memory.
  graft_tensor *x = fusion_apply2(graph, "fuse.sub.v1", a, b);
  graft_tensor *s = fusion_scale(graph, 3, x);
  graft_tensor *u = fusion_apply2(graph, "fuse.sub.v1", b, a);
  for (int i = 0; i < 4; ++i) u = fusion_apply2(graph, "fuse.sub.v1", u, b);
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", s, u), "y");
  graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
  assert_int_equal(fusion_n_groups(plan, "scale_add"), 1);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void FU4_native_rules_take_no_nodes_of_others(void **state) {
  (void)state;
  for (int with_others = 0; with_others < 2; ++with_others) {
    const graft_extension *const extensions[] = {&fusion_extension, &fusion_rival};
    graft_context *context = fusion_context(extensions, 2);
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
    // The rival wants all three nodes, the application's scale_copy the first two.
    graft_tensor *c = fusion_apply1(graph, "fuse.copy.v1", 0, fusion_scale(graph, 3, a));
    graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", c, b), "y");
    graft_plan *plan = fusion_plan(graph, fusion_device(context), 0, with_others ? "on" : "-scale_copy");
    assert_int_equal(fusion_n_groups(plan, "scale_copy"), with_others);
    assert_int_equal(fusion_n_groups(plan, "rival"), !with_others);
    graft_plan_destroy(plan);
    graft_plan_destroy(fusion_compare(graph, fusion_device(context), 0));
    graft_graph_destroy(graph);
    graft_context_destroy(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU4_inputs_stay_until_the_last_node),
      cmocka_unit_test(FU4_native_rules_take_no_nodes_of_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
