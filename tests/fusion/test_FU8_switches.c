// FU8: switches of single rules by interface and environment, counters, and the report.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

// Two groups of scale_add and one of scale_sub.
static graft_graph *build(graft_context *context) {
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_tensor *x = fusion_apply2(graph, "fuse.add.v1", fusion_scale(graph, 3, a), b);
  x = fusion_apply2(graph, "fuse.add.v1", b, fusion_scale(graph, 4, x));
  graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", fusion_scale(graph, 2, x), a), "y");
  return graph;
}

static graft_context *open_context(const char *fusion, bool ignore_environment) {
  const graft_context_options options = {.struct_size = sizeof options,
                                         .n_threads = 1,
                                         .without_builtins = true,
                                         .ignore_environment = ignore_environment,
                                         .fusion = fusion};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &graft_extension_cpu_backend), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &fusion_extension), GRAFT_OK);
  return context;
}

static void check_counts(const graft_graph *graph, graft_context *context, const char *fusion, uint32_t n_add,
                         uint32_t n_sub) {
  graft_plan *plan = fusion_plan(graph, fusion_device(context), 0, fusion);
  assert_int_equal(fusion_n_groups(plan, "scale_add"), n_add);
  assert_int_equal(fusion_n_groups(plan, "scale_sub"), n_sub);
  assert_int_equal(graft_plan_n_steps(plan), 6 - n_add - n_sub);
  graft_plan_destroy(plan);
}

static void FU8_rules_are_switched_by_plan(void **state) {
  (void)state;
  graft_context *context = open_context(NULL, true);
  graft_graph *graph = build(context);
  check_counts(graph, context, NULL, 2, 1);
  check_counts(graph, context, "on", 2, 1);
  check_counts(graph, context, "off", 0, 0);
  check_counts(graph, context, "-scale_add", 0, 1);
  check_counts(graph, context, "-scale_sub", 2, 0);
  check_counts(graph, context, "-scale_sub,-scale_add", 0, 0);
  check_counts(graph, context, "-scale_slice,-scale_add", 0, 1);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void FU8_rules_are_switched_by_context_and_environment(void **state) {
  (void)state;
  assert_int_equal(setenv("GRAFT_FUSION", "-scale_add", 1), 0);
  graft_context *contexts[] = {open_context(NULL, false), open_context("-scale_sub", false), open_context(NULL, true)};
  assert_int_equal(unsetenv("GRAFT_FUSION"), 0);
  for (int i = 0; i < 3; ++i) {
    graft_graph *graph = build(contexts[i]);
    // The environment; the context's own word over it; nothing.
    check_counts(graph, contexts[i], NULL, i == 0 ? 0 : 2, i == 1 ? 0 : 1);
    check_counts(graph, contexts[i], "on", 2, 1);
    graft_graph_destroy(graph);
    graft_context_destroy(contexts[i]);
  }
}

static void FU8_mistakes_are_told(void **state) {
  (void)state;
  const struct {
    const char *fusion;
    graft_status status;
    const char *part;
  } mistakes[] = {
      {"-nonsense", GRAFT_E_NOT_FOUND, "nonsense"},
      {"scale_add", GRAFT_E_INVALID, "scale_add"},
      {"-", GRAFT_E_INVALID, "\"-\""},
      {"-scale_add,x", GRAFT_E_INVALID, "\"x\""},
      {",", GRAFT_E_INVALID, "\"\""},
      {"", GRAFT_E_INVALID, "fusion is set to \"\"; \"\" must be on, off"},
      {"-scale_add,", GRAFT_E_INVALID, "fusion is set to \"-scale_add,\"; \"\" must be on, off"},
      {"on,", GRAFT_E_INVALID, "\"on\" beside other words; on and off stand alone"},
      {"off,-scale_add", GRAFT_E_INVALID, "\"off\" beside other words"},
      {"-scale_add,on", GRAFT_E_INVALID, "\"on\" beside other words"},
      {"OFF", GRAFT_E_INVALID, "OFF"},
  };
  graft_context *context = open_context(NULL, true);
  graft_graph *graph = build(context);
  for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; ++i) {
    const graft_plan_options options = {
        .struct_size = sizeof options, .device = fusion_device(context), .fusion = mistakes[i].fusion};
    graft_plan *plan = NULL;
    assert_int_equal(graft_plan_create(graph, &options, &plan), mistakes[i].status);
    const char *message = graft_context_error(context)->message;
    if (strstr(message, mistakes[i].part) == NULL) fail_msg("\"%s\" does not say %s", message, mistakes[i].part);
  }
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void FU8_counters_and_report_tell_all(void **state) {
  (void)state;
  graft_context *context = open_context(NULL, true);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
  graft_tensor *s = fusion_scale(graph, 13, a);
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", s, b), "unlucky");
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", fusion_scale(graph, 3, a), b), "y");
  graft_plan *plan = fusion_plan(graph, fusion_device(context), 0, "-liar");
  uint32_t n_seen = 0;
  for (uint32_t i = 0; i < graft_plan_n_fusion_rules(plan); ++i) {
    graft_fusion_count count = {.struct_size = sizeof count};
    graft_plan_fusion_rule(plan, i, &count);
    assert_int_equal(count.is_off, strcmp(count.rule, "liar") == 0);
    if (strcmp(count.rule, "scale_add") != 0) continue;
    ++n_seen;
    assert_string_equal(count.op, "fuse.scale_add.v1");
    assert_int_equal(count.n_groups, 1);
    assert_int_equal(count.n_near_misses, 1);
  }
  assert_int_equal(n_seen, 1);
  assert_int_equal(graft_plan_n_fusion_groups(plan), 2);
  graft_fusion_group group = {.struct_size = sizeof group};
  graft_plan_fusion_group(plan, 0, &group);  // from the end of the graph
  assert_null(group.obstacle);
  assert_int_equal(group.n_nodes, 2);
  assert_string_equal(group.label, "add#3");
  graft_plan_fusion_group(plan, 1, &group);
  assert_non_null(strstr(group.obstacle, "13 is unlucky"));
  assert_string_equal(group.label, "add#1");
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, graft_plan_n_steps(plan) - 1, &info);
  assert_string_equal(info.fusion, "scale_add");
  assert_int_equal(info.n_fused, 2);
  assert_string_equal(info.label, "add#3");
  graft_plan_fusion_group(plan, 2, &group);
  assert_null(group.rule);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU8_rules_are_switched_by_plan),
      cmocka_unit_test(FU8_rules_are_switched_by_context_and_environment),
      cmocka_unit_test(FU8_mistakes_are_told),
      cmocka_unit_test(FU8_counters_and_report_tell_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
