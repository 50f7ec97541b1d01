// FU5: who looks at single nodes, or runs several copies of a pipeline, finds every node.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

static void FU5_nodes_are_kept_on_request(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", fusion_scale(graph, 3, a), b), "y");
  const uint32_t keeping[] = {GRAFT_PLAN_KEEP_NODES, GRAFT_PLAN_REFERENCE};
  for (int i = 0; i < 2; ++i) {
    graft_plan *plan = fusion_plan(graph, fusion_device(context), keeping[i], "on");
    assert_int_equal(graft_plan_n_steps(plan), 2);
    assert_int_equal(fusion_n_groups(plan, "scale_add"), 0);
    graft_plan_destroy(plan);
  }
  graft_plan *plan = fusion_plan(graph, fusion_device(context), 0, "on");
  assert_int_equal(graft_plan_n_steps(plan), 1);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(FU5_nodes_are_kept_on_request)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
