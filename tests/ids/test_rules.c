// Rules of the extension interface as a stranger's extension meets them: with all that is built in registered beside
// it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graft/cpu.h"
#include "graft/graft.h"
#include "graft/serialize.h"
#include "ops/binary/binary.h"
#include "ops/copy/copy.h"
#include "ops/linear/linear.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"

enum { ROWS = 3, WIDTH = 64, N = ROWS * WIDTH };

// ---- an extension ----

static graft_status infer_like_first(graft_infer_args *args) {
  return graft_infer_elementwise(args);
}

// rules.twice.v1 has no reference: without a kernel of its own a device cannot run it as one node.
static void decompose_twice(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                            graft_tensor **out_tensors) {
  (void)attrs;
  (void)n_inputs;
  out_tensors[0] = graft_add(graph, inputs[0], inputs[0]);
}

static const graft_op_case twice_cases[] = {
    {.name = "one", .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32, .rank = 1, .shape = {4}}}}};

#define OP(name_)                                                                                                \
  .struct_size = sizeof(graft_op_def), .traits = GRAFT_OP_PURE, .name = name_, .min_inputs = 1, .max_inputs = 1, \
  .n_outputs = 1, .infer = infer_like_first, .decompose = decompose_twice, .cases = twice_cases, .n_cases = 1
static const graft_op_def ops[] = {{OP("rules.twice.v1")}, {OP("rules.thrice.v1")}};
static const graft_fusion_def fusions[] = {{.struct_size = sizeof fusions[0],
                                            .name = "rules_twice",
                                            .op = "rules.twice.v1",
                                            .forms = twice_cases,
                                            .n_forms = 1}};

typedef struct twice_args {
  const float *x;
  float *y;
  int64_t n;
} twice_args;

static void run_twice(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const twice_args *a = args;
  (void)item;
  (void)worker;
  for (int64_t i = 0; i < a->n; ++i) a->y[i] = 2 * a->x[i];
}

static graft_status encode_twice(graft_encoder *encoder, const graft_encode_args *args) {
  const twice_args a = {args->inputs[0], args->outputs[0], graft_tensor_desc_elements(args->node->inputs[0])};
  return graft_cpu_encode(
      encoder, &(graft_cpu_task){.run = run_twice, .args = &a, .args_bytes = sizeof a, .n_items = 1}, args->error);
}

static bool is_f32(const graft_node_info *node, graft_reason *why) {
  return node->inputs[0]->dtype == GRAFT_F32 || graft_refuse(why, "x is %s", node->inputs[0]->dtype->name);
}

// Asks the device about the very operator that it is asked about, or about another one that then asks back.
static graft_reason inner;  // what the question from within was answered
static bool asks_back(const graft_node_info *node, graft_reason *why) {
  if (graft_device_supports(node->device, node, false, &inner)) return graft_refuse(why, "the device answered itself");
  return true;
}

static bool asks_other(const graft_node_info *node, graft_reason *why) {
  graft_node_info other = *node;
  other.op = strcmp(node->op->name, "rules.twice.v1") == 0 ? &ops[1] : &ops[0];
  return graft_device_supports(node->device, &other, false, &inner) || graft_refuse(why, "the other one cannot");
}

#define KERNEL(name_, op_, supports_)                                                                    \
  {                                                                                                      \
    .struct_size = sizeof(graft_kernel_def), .priority = 50, .name = name_, .op = op_, .backend = "cpu", \
    .supports = supports_, .encode = encode_twice                                                        \
  }
static const graft_kernel_def plain[] = {KERNEL("twice_f32__plain", "rules.twice.v1", is_f32)};
static const graft_kernel_def asking[] = {KERNEL("twice_f32__asking", "rules.twice.v1", asks_back)};
static const graft_kernel_def circle[] = {KERNEL("twice_f32__circle", "rules.twice.v1", asks_other),
                                          KERNEL("thrice_f32__circle", "rules.thrice.v1", asks_other)};
static const graft_kernel_def over_add[] = {KERNEL("scale_f32__over", "graft.scale.v1", is_f32)};

// ---- a dtype of blocks: 16 elements, 4 bits each, with one scale ----

typedef struct q4_block {
  float scale;
  uint8_t values[8];
} q4_block;

static void q4_to_f32(const void *source, float *target, size_t n) {
  const q4_block *block = source;
  for (size_t i = 0; i < n; ++i) {
    int nibble = block[i / 16].values[i % 16 / 2] >> (i % 2 * 4) & 15;
    target[i] = block[i / 16].scale * (float)(nibble - 8);
  }
}

