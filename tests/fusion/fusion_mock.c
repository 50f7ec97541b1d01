#include "fusion_mock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graft/cpu.h"

// ---- what the operators compute ----

static graft_status infer_same(graft_infer_args *args) {
  for (uint32_t o = 0; o < args->n_outputs; ++o) {
    GRAFT_TRY(
        graft_tensor_desc_init(args->inputs[0]->dtype, 1, args->inputs[0]->shape, args->error, &args->outputs[o]));
  }
  return GRAFT_OK;
}

static graft_status infer_slice(graft_infer_args *args) {
  const fusion_attrs *attrs = args->attrs;
  if (attrs->first + attrs->n > args->inputs[0]->shape[0]) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "too far");
  args->view_offset = attrs->first * (int64_t)sizeof(float);
  return graft_tensor_desc_init(args->inputs[0]->dtype, 1, &attrs->n, args->error, &args->outputs[0]);
}

static graft_status infer_sliced(graft_infer_args *args) {
  const fusion_attrs *attrs = args->attrs;
  return graft_tensor_desc_init(args->inputs[0]->dtype, 1, &attrs->n, args->error, &args->outputs[0]);
}

typedef enum kind {
  SCALE,
  ADD,
  SUB,
  COPY,
  SPLIT,
  SCALE_ADD,
  SCALE_SUB,
  SCALE_SLICE,
  TWICE,
  SPLIT_FIRST,
  SCALE_COPY,
  SCALE_THRICE,
  SCALE_DIFF,
  LIAR,
  SUB_SUB,
  RIVAL,
} kind;

// Everything an operator may read or write.
typedef struct values {
  kind kind;
  float factor;
  int64_t first;
  const float *a, *b, *c;
  float *y, *z;
} values;

static void compute(const values *v, int64_t i) {
  const float a = v->a[i + v->first], b = v->b != NULL ? v->b[i] : 0, c = v->c != NULL ? v->c[i] : 0;
  switch (v->kind) {
    case SCALE: v->y[i] = v->factor * a; break;
    case ADD: v->y[i] = a + b; break;
    case SUB: v->y[i] = a - b; break;
    case COPY: v->y[i] = a; break;
    case SPLIT: v->y[i] = a + 1, v->z[i] = a - 1; break;
    case SCALE_ADD: v->y[i] = v->factor * a + b; break;
    case SCALE_SUB: v->y[i] = v->factor * a - b; break;
    case SCALE_SLICE: v->y[i] = 2 * v->factor * a; break;
    case TWICE: v->y[i] = 2 * v->factor * a; break;
    case SPLIT_FIRST: v->y[i] = a + 1; break;
    case SCALE_COPY: v->y[i] = v->factor * a; break;
    case SCALE_THRICE: v->y[i] = 15 * v->factor * a; break;
    case SCALE_DIFF: v->y[i] = 2 * v->factor * a; break;
    case LIAR: v->y[i] = v->factor * (a - b); break;
    case SUB_SUB: v->y[i] = a - b - c; break;
    case RIVAL: v->y[i] = v->factor * a - b; break;
  }
}

static graft_status refer(const graft_reference_args *args, kind what) {
  const fusion_attrs *attrs = args->attrs;
  const values v = {.kind = what,
                    .factor = attrs != NULL ? (float)attrs->factor : 0,
                    .a = args->inputs[0].data,
                    .b = args->n_inputs > 1 ? args->inputs[1].data : NULL,
                    .y = args->outputs[0].data,
                    .z = args->n_outputs > 1 ? args->outputs[1].data : NULL};
  for (int64_t i = 0; i < args->outputs[0].desc.shape[0]; ++i) compute(&v, i);
  return GRAFT_OK;
}

#define REFERENCE(name, KIND)                                              \
  static graft_status reference_##name(const graft_reference_args *args) { \
    return refer(args, KIND);                                              \
  }
REFERENCE(scale, SCALE)
REFERENCE(add, ADD)
REFERENCE(sub, SUB)
REFERENCE(copy, COPY)
REFERENCE(split, SPLIT)

