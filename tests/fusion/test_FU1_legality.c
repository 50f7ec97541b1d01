// FU1: when a group may be replaced, clause by clause: what must be fused and what must not, each with the reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

typedef void (*builder)(graft_graph *graph, graft_tensor *a, graft_tensor *b);

typedef struct situation {
  const char *name;
  builder build;
  const char *rule;
  const char *obstacle;  // part of the reason; NULL: must be fused
} situation;

#define BUILD(name) static void name(graft_graph *g, graft_tensor *a, graft_tensor *b)

static graft_tensor *add(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  return fusion_apply2(g, "fuse.add.v1", a, b);
}

// ---- what must be fused ----

BUILD(plain) {
  graft_graph_output(g, add(g, fusion_scale(g, 3, a), b), "y");
}
BUILD(result_is_an_output_twice) {
  graft_tensor *y = add(g, fusion_scale(g, 3, a), b);
  graft_graph_output(g, y, "y");
  graft_graph_output(g, y, "z");
}
BUILD(result_is_read_often) {
  graft_tensor *y = add(g, fusion_scale(g, 3, a), b);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", y, fusion_slice(g, 0, FUSION_N, y)), "y");
}
BUILD(one_input_is_both) {
  (void)b;
  graft_graph_output(g, add(g, fusion_scale(g, 3, a), a), "y");
}
BUILD(other_reader_is_dead) {
  graft_tensor *s = fusion_scale(g, 3, a);
  (void)fusion_scale(g, 4, s);
  graft_graph_output(g, add(g, s, b), "y");
}
BUILD(view_of_own_storage) {
  (void)b;
  graft_graph_output(g, fusion_scale(g, 2, fusion_slice(g, 3, 9, fusion_scale(g, 5, a))), "y");
}
BUILD(second_output_is_unused) {
  (void)b;
  graft_graph_output(g, fusion_apply1(g, "fuse.copy.v1", 0, fusion_apply1(g, "fuse.split.v1", 0, a)), "y");
}
BUILD(member_in_place_on_an_earlier_member) {
  (void)b;
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_graph_output(g, fusion_scale(g, 5, fusion_scale_into(g, 3, s, s)), "y");
}
BUILD(terminal_copy) {
  graft_tensor *y = fusion_copy_into(g, fusion_scale(g, 3, a), b);
  graft_graph_output(g, y, "y");
  graft_graph_output(g, b, "b");
}
BUILD(terminal_copy_that_is_read_by_another_name) {
  fusion_copy_into(g, fusion_scale(g, 3, a), b);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", b, a), "y");
}
BUILD(written_back_over_an_earlier_owner) {
  (void)b;
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_tensor *y = fusion_scale_into(g, 5, fusion_scale_into(g, 3, s, s), s);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", y, a), "y");
}
BUILD(written_back_over_an_output) {
  (void)b;
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_tensor *y = fusion_scale_into(g, 5, fusion_scale(g, 3, s), s);
  graft_graph_output(g, s, "s");
  graft_graph_output(g, fusion_slice(g, 2, 9, y), "y");
}
BUILD(written_back_and_written_again) {
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_tensor *y = fusion_scale_into(g, 5, fusion_scale(g, 3, s), s);
  graft_graph_output(g, fusion_add_into(g, y, b, y), "y");
}

// ---- what must not ----