static void q4_from_f32(const float *source, void *target, size_t n) {
  q4_block *block = target;
  for (size_t b = 0; b < n / 16; ++b) {
    float largest = 0;
    for (size_t i = 0; i < 16; ++i) largest = fmaxf(largest, fabsf(source[16 * b + i]));
    block[b] = (q4_block){.scale = largest / 7};
    for (size_t i = 0; i < 16; ++i) {
      float step = block[b].scale > 0 ? source[16 * b + i] / block[b].scale : 0;
      block[b].values[i / 2] |= (uint8_t)(((int)lrintf(step) + 8) << (i % 2 * 4));
    }
  }
}

static const graft_dtype_def q4 = {.struct_size = sizeof q4,
                                   .name = "rules.q4",
                                   .block_elements = 16,
                                   .block_bytes = sizeof(q4_block),
                                   .alignment = _Alignof(q4_block),
                                   .is_float = true,
                                   .to_f32 = q4_to_f32,
                                   .from_f32 = q4_from_f32};
static const graft_dtype dtypes[] = {&q4};

// ---- the fixture ----

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  graft_extension base, more;
  float x[N], y[N];
} fixture;

static int set_up(void **state) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 2, .ignore_environment = true};
  fixture *f = calloc(1, sizeof *f);
  if (graft_context_create(&options, NULL, &f->context) != GRAFT_OK) return 1;
  f->base = (graft_extension){.struct_size = sizeof f->base,
                              .abi_version = GRAFT_ABI_VERSION,
                              .name = "rules",
                              .vendor = "rules",
                              .ops = ops,
                              .n_ops = 2,
                              .fusions = fusions,
                              .n_fusions = 1,
                              .dtypes = dtypes,
                              .n_dtypes = 1};
  if (graft_context_register(f->context, &f->base) != GRAFT_OK) return 1;
  if (graft_device_open(f->context, "cpu", &f->device) != GRAFT_OK) return 1;
  for (int i = 0; i < N; ++i) f->x[i] = (float)(i * 37 % 101) / 10 - 5;
  inner = (graft_reason){{0}};
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_context_destroy(f->context);
  free(f);
  return 0;
}

static void add_kernels(fixture *f, const graft_kernel_def *kernels, uint32_t n) {
  f->more = (graft_extension){.struct_size = sizeof f->more,
                              .abi_version = GRAFT_ABI_VERSION,
                              .name = "rules.more",
                              .vendor = "rules",
                              .kernels = kernels,
                              .n_kernels = n};
  if (graft_context_register(f->context, &f->more) != GRAFT_OK)
    fail_msg("%s", graft_context_error(f->context)->message);
}

static graft_graph *new_graph(fixture *f) {
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  return graph;
}

static graft_tensor *input(graft_graph *graph) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){ROWS, WIDTH}, NULL, &desc), GRAFT_OK);
  return graft_graph_input(graph, "x", &desc);
}

static graft_tensor *apply(graft_graph *graph, const char *op, graft_tensor *x) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, op, NULL, 0, &x, 1, &y);
  return y;
}

// Runs |graph| on f->x and reads |n| values into f->y; the plan is for the caller to look at.
static graft_plan *run(fixture *f, const graft_graph *graph, size_t n) {
  graft_plan *plan = NULL;
  const graft_plan_options options = {.struct_size = sizeof options, .device = f->device};
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) fail_msg("%s", graft_context_error(f->context)->message);
  assert_int_equal(graft_plan_write(plan, 0, f->x, sizeof f->x), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, f->y, n * sizeof *f->y), GRAFT_OK);
  return plan;
}

static graft_step_info step_at(const graft_plan *plan, uint32_t index) {
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(plan, index, &info);
  return info;
}

// Whether the device supports |op| on one input of |dtype|.
static bool supports(const fixture *f, const char *op, graft_dtype dtype, bool native_only, graft_reason *why) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(dtype, 2, (int64_t[]){ROWS, WIDTH}, NULL, &desc), GRAFT_OK);
  const graft_tensor_desc *descs[] = {&desc};
  const graft_op_def *def = graft_context_find_op(f->context, op);
  void *attrs = calloc(1, def->attrs_bytes + 1);
  graft_op_default_attrs(def, attrs);
  const graft_node_info node = {.struct_size = sizeof node,
                                .op = def,
                                .attrs = attrs,
                                .n_inputs = 1,
                                .n_outputs = 1,
                                .inputs = descs,
                                .outputs = descs};
  bool answer = graft_device_supports(f->device, &node, native_only, why);
  free(attrs);
  return answer;
}

// ---- the rules ----