typedef struct task_args {
  values values;
  int64_t n;
} task_args;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)item, (void)worker;
  const task_args *a = args;
  for (int64_t i = 0; i < a->n; ++i) compute(&a->values, i);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args, kind what) {
  const fusion_attrs *attrs = args->node->attrs;
  const task_args a = {.values = {.kind = what,
                                  .factor = attrs != NULL ? (float)attrs->factor : 0,
                                  .first = what == SCALE_SLICE ? attrs->first : 0,
                                  .a = args->inputs[0],
                                  .b = args->node->n_inputs > 1 ? args->inputs[1] : NULL,
                                  .c = args->node->n_inputs > 2 ? args->inputs[2] : NULL,
                                  .y = args->outputs[0],
                                  .z = args->node->n_outputs > 1 ? args->outputs[1] : NULL},
                       .n = args->node->outputs[0]->shape[0]};
  return graft_cpu_encode(encoder, &(graft_cpu_task){run, &a, sizeof a, 1}, args->error);
}

#define ENCODE(name, KIND)                                                                   \
  static graft_status encode_##name(graft_encoder *encoder, const graft_encode_args *args) { \
    return encode(encoder, args, KIND);                                                      \
  }
ENCODE(scale, SCALE)
ENCODE(add, ADD)
ENCODE(copy, COPY)
ENCODE(scale_add, SCALE_ADD)
ENCODE(scale_sub, SCALE_SUB)
ENCODE(scale_slice, SCALE_SLICE)
ENCODE(twice, TWICE)
ENCODE(split_first, SPLIT_FIRST)
ENCODE(scale_copy, SCALE_COPY)
ENCODE(scale_thrice, SCALE_THRICE)
ENCODE(scale_diff, SCALE_DIFF)
ENCODE(liar, LIAR)
ENCODE(sub_sub, SUB_SUB)
ENCODE(rival, RIVAL)

// ---- building ----

static graft_tensor *apply(graft_graph *graph, const char *op, fusion_attrs attrs, graft_tensor *const *inputs,
                           uint32_t n) {
  graft_tensor *y[2] = {NULL, NULL};
  const graft_op_def *def = graft_context_find_op(graft_graph_context(graph), op);
  graft_graph_apply(graph, op, def->attrs_bytes > 0 ? &attrs : NULL, def->attrs_bytes, inputs, n, y);
  return y[0];
}

graft_tensor *fusion_apply1(graft_graph *graph, const char *op, double factor, graft_tensor *a) {
  return apply(graph, op, (fusion_attrs){.factor = factor}, &a, 1);
}

graft_tensor *fusion_apply2(graft_graph *graph, const char *op, graft_tensor *a, graft_tensor *b) {
  return apply(graph, op, (fusion_attrs){0}, (graft_tensor *[]){a, b}, 2);
}

graft_tensor *fusion_scale(graft_graph *graph, double factor, graft_tensor *a) {
  return fusion_apply1(graph, "fuse.scale.v1", factor, a);
}

graft_tensor *fusion_slice(graft_graph *graph, int64_t first, int64_t n, graft_tensor *a) {
  return apply(graph, "fuse.slice.v1", (fusion_attrs){.first = first, .n = n}, &a, 1);
}

static graft_tensor *apply_into(graft_graph *graph, const char *op, const fusion_attrs *attrs,
                                graft_tensor *const inputs[2], graft_tensor *into) {
  const graft_application application = {.struct_size = sizeof application,
                                         .op = op,
                                         .attrs = attrs,
                                         .attrs_bytes = attrs != NULL ? sizeof *attrs : 0,
                                         .inputs = inputs,
                                         .n_inputs = inputs[1] != NULL ? 2 : 1,
                                         .into = into};
  graft_tensor *y = NULL;
  graft_graph_apply_into(graph, &application, &y);
  return y;
}

graft_tensor *fusion_scale_into(graft_graph *graph, double factor, graft_tensor *a, graft_tensor *into) {
  const fusion_attrs attrs = {.factor = factor};
  return apply_into(graph, "fuse.scale.v1", &attrs, (graft_tensor *[2]){a, NULL}, into);
}