BUILD(intermediate_is_an_output) {
  graft_tensor *s = fusion_scale(g, 3, a);
  graft_graph_output(g, s, "s");
  graft_graph_output(g, add(g, s, b), "y");
}
BUILD(view_of_an_intermediate_is_an_output) {
  graft_tensor *s = fusion_scale(g, 3, a);
  graft_graph_output(g, fusion_slice(g, 1, 5, s), "s");
  graft_graph_output(g, add(g, s, b), "y");
}
BUILD(intermediate_is_read_outside) {
  graft_tensor *s = fusion_scale(g, 3, a);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", add(g, s, b), s), "y");
}
BUILD(intermediate_is_read_outside_through_a_view) {
  graft_tensor *s = fusion_scale(g, 3, a);
  graft_graph_output(g, fusion_scale(g, 7, fusion_slice(g, 0, 5, s)), "z");
  graft_graph_output(g, add(g, s, b), "y");
}
BUILD(second_output_is_read) {
  (void)b;
  graft_tensor *halves[2] = {NULL, NULL};
  graft_graph_apply(g, "fuse.split.v1", NULL, 0, &a, 1, halves);
  graft_graph_output(g, fusion_scale(g, 3, halves[1]), "z");
  graft_graph_output(g, fusion_apply1(g, "fuse.copy.v1", 0, halves[0]), "y");
}
BUILD(own_input) {
  (void)b;
  graft_tensor *s = fusion_scale(g, 3, a);
  graft_graph_output(g, add(g, s, s), "y");
}
BUILD(kernel_refuses) {
  graft_graph_output(g, add(g, fusion_scale(g, 13, a), b), "y");
}
BUILD(kernel_would_rather_not) {
  graft_graph_output(g, add(g, fusion_scale(g, 14, a), b), "y");
}
BUILD(rule_refuses) {
  graft_graph_output(g, add(g, fusion_scale(g, 15, a), b), "y");
}
BUILD(rule_lies) {
  graft_graph_output(g, fusion_apply1(g, "fuse.copy.v1", 0, fusion_apply2(g, "fuse.sub.v1", a, b)), "y");
}
BUILD(other_attributes) {
  (void)b;
  graft_graph_output(g, fusion_scale(g, 5, fusion_scale(g, 4, fusion_scale(g, 2, a))), "y");
}
BUILD(in_place_on_foreign_storage) {
  graft_graph_output(g, fusion_add_into(g, fusion_scale(g, 3, a), b, b), "y");
}
BUILD(member_in_place_on_foreign_storage) {
  (void)b;
  graft_graph_output(g, fusion_scale(g, 5, fusion_scale_into(g, 3, fusion_scale(g, 2, a), b)), "y");
}
BUILD(input_is_written_over_meanwhile) {
  graft_tensor *s = fusion_scale(g, 3, a);
  fusion_copy_into(g, b, a);
  graft_graph_output(g, add(g, s, b), "y");
}
BUILD(written_back_over_a_part) {
  (void)b;
  graft_tensor *part = fusion_slice(g, 0, 9, fusion_scale(g, 5, a));
  graft_graph_output(g, fusion_scale_into(g, 2, part, part), "y");
}
BUILD(destination_that_the_kernel_cannot_write) {
  // Contiguous, but not aligned: the copy's own kernel would take it.
  graft_tensor *s = fusion_scale(g, 3, fusion_slice(g, 0, 9, a));
  graft_graph_output(g, fusion_copy_into(g, s, fusion_slice(g, 3, 9, b)), "y");
}
BUILD(owner_is_read_outside) {
  (void)b;
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_tensor *t = fusion_scale(g, 3, s);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", s, a), "z");
  graft_graph_output(g, fusion_scale_into(g, 5, t, s), "y");
}
BUILD(owner_was_written_over_since) {
  (void)b;
  // The difference reads what the second scaling left in s, although its edge names the first.
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_tensor *t = fusion_scale_into(g, 3, s, s);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", t, s), "y");
}
BUILD(owner_and_what_was_written_over_it_are_not_one) {
  (void)b;
  // Looks like 3·s − s only where both names of the storage are taken for the same value.
  graft_tensor *s = fusion_scale(g, 2, a);
  graft_tensor *t = fusion_scale_into(g, 3, s, s);
  graft_graph_output(g, fusion_apply2(g, "fuse.sub.v1", t, t), "y");
}