static void KS2_queries_see_kernels_of_applications(void **state) {
  fixture *f = *state;
  graft_reason why = {{0}};
  assert_false(supports(f, "rules.twice.v1", GRAFT_F32, false, &why));
  add_kernels(f, plain, 1);
  assert_true(supports(f, "rules.twice.v1", GRAFT_F32, false, NULL));
  assert_false(supports(f, "rules.thrice.v1", GRAFT_F32, false, NULL));
}

static void KS2_a_second_query_asks_for_native_kernels_alone(void **state) {
  fixture *f = *state;
  graft_reason why = {{0}};
  add_kernels(f, plain, 1);
  assert_false(supports(f, "rules.twice.v1", GRAFT_F32, true, &why));
  assert_true(why.text[0] != '\0');
  assert_true(supports(f, "graft.silu.v1", GRAFT_F32, true, NULL));
}

static void KS2_a_fusion_alone_claims_no_support(void **state) {
  fixture *f = *state;
  graft_reason why = {{0}};
  assert_int_equal(f->base.n_fusions, 1);
  assert_false(supports(f, "rules.twice.v1", GRAFT_F32, false, &why));
  assert_true(why.text[0] != '\0');
}

static void OP3_unsupported_comes_with_a_reason(void **state) {
  fixture *f = *state;
  graft_reason why = {{0}};
  static const graft_kernel_def refusing[] = {KERNEL("twice_f32__only", "rules.twice.v1", is_f32)};
  add_kernels(f, refusing, 1);
  assert_false(supports(f, "rules.twice.v1", GRAFT_F16, false, &why));
  assert_true(strstr(why.text, "x is f16") != NULL || strstr(why.text, "no reference") != NULL);
}