graft_tensor *fusion_copy_into(graft_graph *graph, graft_tensor *a, graft_tensor *into) {
  return apply_into(graph, "fuse.copy.v1", NULL, (graft_tensor *[2]){a, NULL}, into);
}

graft_tensor *fusion_add_into(graft_graph *graph, graft_tensor *a, graft_tensor *b, graft_tensor *into) {
  return apply_into(graph, "fuse.add.v1", NULL, (graft_tensor *[2]){a, b}, into);
}

graft_tensor *fusion_input(graft_graph *graph, const char *name) {
  const graft_tensor_desc desc = {.dtype = GRAFT_F32, .rank = 1, .shape = {FUSION_N}, .strides = {4}};
  return graft_graph_input(graph, name, &desc);
}

// ---- decompositions ----

#define DECOMPOSE(name)                                                                                               \
  static void decompose_##name(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs, \
                               graft_tensor **out)

DECOMPOSE(scale_add) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  out[0] = fusion_apply2(graph, "fuse.add.v1", fusion_scale(graph, a->factor, inputs[0]), inputs[1]);
}
DECOMPOSE(scale_sub) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  out[0] = fusion_apply2(graph, "fuse.sub.v1", fusion_scale(graph, a->factor, inputs[0]), inputs[1]);
}
DECOMPOSE(scale_slice) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  out[0] = fusion_scale(graph, 2, fusion_slice(graph, a->first, a->n, fusion_scale(graph, a->factor, inputs[0])));
}
DECOMPOSE(twice) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  graft_tensor *s = fusion_scale(graph, a->factor, inputs[0]);
  out[0] = fusion_apply2(graph, "fuse.add.v1", s, s);
}
DECOMPOSE(split_first) {
  (void)n_inputs, (void)attrs;
  out[0] = fusion_apply1(graph, "fuse.copy.v1", 0, fusion_apply1(graph, "fuse.split.v1", 0, inputs[0]));
}
DECOMPOSE(scale_copy) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  out[0] = fusion_apply1(graph, "fuse.copy.v1", 0, fusion_scale(graph, a->factor, inputs[0]));
}
DECOMPOSE(scale_thrice) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  out[0] = fusion_scale(graph, 5, fusion_scale(graph, 3, fusion_scale(graph, a->factor, inputs[0])));
}
DECOMPOSE(scale_diff) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  graft_tensor *s = fusion_scale(graph, a->factor, inputs[0]);
  out[0] = fusion_apply2(graph, "fuse.sub.v1", fusion_scale(graph, 3, s), s);
}
DECOMPOSE(liar) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  graft_tensor *d = fusion_apply2(graph, "fuse.sub.v1", inputs[0], inputs[1]);
  out[0] = a->factor == 1 ? fusion_apply1(graph, "fuse.copy.v1", 0, d) : fusion_scale(graph, a->factor, d);
}
DECOMPOSE(sub_sub) {
  (void)n_inputs, (void)attrs;
  out[0] = fusion_apply2(graph, "fuse.sub.v1", fusion_apply2(graph, "fuse.sub.v1", inputs[0], inputs[1]), inputs[2]);
}
DECOMPOSE(rival) {
  (void)n_inputs;
  const fusion_attrs *a = attrs;
  graft_tensor *s = fusion_apply1(graph, "fuse.copy.v1", 0, fusion_scale(graph, a->factor, inputs[0]));
  out[0] = fusion_apply2(graph, "fuse.sub.v1", s, inputs[1]);
}

// ---- rules ----

static bool capture_factor(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  fusion_attrs *a = attrs;
  a->factor = ((const fusion_attrs *)match->node_attrs[0])->factor;
  return a->factor != 15 || graft_refuse(why, "factor 15 is not wanted");
}

static bool capture_slice(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  *(fusion_attrs *)attrs = *(const fusion_attrs *)match->node_attrs[1];
  ((fusion_attrs *)attrs)->factor = ((const fusion_attrs *)match->node_attrs[0])->factor;
  return true;
}

static bool capture_lie(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)match, (void)why;
  ((fusion_attrs *)attrs)->factor = 7;
  return true;
}