static const situation situations[] = {
    {"plain", plain, "scale_add", NULL},
    {"result is an output twice", result_is_an_output_twice, "scale_add", NULL},
    {"result is read often", result_is_read_often, "scale_add", NULL},
    {"one input is both", one_input_is_both, "scale_add", NULL},
    {"other reader is dead", other_reader_is_dead, "scale_add", NULL},
    {"view of own storage", view_of_own_storage, "scale_slice", NULL},
    {"second output is unused", second_output_is_unused, "split_first", NULL},
    {"member in place", member_in_place_on_an_earlier_member, "scale_thrice", NULL},
    {"terminal copy", terminal_copy, "scale_copy", NULL},
    {"terminal copy, other name", terminal_copy_that_is_read_by_another_name, "scale_copy", NULL},
    {"written back", written_back_over_an_earlier_owner, "scale_thrice", NULL},
    {"written back over an output", written_back_over_an_output, "scale_thrice", NULL},
    {"written back and again", written_back_and_written_again, "scale_thrice", NULL},
    {"intermediate is an output", intermediate_is_an_output, "scale_add", "output of the graph"},
    {"view of it is an output", view_of_an_intermediate_is_an_output, "scale_add", "output of the graph"},
    {"intermediate is read outside", intermediate_is_read_outside, "scale_add", "read outside"},
    {"read through a view", intermediate_is_read_outside_through_a_view, "scale_add", "read outside"},
    {"second output is read", second_output_is_read, "split_first", "read outside"},
    {"own input", own_input, "scale_add", "computes its own input"},
    {"kernel refuses", kernel_refuses, "scale_add", "13 is unlucky"},
    {"kernel would rather not", kernel_would_rather_not, "scale_add", "14 is slow"},
    {"rule refuses", rule_refuses, "scale_add", "15 is not wanted"},
    {"rule lies", rule_lies, "liar", "operator"},
    {"other attributes", other_attributes, "scale_thrice", "attributes"},
    {"in place outside", in_place_on_foreign_storage, "scale_add", "in place on storage outside"},
    {"member in place outside", member_in_place_on_foreign_storage, "scale_thrice", "storage outside the group"},
    {"input is written over", input_is_written_over_meanwhile, "scale_add", "meanwhile"},
    {"written back over a part", written_back_over_a_part, "scale_slice", "a part of"},
    {"destination askew", destination_that_the_kernel_cannot_write, "scale_copy", "cannot write"},
    {"owner is read outside", owner_is_read_outside, "scale_thrice", "read outside"},
    {"owner was written over", owner_was_written_over_since, "scale_diff", "written over"},
    {"owner is another value", owner_and_what_was_written_over_it_are_not_one, "scale_diff", ""},
};

static void FU1_every_clause_decides(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  uint32_t n_wrong = 0;
  for (size_t i = 0; i < sizeof situations / sizeof situations[0]; ++i) {
    const situation *s = &situations[i];
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
    s->build(graph, a, b);
    if (graft_graph_status(graph) != GRAFT_OK) fail_msg("%s: %s", s->name, graft_graph_error(graph)->message);
    graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
    const uint32_t n = fusion_n_groups(plan, s->rule);
    const char *obstacle = fusion_obstacle(plan, s->rule);
    if (s->obstacle == NULL ? n != 1 : n != 0 || strstr(obstacle, s->obstacle) == NULL) {
      print_error("%s: fused %u times, and \"%s\" for \"%s\"\n", s->name, (unsigned)n, obstacle,
                  s->obstacle != NULL ? s->obstacle : "");
      ++n_wrong;
    }
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
  }
  graft_context_destroy(context);
  assert_int_equal(n_wrong, 0);
}

// Members that are not pure: the mock's impure operators take the place of one that a rule could have, so here the rule
// itself contains them.
static void decompose_impure(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                             graft_tensor **out) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  graft_tensor *x = fusion_apply1(graph, a->factor == 1 ? "fuse.impure.v1" : "fuse.opaque.v1", 1, inputs[0]);
  out[0] = fusion_apply2(graph, "fuse.sub.v1", x, inputs[1]);
}

