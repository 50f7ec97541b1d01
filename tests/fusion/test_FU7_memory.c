// FU7: what was fused away takes no memory, also where a plan is only measured or never shares any.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

static void FU7_eliminated_values_take_no_memory(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", fusion_scale(graph, 3, a), b), "y");
  const uint32_t flags[] = {GRAFT_PLAN_NO_REUSE, GRAFT_PLAN_NO_IN_PLACE, GRAFT_PLAN_MEASURE_ONLY | GRAFT_PLAN_NO_REUSE};
  const size_t value = FUSION_N * sizeof(float);
  for (int i = 0; i < 3; ++i) {
    graft_memory_report with = {.struct_size = sizeof with}, without = {.struct_size = sizeof without};
    graft_plan *fused = fusion_plan(graph, fusion_device(context), flags[i], "on");
    graft_plan *plain = fusion_plan(graph, fusion_device(context), flags[i], "off");
    graft_plan_memory(fused, &with);
    graft_plan_memory(plain, &without);
    assert_int_equal(without.naive_bytes - with.naive_bytes, value);
    assert_int_equal(without.arena_bytes - with.arena_bytes, value);
    graft_plan_destroy(fused);
    graft_plan_destroy(plain);
  }
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(FU7_eliminated_values_take_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