static void KS2_a_callback_that_asks_back_is_refused(void **state) {
  fixture *f = *state;
  add_kernels(f, asking, 1);
  assert_true(supports(f, "rules.twice.v1", GRAFT_F32, false, NULL));
  assert_non_null(strstr(inner.text, "own answer"));
  inner = (graft_reason){{0}};
  graft_graph *graph = new_graph(f);
  graft_graph_output(graph, apply(graph, "rules.twice.v1", input(graph)), "y");
  graft_plan *plan = run(f, graph, N);  // the planner asks the same callbacks
  assert_non_null(strstr(inner.text, "own answer"));
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void KS2_two_operators_that_ask_each_other_are_refused(void **state) {
  fixture *f = *state;
  graft_reason why = {{0}};
  add_kernels(f, circle, 2);
  assert_false(supports(f, "rules.twice.v1", GRAFT_F32, false, &why));
  assert_non_null(strstr(why.text, "the other one cannot") != NULL ? why.text : strstr(why.text, "no reference"));
}

static bool rather_not(const graft_node_info *node, graft_reason *why) {
  (void)node;
  return graft_refuse(why, "small");
}

static void KS1_preferred_is_policy_and_supports_is_law(void **state) {
  fixture *f = *state;
  graft_kernel_def kernels[] = {plain[0], over_add[0]};
  kernels[0].preferred = kernels[1].preferred = rather_not;
  add_kernels(f, kernels, 2);
  graft_graph *graph = new_graph(f);
  graft_graph_output(graph, graft_scale(graph, apply(graph, "rules.twice.v1", input(graph)), 2, 0), "y");
  graft_plan *plan = run(f, graph, N);
  // Nothing native runs rules.twice.v1, so the kernel does; graft.scale.v1 stays with its own.
  assert_string_equal(step_at(plan, 0).kernel->name, "twice_f32__plain");
  assert_string_not_equal(step_at(plan, 1).kernel->name, "scale_f32__over");
  assert_non_null(strstr(step_at(plan, 1).rejections, "scale_f32__over: not preferred: small"));
  for (int i = 0; i < N; ++i) assert_float_equal(f->y[i], 4 * f->x[i], 0);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void KS5_an_override_keeps_numerics_and_aliasing(void **state) {
  fixture *f = *state;
  graft_kernel_def kernels[] = {over_add[0]};
  for (int in_place = 0; in_place < 2; ++in_place) {
    kernels[0].in_place_inputs = (uint32_t)in_place;
    add_kernels(f, kernels, 1);
    graft_graph *graph = new_graph(f);
    graft_tensor *h = graft_silu(graph, input(graph));
    graft_tensor *twice = graft_scale(graph, h, 2, 0);
    // h is read again afterwards: whoever takes over its storage too early changes the sum.
    graft_graph_output(graph, graft_add(graph, graft_scale(graph, twice, 2, 0), h), "y");
    graft_plan *plan = run(f, graph, N);
    assert_string_equal(step_at(plan, 1).kernel->name, "scale_f32__over");
    assert_false(step_at(plan, 1).is_in_place);
    assert_int_equal(step_at(plan, 2).is_in_place, in_place);
    for (int i = 0; i < N; ++i) {
      double silu = (double)f->x[i] / (1 + exp(-(double)f->x[i]));
      assert_true(fabs((double)f->y[i] - 5 * silu) < 1e-5);
    }
    graft_plan_destroy(plan);
    graft_graph_destroy(graph);
    assert_int_equal(graft_context_unregister(f->context, &f->more), GRAFT_OK);
  }
}

static void OP6_blocks_go_through_graphs_and_conversions(void **state) {
  fixture *f = *state;
  assert_ptr_equal(graft_context_find_dtype(f->context, "rules.q4"), &q4);
  graft_graph *graph = new_graph(f);
  graft_tensor *narrow = graft_cast(graph, input(graph), &q4);
  assert_int_equal(graft_tensor_desc_bytes(graft_tensor_describe(narrow)), N / 16 * sizeof(q4_block));
  graft_tensor *rows = graft_slice(graph, narrow, 0, 1, 3);  // rows of blocks are sliced like others
  graft_graph_output(graph, graft_cast(graph, graft_contiguous(graph, rows), GRAFT_F32), "y");
  graft_plan *plan = run(f, graph, 2 * WIDTH);
  q4_block blocks[WIDTH / 16];
  float want[WIDTH];
  for (int row = 0; row < 2; ++row) {
    q4_from_f32(f->x + (row + 1) * WIDTH, blocks, WIDTH);
    q4_to_f32(blocks, want, WIDTH);
    assert_memory_equal(f->y + row * WIDTH, want, sizeof want);
  }
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void OP6_weights_of_blocks_run_in_built_in_operators(void **state) {
  fixture *f = *state;
  static float wide[4 * WIDTH];
  q4_block weight[4 * WIDTH / 16];
  graft_tensor_desc desc;
  for (int i = 0; i < 4 * WIDTH; ++i) wide[i] = (float)(i * 29 % 17) - 8;
  q4_from_f32(wide, weight, 4 * WIDTH);
  q4_to_f32(weight, wide, 4 * WIDTH);
  assert_int_equal(graft_tensor_desc_init(&q4, 2, (int64_t[]){4, WIDTH}, NULL, &desc), GRAFT_OK);
  graft_graph *graph = new_graph(f);
  const graft_constant bytes = {.struct_size = sizeof bytes, .data = weight, .bytes = sizeof weight};
  graft_tensor *w = graft_graph_constant(graph, "w", &desc, &bytes);
  graft_graph_output(graph, graft_linear(graph, input(graph), w, graft_graph_none()), "y");
  graft_plan *plan = run(f, graph, ROWS * 4);
  for (int row = 0; row < ROWS; ++row) {
    for (int column = 0; column < 4; ++column) {
      double sum = 0;
      for (int k = 0; k < WIDTH; ++k) sum += (double)f->x[row * WIDTH + k] * (double)wide[column * WIDTH + k];
      assert_true(fabs((double)f->y[row * 4 + column] - sum) < 1e-3);
    }
  }
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static graft_status take_text(void *user, const char *text, size_t size) {
  char *all = user;
  assert_true(strlen(all) + size < 2048);
  strncat(all, text, size);
  return GRAFT_OK;
}

static void OP7_dtypes_of_applications_are_saved_by_name(void **state) {
  fixture *f = *state;
  char text[2048] = "", again[2048] = "";
  graft_graph *graph = new_graph(f), *loaded = NULL;
  graft_graph_output(graph, graft_cast(graph, input(graph), &q4), "y");
  assert_int_equal(graft_graph_save(graph, (graft_writer){take_text, text}), GRAFT_OK);
  assert_non_null(strstr(text, "rules.q4[3, 64] = graft.cast.v1(%0) {dtype=rules.q4}"));
  assert_int_equal(graft_graph_load(f->context, text, strlen(text), NULL, &loaded), GRAFT_OK);
  assert_int_equal(graft_graph_save(loaded, (graft_writer){take_text, again}), GRAFT_OK);
  assert_string_equal(text, again);
  graft_graph_destroy(graph);
  graft_graph_destroy(loaded);
}

static void OP1_what_a_plan_uses_stays(void **state) {
  fixture *f = *state;
  add_kernels(f, plain, 1);
  graft_graph *graph = new_graph(f);
  graft_graph_output(graph, apply(graph, "rules.twice.v1", input(graph)), "y");
  graft_plan *plan = run(f, graph, N);
  graft_graph_destroy(graph);
  assert_int_equal(graft_context_unregister(f->context, &f->more), GRAFT_E_BUSY);
  assert_int_equal(graft_context_unregister(f->context, &f->base), GRAFT_E_BUSY);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  graft_plan_destroy(plan);
  assert_int_equal(graft_context_unregister(f->context, &f->more), GRAFT_OK);
  assert_int_equal(graft_context_unregister(f->context, &f->base), GRAFT_OK);
}

static void OP4_the_core_asks_traits_and_not_names(void **state) {
  fixture *f = *state;
  // The same operator under a stranger's name is treated the same: dropped when nothing reads it, kept when it acts.
  graft_graph *graph = new_graph(f);
  graft_tensor *x = input(graph);
  (void)apply(graph, "rules.twice.v1", x);
  (void)graft_scale(graph, x, 3, 0);
  graft_graph_output(graph, graft_scale(graph, x, 2, 0), "y");
  graft_plan *plan = run(f, graph, N);
  assert_int_equal(graft_plan_n_steps(plan), 1);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

// A result written into a part of a larger tensor: strided outputs, by a kernel that can and through a copy where not.
static void OP4_outputs_may_have_strides(void **state) {
  fixture *f = *state;
  graft_graph *graph = new_graph(f);
  graft_tensor *x = input(graph), *y = NULL;
  graft_tensor *whole = graft_scale(graph, x, 0, 0);
  graft_tensor *right = graft_slice(graph, whole, 1, WIDTH / 2, WIDTH), *left = graft_slice(graph, x, 1, 0, WIDTH / 2);
  const graft_application call = {
      .struct_size = sizeof call, .op = "graft.silu.v1", .inputs = &left, .n_inputs = 1, .into = right};
  graft_graph_apply_into(graph, &call, &y);
  graft_graph_output(graph, whole, "y");
  assert_int_equal(graft_graph_status(graph), GRAFT_OK);
  graft_plan *plan = run(f, graph, N);
  for (int i = 0; i < N; ++i) {
    int column = i % WIDTH;
    double from = column < WIDTH / 2 ? 0 : (double)f->x[i - WIDTH / 2];
    assert_true(fabs((double)f->y[i] - from / (1 + exp(-from))) < 1e-5);
  }
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

// The rows of a cache are replaced one after another; what reads the cache behind a copy sees it.
static void OP4_copies_go_into_parts_of_larger_tensors(void **state) {
  fixture *f = *state;
  graft_graph *graph = new_graph(f);
  graft_tensor *x = input(graph), *cache = graft_scale(graph, x, 0, 7);
  for (int64_t row = 0; row < ROWS - 1; ++row) {
    graft_tensor *from = graft_slice(graph, x, 0, row + 1, row + 2), *to = graft_slice(graph, cache, 0, row, row + 1);
    assert_non_null(graft_copy_to(graph, from, to));
  }
  graft_graph_output(graph, cache, "y");
  assert_int_equal(graft_graph_status(graph), GRAFT_OK);
  graft_plan *plan = run(f, graph, N);
  for (int i = 0; i < N; ++i) {
    const double want = i < N - WIDTH ? (double)f->x[i + WIDTH] : 7;
    if ((double)f->y[i] != want) fail_msg("element %d is %g, not %g", i, (double)f->y[i], want);
  }
  graft_plan_destroy(plan);
  assert_null(graft_copy_to(graph, x, NULL));
  assert_int_equal(graft_graph_status(graph), GRAFT_E_INVALID);
  graft_graph_destroy(graph);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(KS2_queries_see_kernels_of_applications),      TEST(KS2_a_second_query_asks_for_native_kernels_alone),
      TEST(KS2_a_fusion_alone_claims_no_support),         TEST(OP3_unsupported_comes_with_a_reason),
      TEST(KS2_a_callback_that_asks_back_is_refused),     TEST(KS2_two_operators_that_ask_each_other_are_refused),
      TEST(KS1_preferred_is_policy_and_supports_is_law),  TEST(KS5_an_override_keeps_numerics_and_aliasing),
      TEST(OP6_blocks_go_through_graphs_and_conversions), TEST(OP6_weights_of_blocks_run_in_built_in_operators),
      TEST(OP7_dtypes_of_applications_are_saved_by_name), TEST(OP1_what_a_plan_uses_stays),
      TEST(OP4_the_core_asks_traits_and_not_names),       TEST(OP4_outputs_may_have_strides),
      TEST(OP4_copies_go_into_parts_of_larger_tensors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