static void FU1_members_are_pure(void **state) {
  (void)state;
  static const fusion_attrs one = {.factor = 1}, two = {.factor = 2};
  static const graft_case_input f32 = {.dtype = &graft_dtype_f32, .rank = 1, .shape = {8}};
  const graft_op_case forms[] = {{.name = "impure", .attrs = &one, .n_inputs = 2, .inputs = {f32, f32}},
                                 {.name = "opaque", .attrs = &two, .n_inputs = 2, .inputs = {f32, f32}}};
  const graft_fusion_def rule = {.struct_size = sizeof rule,
                                 .name = "impure",
                                 .op = "fuse.scale_sub.v1",
                                 .pattern = decompose_impure,
                                 .forms = forms,
                                 .n_forms = 2};
  const graft_extension extension = {.struct_size = sizeof extension,
                                     .abi_version = GRAFT_ABI_VERSION,
                                     .name = "fuse.impure",
                                     .vendor = "fuse",
                                     .fusions = &rule,
                                     .n_fusions = 1};
  const graft_extension *const extensions[] = {&fusion_extension, &extension};
  graft_context *context = fusion_context(extensions, 2);
  for (int i = 0; i < 2; ++i) {
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
    graft_tensor *x = fusion_apply1(graph, i == 0 ? "fuse.impure.v1" : "fuse.opaque.v1", 1, a);
    graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", x, b), "y");
    graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
    assert_int_equal(fusion_n_groups(plan, "impure"), 0);
    assert_non_null(strstr(fusion_obstacle(plan, "impure"), "not pure"));
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
  }
  graft_context_destroy(context);
}

static void decompose_outside_view(graft_graph *graph, const void *attrs, graft_tensor *const *inputs,
                                   uint32_t n_inputs, graft_tensor **out) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  out[0] = fusion_scale(graph, 2, fusion_scale(graph, a->factor, fusion_slice(graph, a->first, a->n, inputs[0])));
}

