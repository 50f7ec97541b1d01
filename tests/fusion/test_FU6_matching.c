// FU6: how groups are found: by edges and not by place, operands of sums in any order, by example or by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_mock.h"

typedef graft_tensor *(*builder)(graft_graph *graph, graft_tensor *a, graft_tensor *b);

static graft_tensor *swapped(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  return fusion_apply2(g, "fuse.add.v1", b, fusion_scale(g, 3, a));
}
static graft_tensor *both_operands_fit(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  return fusion_apply2(g, "fuse.add.v1", fusion_scale(g, 3, a), fusion_scale(g, 4, b));
}
static graft_tensor *far_apart(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  graft_tensor *s = fusion_scale(g, 3, a), *u = b;
  for (int i = 0; i < 3; ++i) u = fusion_apply2(g, "fuse.sub.v1", u, a);
  return fusion_apply2(g, "fuse.add.v1", s, u);
}
static graft_tensor *in_order(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  return fusion_apply2(g, "fuse.sub.v1", fusion_scale(g, 3, a), b);
}
static graft_tensor *out_of_order(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  return fusion_apply2(g, "fuse.sub.v1", b, fusion_scale(g, 3, a));
}
static graft_tensor *shared(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  (void)b;
  graft_tensor *s = fusion_scale(g, 3, a);
  return fusion_apply2(g, "fuse.add.v1", s, s);
}
static graft_tensor *equal_but_not_shared(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  (void)b;
  return fusion_apply2(g, "fuse.add.v1", fusion_scale(g, 3, a), fusion_scale(g, 4, a));
}
static graft_tensor *by_hand(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  return fusion_apply2(g, "fuse.sub.v1", fusion_apply2(g, "fuse.sub.v1", a, b), a);
}
static graft_tensor *within_a_decomposition(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  // The kernel of the fused operator refuses factor 13: its parts are fused with others instead.
  return fusion_apply2(g, "fuse.sub.v1", fusion_apply1(g, "fuse.plain.v1", 3, a), b);
}
static graft_tensor *chain(graft_graph *g, graft_tensor *a, graft_tensor *b) {
  graft_tensor *x = a;
  for (int i = 0; i < 3; ++i) x = fusion_apply2(g, "fuse.add.v1", fusion_scale(g, 2 + i, x), b);
  return x;
}

// fuse.plain.v1 has no kernel: it is a scaling in disguise.
static void decompose_plain(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                            graft_tensor **out) {
  (void)n_inputs;
  out[0] = fusion_scale(graph, ((const fusion_attrs *)attrs)->factor, inputs[0]);
}

static graft_status infer_plain(graft_infer_args *args) {
  return graft_tensor_desc_init(args->inputs[0]->dtype, 1, args->inputs[0]->shape, args->error, &args->outputs[0]);
}

static const graft_op_def plain_op = {.struct_size = sizeof plain_op,
                                      .name = "fuse.plain.v1",
                                      .traits = GRAFT_OP_PURE,
                                      .min_inputs = 1,
                                      .max_inputs = 1,
                                      .n_outputs = 1,
                                      .attrs_bytes = sizeof(fusion_attrs),
                                      .infer = infer_plain,
                                      .decompose = decompose_plain};
static const graft_extension plain_extension = {.struct_size = sizeof plain_extension,
                                                .abi_version = GRAFT_ABI_VERSION,
                                                .name = "fuse.plain",
                                                .vendor = "fuse",
                                                .ops = &plain_op,
                                                .n_ops = 1};

static const struct {
  const char *name;
  builder build;
  const char *rule;
  uint32_t n;
} situations[] = {
    {"operands of a sum the other way round", swapped, "scale_add", 1},
    {"either operand fits", both_operands_fit, "scale_add", 1},
    {"nodes far apart", far_apart, "scale_add", 1},
    {"operands of a difference", in_order, "scale_sub", 1},
    {"operands of a difference the other way round", out_of_order, "scale_sub", 0},
    {"one value in two places", shared, "twice", 1},
    {"two values in two places", equal_but_not_shared, "twice", 0},
    {"found by hand", by_hand, "sub_sub", 1},
    {"made by a decomposition", within_a_decomposition, "scale_sub", 1},
    {"one behind the other", chain, "scale_add", 3},
};

static void FU6_groups_are_found_by_edges(void **state) {
  (void)state;
  const graft_extension *const extensions[] = {&fusion_extension, &plain_extension};
  graft_context *context = fusion_context(extensions, 2);
  for (size_t i = 0; i < sizeof situations / sizeof situations[0]; ++i) {
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    graft_tensor *a = fusion_input(graph, "a"), *b = fusion_input(graph, "b");
    graft_graph_output(graph, situations[i].build(graph, a, b), "y");
    graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
    const uint32_t n = fusion_n_groups(plan, situations[i].rule);
    if (n != situations[i].n) fail_msg("%s: %u groups", situations[i].name, (unsigned)n);
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
  }
  graft_context_destroy(context);
}