static bool propose_sub_sub(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_fusion_node outer = {.struct_size = sizeof outer}, inner = {.struct_size = sizeof inner};
  if (!graft_fusion_maker(result, &outer) || strcmp(outer.op->name, "fuse.sub.v1") != 0) return false;
  if (!graft_fusion_maker(outer.inputs[0], &inner) || strcmp(inner.op->name, "fuse.sub.v1") != 0) return false;
  proposal->n_inputs = 3;
  proposal->inputs[0] = inner.inputs[0];
  proposal->inputs[1] = inner.inputs[1];
  proposal->inputs[2] = outer.inputs[1];
  return true;
}

static bool supports_scale_add(const graft_node_info *node, graft_reason *why) {
  return ((const fusion_attrs *)node->attrs)->factor != 13 || graft_refuse(why, "13 is unlucky");
}

static bool prefers_scale_add(const graft_node_info *node, graft_reason *why) {
  return ((const fusion_attrs *)node->attrs)->factor != 14 || graft_refuse(why, "14 is slow");
}

#define F32                                              \
  {                                                      \
    .dtype = &graft_dtype_f32, .rank = 1, .shape = { 8 } \
  }
static const fusion_attrs one = {.factor = 1}, eight = {.factor = 1, .first = 2, .n = 4};
static const graft_op_case unary[] = {{.name = "unary", .attrs = &one, .n_inputs = 1, .inputs = {F32}}};
static const graft_op_case binary[] = {{.name = "binary", .attrs = &one, .n_inputs = 2, .inputs = {F32, F32}}};
static const graft_op_case sliced[] = {{.name = "sliced", .attrs = &eight, .n_inputs = 1, .inputs = {F32}}};

static const graft_attr_def schema[] = {
    {.name = "factor", .type = GRAFT_ATTR_F64, .offset = offsetof(fusion_attrs, factor), .default_f64 = 1},
    {.name = "first", .type = GRAFT_ATTR_I64, .offset = offsetof(fusion_attrs, first)},
    {.name = "n", .type = GRAFT_ATTR_I64, .offset = offsetof(fusion_attrs, n)},
};

#define OP(noun, n_in, n_out)                                                                               \
  .struct_size = sizeof(graft_op_def), .name = "fuse." #noun ".v1", .min_inputs = n_in, .max_inputs = n_in, \
  .n_outputs = n_out
#define WITH_ATTRS .attrs = schema, .n_attrs = 3, .attrs_bytes = sizeof(fusion_attrs)
#define FUSED(noun, n_in) \
  OP(noun, n_in, 1), WITH_ATTRS, .traits = GRAFT_OP_PURE, .infer = infer_same, .decompose = decompose_##noun

static const graft_op_def ops[] = {
    {OP(scale, 1, 1), WITH_ATTRS, .traits = GRAFT_OP_PURE, .infer = infer_same, .reference = reference_scale},
    {OP(add, 2, 1), .traits = GRAFT_OP_PURE | GRAFT_OP_COMMUTATIVE, .infer = infer_same, .reference = reference_add},
    {OP(sub, 2, 1), .traits = GRAFT_OP_PURE, .infer = infer_same, .reference = reference_sub},
    {OP(copy, 1, 1), .traits = GRAFT_OP_PURE | GRAFT_OP_COPY, .infer = infer_same, .reference = reference_copy},
    {OP(slice, 1, 1), WITH_ATTRS, .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW, .infer = infer_slice},
    {OP(split, 1, 2), .traits = GRAFT_OP_PURE, .infer = infer_same, .reference = reference_split},
    {OP(impure, 1, 1), WITH_ATTRS, .infer = infer_same, .reference = reference_copy},
    {OP(opaque, 1, 1), WITH_ATTRS, .traits = GRAFT_OP_OPAQUE_EFFECT, .infer = infer_same, .reference = reference_copy},
    {FUSED(scale_add, 2)},
    {FUSED(scale_sub, 2)},
    {FUSED(twice, 1)},
    {FUSED(split_first, 1)},
    {FUSED(scale_copy, 1)},
    {FUSED(scale_thrice, 1)},
    {FUSED(scale_diff, 1)},
    {FUSED(liar, 2)},
    {FUSED(sub_sub, 3)},
    {OP(scale_slice, 1, 1), WITH_ATTRS, .traits = GRAFT_OP_PURE, .infer = infer_sliced,
     .decompose = decompose_scale_slice},
};