static void FU1_views_show_storage_of_the_group(void **state) {
  (void)state;
  static const fusion_attrs attrs = {.factor = 1, .first = 3, .n = 4};
  const graft_op_case form = {.name = "view",
                              .attrs = &attrs,
                              .n_inputs = 1,
                              .inputs = {{.dtype = &graft_dtype_f32, .rank = 1, .shape = {FUSION_N}}}};
  const graft_fusion_def rule = {.struct_size = sizeof rule,
                                 .name = "outside_view",
                                 .op = "fuse.scale_slice.v1",
                                 .pattern = decompose_outside_view,
                                 .forms = &form,
                                 .n_forms = 1};
  const graft_extension extension = {.struct_size = sizeof extension,
                                     .abi_version = GRAFT_ABI_VERSION,
                                     .name = "fuse.view",
                                     .vendor = "fuse",
                                     .fusions = &rule,
                                     .n_fusions = 1};
  const graft_extension *const extensions[] = {&fusion_extension, &extension};
  graft_context *context = fusion_context(extensions, 2);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a");
  graft_graph_output(graph, fusion_scale(graph, 2, fusion_scale(graph, 1, fusion_slice(graph, 3, 4, a))), "y");
  graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
  assert_int_equal(fusion_n_groups(plan, "outside_view"), 0);
  assert_non_null(strstr(fusion_obstacle(plan, "outside_view"), "shows storage outside"));
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

// The pattern is the rule's own, and the operator makes something else of the same inputs.
static void decompose_longer(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                             graft_tensor **out) {
  (void)n_inputs, (void)attrs;
  out[0] = fusion_apply2(graph, "fuse.sub.v1", fusion_apply1(graph, "fuse.copy.v1", 0, inputs[0]), inputs[0]);
}

static void FU1_results_are_what_the_operator_infers(void **state) {
  (void)state;
  static const fusion_attrs attrs = {.factor = 1, .first = 3, .n = 4};
  const graft_op_case form = {.name = "longer",
                              .attrs = &attrs,
                              .n_inputs = 1,
                              .inputs = {{.dtype = &graft_dtype_f32, .rank = 1, .shape = {FUSION_N}}}};
  const graft_fusion_def rule = {.struct_size = sizeof rule,
                                 .name = "longer",
                                 .op = "fuse.scale_slice.v1",
                                 .pattern = decompose_longer,
                                 .forms = &form,
                                 .n_forms = 1};
  const graft_extension extension = {.struct_size = sizeof extension,
                                     .abi_version = GRAFT_ABI_VERSION,
                                     .name = "fuse.longer",
                                     .vendor = "fuse",
                                     .fusions = &rule,
                                     .n_fusions = 1};
  const graft_extension *const extensions[] = {&fusion_extension, &extension};
  graft_context *context = fusion_context(extensions, 2);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a");
  graft_graph_output(graph, fusion_apply2(graph, "fuse.sub.v1", fusion_apply1(graph, "fuse.copy.v1", 0, a), a), "y");
  graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
  assert_int_equal(fusion_n_groups(plan, "longer"), 0);
  assert_non_null(strstr(fusion_obstacle(plan, "longer"), "not what the group makes"));
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void FU1_dtypes_survive_an_exchange_of_operands(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  for (int i = 0; i < 2; ++i) {
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    const graft_tensor_desc half = {.dtype = GRAFT_F16, .rank = 1, .shape = {FUSION_N}, .strides = {2}};
    graft_tensor *s = fusion_scale(graph, 3, fusion_input(graph, "a")), *b = graft_graph_input(graph, "b", &half);
    // A sum has its first operand's dtype.
    graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", i == 0 ? s : b, i == 0 ? b : s), "y");
    graft_plan *plan = fusion_plan(graph, fusion_device(context), GRAFT_PLAN_MEASURE_ONLY, "on");
    assert_int_equal(fusion_n_groups(plan, "scale_add"), i == 0);
    if (i == 1) assert_non_null(strstr(fusion_obstacle(plan, "scale_add"), "dtype"));
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
  }
  graft_context_destroy(context);
}

static void FU1_members_run_on_one_device(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  graft_device *devices[2] = {fusion_device(context), NULL};
  assert_int_equal(graft_device_open(context, "private", &devices[1]), GRAFT_OK);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b"), *s = fusion_scale(graph, 3, a);
  graft_graph_output(graph, fusion_apply2(graph, "fuse.add.v1", s, b), "y");
  const graft_pin pin = {.struct_size = sizeof pin, .tensor = s, .device = devices[1]};
  graft_plan_options options = {.struct_size = sizeof options, .devices = devices, .n_devices = 2};
  for (int pinned = 0; pinned < 2; ++pinned) {
    options.pins = &pin;
    options.n_pins = (uint32_t)pinned;
    graft_plan *plan = NULL;
    assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
    assert_int_equal(fusion_n_groups(plan, "scale_add"), !pinned);
    graft_plan_destroy(plan);
  }
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void FU1_a_kernel_asked_for_by_name_is_kept(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension};
  graft_context *context = fusion_context(extensions, 1);
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  plain(graph, fusion_input(graph, "a"), fusion_input(graph, "b"));
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = fusion_device(context), .force_kernel = "scale_f32"};
  graft_plan *plan = NULL;
  assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
  assert_int_equal(fusion_n_groups(plan, "scale_add"), 0);
  assert_non_null(strstr(fusion_obstacle(plan, "scale_add"), "asked for by name"));
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU1_every_clause_decides),
      cmocka_unit_test(FU1_members_are_pure),
      cmocka_unit_test(FU1_views_show_storage_of_the_group),
      cmocka_unit_test(FU1_results_are_what_the_operator_infers),
      cmocka_unit_test(FU1_dtypes_survive_an_exchange_of_operands),
      cmocka_unit_test(FU1_members_run_on_one_device),
      cmocka_unit_test(FU1_a_kernel_asked_for_by_name_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