// ---- rules with faults fuse nothing and say why ----

static void decompose_input(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                            graft_tensor **out) {
  (void)attrs, (void)n_inputs;
  out[0] = fusion_apply2(graph, "fuse.sub.v1", inputs[0], fusion_input(graph, "own"));
}
static void decompose_view(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                           graft_tensor **out) {
  (void)attrs, (void)n_inputs;
  out[0] = fusion_slice(graph, 0, 4, fusion_scale(graph, 2, inputs[0]));
}
static void decompose_nothing(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                              graft_tensor **out) {
  (void)graph, (void)attrs, (void)n_inputs;
  out[0] = inputs[0];
}
static void decompose_many(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                           graft_tensor **out) {
  (void)attrs, (void)n_inputs;
  out[0] = inputs[0];
  for (int i = 0; i <= GRAFT_FUSION_MAX_NODES; ++i) out[0] = fusion_scale(graph, 2, out[0]);
}
static void decompose_sums(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                           graft_tensor **out) {
  (void)attrs, (void)n_inputs;
  out[0] = inputs[0];
  for (int i = 0; i < 7; ++i) out[0] = fusion_apply2(graph, "fuse.add.v1", out[0], inputs[1]);
}
static void decompose_wrongly(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                              graft_tensor **out) {
  (void)attrs, (void)n_inputs;
  out[0] = fusion_apply1(graph, "fuse.sub.v1", 0, inputs[0]);
}

static void FU6_faulty_rules_are_told_and_harmless(void **state) {
  (void)state;
  static const fusion_attrs one = {.factor = 1};
  static const graft_case_input f32 = {.dtype = &graft_dtype_f32, .rank = 1, .shape = {FUSION_N}};
  const graft_op_case form = {.name = "form", .attrs = &one, .n_inputs = 2, .inputs = {f32, f32}};
  const graft_op_case negative = {.name = "negative",
                                  .attrs = &one,
                                  .n_inputs = 2,
                                  .inputs = {{.dtype = &graft_dtype_f32, .rank = 1, .shape = {-1}}}};
  const struct {
    const char *op;
    void (*pattern)(graft_graph *, const void *, graft_tensor *const *, uint32_t, graft_tensor **);
    const graft_op_case *form;
    const char *part;
  } faults[] = {
      {"fuse.missing.v1", NULL, &form, "not registered"},
      {"fuse.split.v1", NULL, &form, "more than one output"},
      {"fuse.scale.v1", NULL, &form, "no decomposition"},
      {"fuse.scale_sub.v1", decompose_input, &form, "makes an input"},
      {"fuse.scale_sub.v1", decompose_view, &form, "a view"},
      {"fuse.scale_sub.v1", decompose_nothing, &form, "is an input"},
      {"fuse.scale_sub.v1", decompose_many, &form, "the limit"},
      {"fuse.scale_sub.v1", decompose_sums, &form, "commutative"},
      {"fuse.scale_sub.v1", decompose_wrongly, &form, "takes 2"},
      {"fuse.scale_sub.v1", NULL, &negative, "negative"},
  };
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; ++i) {
    const graft_fusion_def rule = {.struct_size = sizeof rule,
                                   .name = "faulty",
                                   .op = faults[i].op,
                                   .pattern = faults[i].pattern,
                                   .forms = faults[i].form,
                                   .n_forms = 1};
    const graft_extension faulty = {.struct_size = sizeof faulty,
                                    .abi_version = GRAFT_ABI_VERSION,
                                    .name = "fuse.faulty",
                                    .vendor = "fuse",
                                    .fusions = &rule,
                                    .n_fusions = 1};
    const graft_extension *const extensions[] = {&fusion_extension, &faulty};
    graft_context *context = fusion_context(extensions, 2);
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    graft_graph_output(graph, in_order(graph, fusion_input(graph, "a"), fusion_input(graph, "b")), "y");
    graft_plan *plan = fusion_compare(graph, fusion_device(context), 0);
    assert_int_equal(fusion_n_groups(plan, "faulty"), 0);
    assert_int_equal(fusion_n_groups(plan, "scale_sub"), 1);
    const char *obstacle = fusion_obstacle(plan, "faulty");
    if (strstr(obstacle, faults[i].part) == NULL) fail_msg("\"%s\" does not say \"%s\"", obstacle, faults[i].part);
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
    graft_context_destroy(context);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(FU6_groups_are_found_by_edges),
      cmocka_unit_test(FU6_faulty_rules_are_told_and_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