#define KERNEL(noun)                                                                                          \
  .struct_size = sizeof(graft_kernel_def), .name = #noun "_f32", .op = "fuse." #noun ".v1", .backend = "cpu", \
  .encode = encode_##noun

static const graft_kernel_def kernels[] = {
    {KERNEL(scale), .in_place_inputs = 1},
    {KERNEL(add), .in_place_inputs = 3},
    {KERNEL(copy), .traits = GRAFT_KERNEL_ANY_OUTPUT},
    {KERNEL(scale_add), .supports = supports_scale_add, .preferred = prefers_scale_add, .in_place_inputs = 3},
    {KERNEL(scale_sub)},
    {KERNEL(scale_slice)},
    {KERNEL(twice)},
    {KERNEL(split_first)},
    {KERNEL(scale_copy), .in_place_inputs = 1},
    {KERNEL(scale_thrice), .in_place_inputs = 1},
    {KERNEL(scale_diff)},
    {KERNEL(liar)},
    {KERNEL(sub_sub)},
};

#define RULE(noun) .struct_size = sizeof(graft_fusion_def), .name = #noun, .op = "fuse." #noun ".v1"

static const graft_fusion_def fusions[] = {
    {RULE(scale_add), .forms = binary, .n_forms = 1, .capture = capture_factor},
    {RULE(scale_sub), .forms = binary, .n_forms = 1, .capture = capture_factor},
    {RULE(scale_slice), .forms = sliced, .n_forms = 1, .capture = capture_slice},
    {RULE(twice), .forms = unary, .n_forms = 1, .capture = capture_factor},
    {RULE(split_first), .forms = unary, .n_forms = 1},
    {RULE(scale_copy), .forms = unary, .n_forms = 1, .capture = capture_factor},
    {RULE(scale_thrice), .forms = unary, .n_forms = 1, .capture = capture_factor},
    {RULE(scale_diff), .forms = unary, .n_forms = 1, .capture = capture_factor},
    {RULE(liar), .forms = binary, .n_forms = 1, .capture = capture_lie},
    {RULE(sub_sub), .propose = propose_sub_sub},
};

const graft_extension fusion_extension = {.struct_size = sizeof fusion_extension,
                                          .abi_version = GRAFT_ABI_VERSION,
                                          .name = "fuse.tests",
                                          .vendor = "fuse",
                                          .ops = ops,
                                          .n_ops = sizeof ops / sizeof ops[0],
                                          .kernels = kernels,
                                          .n_kernels = sizeof kernels / sizeof kernels[0],
                                          .fusions = fusions,
                                          .n_fusions = sizeof fusions / sizeof fusions[0]};

static const graft_op_def rival_ops[] = {{FUSED(rival, 2)}};
static const graft_kernel_def rival_kernels[] = {{KERNEL(rival)}};
static const graft_fusion_def rival_fusions[] = {
    {RULE(rival), .forms = binary, .n_forms = 1, .capture = capture_factor}};

const graft_extension fusion_rival = {.struct_size = sizeof fusion_rival,
                                      .abi_version = GRAFT_ABI_VERSION,
                                      .name = "graft.rival",
                                      .vendor = "graft",
                                      .ops = rival_ops,
                                      .n_ops = 1,
                                      .kernels = rival_kernels,
                                      .n_kernels = 1,
                                      .fusions = rival_fusions,
                                      .n_fusions = 1};

// ---- planning and comparing ----

graft_context *fusion_context(const graft_extension *const *extensions, uint32_t n_extensions) {
  const graft_context_options options = {
      .struct_size = sizeof options, .n_threads = 2, .without_builtins = true, .ignore_environment = true};
  graft_context *context = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &graft_extension_cpu_backend), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &graft_extension_private_backend), GRAFT_OK);
  for (uint32_t i = 0; i < n_extensions; ++i) {
    if (graft_context_register(context, extensions[i]) != GRAFT_OK)
      fail_msg("%s", graft_context_error(context)->message);
  }
  return context;
}

