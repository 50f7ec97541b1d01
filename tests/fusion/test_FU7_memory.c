// FU7: what was fused away takes no memory, also where a plan is only measured or never shares any; and where there is
// no memory for fusing, that is an error like any other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fail_alloc.h"
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

typedef struct sweep {
  const graft_graph *graph;
  graft_context *context;
  graft_device *device;
  graft_status status;
} sweep;

static void try_plan(void *user) {
  sweep *s = user;
  const graft_plan_options options = {.struct_size = sizeof options, .device = s->device};
  graft_plan *plan = NULL;
  s->status = graft_plan_create(s->graph, &options, &plan);
  graft_plan_destroy(plan);
}

static void check_plan(void *user, int64_t failed) {
  const sweep *s = user;
  assert_int_equal(s->status, failed == 0 ? GRAFT_OK : GRAFT_E_NO_MEMORY);
  if (failed != 0) assert_true(strlen(graft_context_error(s->context)->message) > 0);
}

// Small pieces come from larger blocks, and which of them asks for the next block differs with what came before.
static void FU7_every_failing_allocation_is_a_status(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  for (int n_groups = 1; n_groups <= 40; ++n_groups) {
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    graft_tensor *a = fusion_input(graph, "a"), *x = a;
    for (int i = 0; i < n_groups; ++i) x = fusion_apply2(graph, "fuse.add.v1", fusion_scale(graph, 3, x), a);
    graft_graph_output(graph, x, "y");
    sweep s = {.graph = graph, .context = context, .device = fusion_device(context)};
    fail_alloc_sweep(try_plan, check_plan, &s);
    graft_graph_destroy(graph);
  }
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(FU7_eliminated_values_take_no_memory),
                                     cmocka_unit_test(FU7_every_failing_allocation_is_a_status)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
