// FU5: who looks at single nodes, or runs several copies of a pipeline, finds every node.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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

typedef struct observed {
  char text[256];
  uint32_t n_ended;
} observed;

static void note(void *user, uint32_t step, const graft_step_info *info, bool is_end) {
  observed *o = user;
  assert_int_equal(step, o->n_ended);
  o->n_ended += is_end;
  const size_t n = strlen(o->text);
  if (!is_end) snprintf(o->text + n, sizeof o->text - n, "%s %s %s;", info->op->name, info->label, info->device);
}

// An observer hears operator, node and device: of a plan, and of an execution whose plan it never sees.
static void FU5_observers_are_told_the_node(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a");
  graft_graph_scope_push(graph, "block");
  graft_tensor *y = fusion_scale(graph, 2, fusion_scale(graph, 3, a));
  graft_graph_scope_pop(graph);
  graft_graph_output(graph, y, "y");
  static const char want[] = "fuse.scale.v1 block.scale#0 cpu:0;fuse.scale.v1 block.scale#1 cpu:0;";
  observed o = {.n_ended = 0};
  const graft_run_control control = {.struct_size = sizeof control, .on_node = note, .on_step_user = &o};
  static float values[4096];
  const size_t bytes = (size_t)graft_tensor_desc_elements(graft_tensor_describe(a)) * sizeof *values;
  assert_true(bytes <= sizeof values);
  graft_plan *plan = fusion_plan(graph, fusion_device(context), GRAFT_PLAN_KEEP_NODES, "on");
  assert_int_equal(graft_plan_write(plan, 0, values, bytes), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, &control), GRAFT_OK);
  assert_string_equal(o.text, want);
  graft_plan_destroy(plan);
  o = (observed){.n_ended = 0};
  const graft_binding bindings[] = {{.struct_size = sizeof bindings[0], .tensor = a, .data = values, .bytes = bytes},
                                    {.struct_size = sizeof bindings[0], .tensor = y, .data = values, .bytes = bytes}};
  const graft_execution execution = {.struct_size = sizeof execution,
                                     .flags = GRAFT_PLAN_KEEP_NODES,
                                     .device = fusion_device(context),
                                     .bindings = bindings,
                                     .n_bindings = 2,
                                     .control = &control};
  assert_int_equal(graft_graph_execute(graph, &execution), GRAFT_OK);
  assert_string_equal(o.text, want);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(FU5_nodes_are_kept_on_request),
                                     cmocka_unit_test(FU5_observers_are_told_the_node)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