graft_device *fusion_device(graft_context *context) {
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  return device;
}

graft_plan *fusion_plan(const graft_graph *graph, graft_device *device, uint32_t flags, const char *fusion) {
  const graft_plan_options options = {
      .struct_size = sizeof options, .flags = flags, .device = device, .fusion = fusion};
  graft_plan *plan = NULL;
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) {
    fail_msg("%s", graft_context_error(graft_graph_context(graph))->message);
  }
  return plan;
}

uint32_t fusion_n_groups(const graft_plan *plan, const char *rule) {
  for (uint32_t i = 0; i < graft_plan_n_fusion_rules(plan); ++i) {
    graft_fusion_count count = {.struct_size = sizeof count};
    graft_plan_fusion_rule(plan, i, &count);
    if (strcmp(count.rule, rule) == 0) return count.n_groups;
  }
  fail_msg("no rule %s", rule);
  return 0;
}

const char *fusion_obstacle(const graft_plan *plan, const char *rule) {
  const char *obstacle = "";
  for (uint32_t i = 0; i < graft_plan_n_fusion_groups(plan); ++i) {
    graft_fusion_group group = {.struct_size = sizeof group};
    graft_plan_fusion_group(plan, i, &group);
    if (strcmp(group.rule, rule) == 0 && group.obstacle != NULL) obstacle = group.obstacle;
  }
  return obstacle;
}

static void write_inputs(const graft_graph *graph, graft_plan *plan) {
  float numbers[FUSION_N];
  for (uint32_t i = 0; i < graft_graph_n_inputs(graph); ++i) {
    for (int k = 0; k < FUSION_N; ++k) numbers[k] = (float)(k % 7 + (int)i * 10 + 1);
    assert_int_equal(graft_plan_write(plan, i, numbers, sizeof numbers), GRAFT_OK);
  }
}

// Sums of large whole numbers are rounded, and groups round less often.
static bool is_same(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float difference = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
    const float size = want[i] > 0 ? want[i] : -want[i];
    if (difference > (size < 1e6f ? 0 : 1e-5f * size)) return false;
  }
  return true;
}

static bool compare_outputs(const graft_graph *graph, graft_plan *fused, graft_plan *plain) {
  for (uint32_t o = 0; o < graft_graph_n_outputs(graph); ++o) {
    const char *name;
    const graft_tensor *y = graft_graph_output_at(graph, o, &name);
    const size_t bytes = graft_tensor_desc_bytes(graft_tensor_describe(y));
    float got[FUSION_N] = {0}, want[FUSION_N] = {0};
    assert_int_equal(graft_plan_read(fused, o, got, bytes), GRAFT_OK);
    assert_int_equal(graft_plan_read(plain, o, want, bytes), GRAFT_OK);
    if (is_same(got, want, bytes / sizeof got[0])) continue;
    print_error("output %s is %g …, not %g …\n", name, (double)got[0], (double)want[0]);
    return false;
  }
  return true;
}

graft_plan *fusion_try(const graft_graph *graph, graft_device *device, uint32_t flags) {
  graft_plan *fused = fusion_plan(graph, device, flags, "on"), *plain = fusion_plan(graph, device, 0, "off");
  bool is_equal = true;
  for (int i = 0; i < 3 && is_equal; ++i) {
    write_inputs(graph, fused);
    write_inputs(graph, plain);
    assert_int_equal(graft_plan_run(fused, NULL), GRAFT_OK);
    assert_int_equal(graft_plan_run(plain, NULL), GRAFT_OK);
    is_equal = compare_outputs(graph, fused, plain);
  }
  graft_plan_destroy(plain);
  if (is_equal) return fused;
  graft_plan_destroy(fused);
  return NULL;
}

graft_plan *fusion_compare(const graft_graph *graph, graft_device *device, uint32_t flags) {
  graft_plan *plan = fusion_try(graph, device, flags);
  assert_non_null(plan);
  return plan;
}

const graft_extension *const *graft_builtin_extensions(uint32_t *out_n) {
  static const graft_extension *const none[] = {NULL};
  *out_n = 0;
  return none;
}
