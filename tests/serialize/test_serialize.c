// OP7: graphs as text. What is saved and loaded plans and computes the same; what cannot be understood is refused with
// its line.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fail_alloc.h"
#include "graft/graft.h"
#include "graft/serialize.h"
#include "ops/binary/binary.h"
#include "ops/concat/concat.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/view/view.h"

// types.all.v1: an attribute of every type; the output looks like the input.
typedef struct all_attrs {
  double eps;
  int64_t groups;
  bool affine;
  int32_t mode;
  graft_dtype accumulate;
  int64_t axes[4];
  int32_t n_axes;
} all_attrs;

static const char *const modes[] = {"plain", "plain, but longer", "root", NULL};

#define MEMBER(member) .name = #member, .offset = offsetof(all_attrs, member)
static const graft_attr_def all_schema[] = {
    {MEMBER(eps), .type = GRAFT_ATTR_F64, .default_f64 = 1e-6},
    {MEMBER(groups), .type = GRAFT_ATTR_I64, .default_i64 = 32},
    {MEMBER(affine), .type = GRAFT_ATTR_BOOL},
    {MEMBER(mode), .type = GRAFT_ATTR_ENUM, .choices = modes},
    {MEMBER(accumulate), .type = GRAFT_ATTR_DTYPE, .default_i64 = GRAFT_DTYPE_F32},
    {MEMBER(axes), .type = GRAFT_ATTR_I64S, .max_count = 4, .count_offset = offsetof(all_attrs, n_axes)},
};

static graft_status reference(const graft_reference_args *args) {
  (void)args;
  return GRAFT_OK;
}

static const graft_op_def all_ops[] = {{.struct_size = sizeof all_ops[0],
                                        .name = "types.all.v1",
                                        .min_inputs = 1,
                                        .max_inputs = 2,
                                        .n_outputs = 1,
                                        .optional_inputs = 2,
                                        .attrs = all_schema,
                                        .n_attrs = sizeof all_schema / sizeof all_schema[0],
                                        .attrs_bytes = sizeof(all_attrs),
                                        .infer = graft_infer_elementwise,
                                        .reference = reference}};

static const graft_extension types_extension = {.struct_size = sizeof types_extension,
                                                .abi_version = GRAFT_ABI_VERSION,
                                                .name = "types",
                                                .vendor = "types",
                                                .ops = all_ops,
                                                .n_ops = 1};

// Collects text; a writer with |n_allowed| > 0 fails after so many pieces.
typedef struct text_sink {
  char text[16384];
  size_t n;
  int n_allowed, n_pieces;
} text_sink;

static graft_status take_text(void *user, const char *text, size_t size) {
  text_sink *sink = user;
  if (sink->n_allowed > 0 && ++sink->n_pieces > sink->n_allowed) return GRAFT_E_IO;
  assert_true(sink->n + size < sizeof sink->text);
  memcpy(sink->text + sink->n, text, size);
  sink->n += size;
  return GRAFT_OK;
}

static graft_writer sink_writer(text_sink *sink) {
  return (graft_writer){.write = take_text, .user = sink};
}

static const float weight[16] = {0.5f, -1, 2, 0.25f, 1, 3, -2, 0.125f, 4, -0.5f, 1, 1, 2, -3, 0.75f, 1};

static graft_status find_weight(void *user, const char *name, const graft_tensor_desc *desc, graft_error *error,
                                graft_constant *out_constant) {
  (void)user;
  if (strcmp(name, "w") != 0 && strcmp(name, "norm.weight") != 0)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "there is no weight %s", name);
  out_constant->data = weight;
  out_constant->bytes = graft_tensor_desc_bytes(desc);
  return GRAFT_OK;
}

static const graft_graph_source source = {.struct_size = sizeof source, .find_constant = find_weight};

static int set_up(void **state) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1, .ignore_environment = true};
  graft_context *context = NULL;
  if (graft_context_create(&options, NULL, &context) != GRAFT_OK) return 1;
  if (graft_context_register(context, &types_extension) != GRAFT_OK) return 1;
  *state = context;
  return 0;
}

static int tear_down(void **state) {
  graft_context_destroy(*state);
  return 0;
}

static graft_tensor_desc desc_of(int32_t rank, const int64_t *shape) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, rank, shape, NULL, &desc), GRAFT_OK);
  return desc;
}

static graft_tensor *constant(graft_graph *graph, const char *name, int32_t rank, const int64_t *shape) {
  const graft_tensor_desc desc = desc_of(rank, shape);
  const graft_constant bytes = {.struct_size = sizeof bytes, .data = weight, .bytes = graft_tensor_desc_bytes(&desc)};
  return graft_graph_constant(graph, name, &desc, &bytes);
}

// Several inputs and outputs, views, an omitted input, scopes, constants.
static graft_graph *make_graph(graft_context *context) {
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  const graft_tensor_desc desc = desc_of(2, (int64_t[]){3, 4});
  graft_tensor *x = graft_graph_input(graph, "x", &desc);
  graft_tensor *z = graft_graph_input(graph, "z \"quoted\" \\ \n\xc3\xa9", &desc);
  graft_tensor *w = constant(graph, "w", 2, (int64_t[]){4, 4});
  graft_tensor *norm = constant(graph, "norm.weight", 1, (int64_t[]){4});
  graft_graph_scope_push(graph, "layers.%d", 0);
  graft_tensor *h = graft_rms_norm(graph, x, norm, 0.1);
  graft_graph_scope_push(graph, "a \"b\"\n");
  h = graft_linear(graph, h, w, graft_graph_none());
  graft_graph_scope_pop(graph);
  graft_graph_scope_pop(graph);
  graft_tensor *parts[] = {h, graft_slice(graph, z, 0, 1, 2)};
  graft_tensor *y = graft_softmax(graph, graft_concat(graph, parts, 2, 0));
  graft_graph_output(graph, y, "y");
  graft_graph_output(graph, h, "h");
  graft_graph_output(graph, y, "y again");
  assert_int_equal(graft_graph_status(graph), GRAFT_OK);
  return graph;
}

static char *save(const graft_graph *graph) {
  text_sink text = {.n = 0};
  assert_int_equal(graft_graph_save(graph, sink_writer(&text)), GRAFT_OK);
  char *copy = malloc(text.n + 1);
  assert_non_null(copy);
  memcpy(copy, text.text, text.n);
  copy[text.n] = '\0';
  return copy;
}

static graft_graph *load(graft_context *context, const char *text) {
  graft_graph *graph = NULL;
  if (graft_graph_load(context, text, strlen(text), &source, &graph) != GRAFT_OK)
    fail_msg("%s\n%s", graft_context_error(context)->message, text);
  graft_error error;
  if (graft_graph_verify(graph, &error) != GRAFT_OK) fail_msg("%s", error.message);
  return graph;
}

// The plan as `graft plan` prints it, and the bytes of all outputs.
static void plan_and_run(graft_context *context, const graft_graph *graph, text_sink *text, float *results) {
  graft_device *device = NULL;
  graft_plan *plan = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const graft_plan_options options = {.struct_size = sizeof options, .device = device};
  assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
  assert_int_equal(graft_plan_print(plan, sink_writer(text)), GRAFT_OK);
  for (uint32_t i = 0; i < 2; ++i) assert_int_equal(graft_plan_write(plan, i, weight, 12 * sizeof(float)), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, results, 16 * sizeof(float)), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 1, results + 16, 12 * sizeof(float)), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 2, results + 28, 16 * sizeof(float)), GRAFT_OK);
  graft_plan_destroy(plan);
}

static void OP7_a_loaded_graph_plans_and_computes_the_same(void **state) {
  graft_context *context = *state;
  graft_graph *graph = make_graph(context);
  char *text = save(graph);
  graft_graph *loaded = load(context, text);
  char *again = save(loaded);
  assert_string_equal(again, text);
  static text_sink plans[2];
  memset(plans, 0, sizeof plans);
  float results[2][44];
  plan_and_run(context, graph, &plans[0], results[0]);
  plan_and_run(context, loaded, &plans[1], results[1]);
  assert_int_equal(plans[0].n, plans[1].n);
  assert_memory_equal(plans[0].text, plans[1].text, plans[0].n);
  assert_memory_equal(results[0], results[1], sizeof results[0]);
  free(text);
  free(again);
  graft_graph_destroy(graph);
  graft_graph_destroy(loaded);
}

static void OP7_every_type_of_attribute_survives(void **state) {
  graft_context *context = *state;
  const all_attrs cases[] = {
      {.eps = 0.1,
       .groups = INT64_MIN,
       .affine = true,
       .mode = 1,
       .accumulate = GRAFT_BF16,
       .axes = {3, -1},
       .n_axes = 2},
      {.eps = -HUGE_VAL, .groups = INT64_MAX, .mode = 1, .accumulate = NULL, .n_axes = 0},
      {.eps = 0x1.fffffffffffffp-1022, .groups = 0, .accumulate = GRAFT_F8_E4M3, .axes = {1, 2, 3, 4}, .n_axes = 4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    graft_graph *graph = NULL;
    assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
    const graft_tensor_desc desc = desc_of(2, (int64_t[]){2, 3});
    graft_tensor *inputs[] = {graft_graph_input(graph, "x", &desc), graft_graph_none()}, *y = NULL;
    graft_graph_apply(graph, "types.all.v1", &cases[i], sizeof cases[i], inputs, 2, &y);
    graft_graph_output(graph, y, "y");
    char *text = save(graph);
    graft_graph *loaded = load(context, text);
    char *again = save(loaded);
    assert_string_equal(again, text);
    free(text);
    free(again);
    graft_graph_destroy(graph);
    graft_graph_destroy(loaded);
  }
}

static void OP7_attributes_that_are_left_out_have_their_defaults(void **state) {
  graft_graph *graph = load(*state,
                            "graft-graph 1\n# what an older graft wrote\n\n%0 f32[2, 4] = input \"x\"\n"
                            "%1 f32[2, 4] = graft.softmax.v1(%0)\noutput \"y\" = %1\nend");
  assert_int_equal(graft_graph_n_nodes(graph), 1);
  graft_graph_destroy(graph);
}

static void OP7_results_written_over_others_stay_so(void **state) {
  graft_context *context = *state;
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  const graft_tensor_desc desc = desc_of(2, (int64_t[]){2, 3});
  graft_tensor *x = graft_graph_input(graph, "x", &desc), *y = NULL;
  graft_tensor *inputs[] = {x, x};
  const graft_application call = {
      .struct_size = sizeof call, .op = "graft.add.v1", .inputs = inputs, .n_inputs = 2, .into = x};
  graft_graph_apply_into(graph, &call, &y);
  graft_graph_output(graph, y, "y");
  char *text = save(graph);
  assert_non_null(strstr(text, "graft.add.v1(%0, %0) -> %0"));
  graft_graph *loaded = load(context, text);
  char *again = save(loaded);
  assert_string_equal(again, text);
  free(text);
  free(again);
  graft_graph_destroy(graph);
  graft_graph_destroy(loaded);
}

typedef struct refusal {
  const char *text;
  graft_status status;
  const char *part;
} refusal;

#define HEAD "graft-graph 1\n%0 f32[2, 4] = input \"x\"\n"

static const refusal refusals[] = {
    {"", GRAFT_E_FORMAT, "line 1: no graph"},
    {"\x89PNG\r\n", GRAFT_E_FORMAT, "no graph"},
    {"graft-graph 2\nend\n", GRAFT_E_UNSUPPORTED, "update graft"},
    {"graft-graph 0\nend\n", GRAFT_E_FORMAT, "format 0"},
    {"graft-graph 1", GRAFT_E_FORMAT, "cut"},
    {HEAD, GRAFT_E_FORMAT, "line 3: the text is cut"},
    {HEAD "end\nmore\n", GRAFT_E_FORMAT, "behind the end"},
    {HEAD "nonsense\nend\n", GRAFT_E_FORMAT, "line 3: expected"},
    {"graft-graph 1\n%1 f32[2] = input \"x\"\nend\n", GRAFT_E_FORMAT, "the next value is %0, not %1"},
    {"graft-graph 1\n%0 f33[2] = input \"x\"\nend\n", GRAFT_E_NOT_FOUND, "line 2: there is no dtype f33"},
    {"graft-graph 1\n%0 f32[-2] = input \"x\"\nend\n", GRAFT_E_SHAPE, ""},
    {"graft-graph 1\n%0 f32[1,1,1,1,1,1,1,1,1] = input \"x\"\nend\n", GRAFT_E_FORMAT, "more than 8 dimensions"},
    {"graft-graph 1\n%0 f32[99999999999999999999] = input \"x\"\nend\n", GRAFT_E_FORMAT, "no whole number"},
    {"graft-graph 1\n%0 f32[4611686018427387904, 8] = input \"x\"\nend\n", GRAFT_E_NO_MEMORY, ""},
    {"graft-graph 1\n%0 f32[2] = input \"x\nend\n", GRAFT_E_FORMAT, "does not end on its line"},
    {"graft-graph 1\n%0 f32[2] = input \"\\q\"\nend\n", GRAFT_E_FORMAT, "backslash"},
    {"graft-graph 1\n%0 f32[2] = input \"\\x00\"\nend\n", GRAFT_E_FORMAT, "backslash"},
    {"graft-graph 1\n%0 f32[2] = constant \"unknown\"\nend\n", GRAFT_E_NOT_FOUND, "no weight unknown"},
    {HEAD "%1 f32[2, 4] = input \"x\"\nend\n", GRAFT_E_EXISTS, "already"},
    {HEAD "%1 f32[2, 4] = acme.softmax.v1(%0)\nend\n", GRAFT_E_NOT_FOUND,
     "line 3: there is no operator acme.softmax.v1"},
    {HEAD "%1 f32[2, 4] = graft.softmax.v9(%0)\nend\n", GRAFT_E_NOT_FOUND, "only graft.softmax.v1"},
    {HEAD "%1 f32[2, 4] = graft.softmax.v1(%1)\nend\n", GRAFT_E_FORMAT, "%1 is no value that was made before"},
    {HEAD "%1 f32[2, 4] = graft.softmax.v1(%0, %0)\nend\n", GRAFT_E_INVALID, "takes 1 input, not 2"},
    {HEAD "%1 f32[2, 4] = graft.softmax.v1(none)\nend\n", GRAFT_E_INVALID, "optional"},
    {HEAD "%1 f32[2, 5] = graft.softmax.v1(%0)\nend\n", GRAFT_E_FORMAT, "\"%1 f32[2, 5]\" is not what"},
    {HEAD "%7 f32[2, 4] = graft.softmax.v1(%0)\nend\n", GRAFT_E_FORMAT, "is not what graft.softmax.v1 gives: %1"},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {epsilon=1}\nend\n", GRAFT_E_NOT_FOUND, "no attribute \"epsilon\""},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {eps=1, eps=2}\nend\n", GRAFT_E_FORMAT, "twice"},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {eps=big}\nend\n", GRAFT_E_FORMAT, "\"big\" is no number"},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {affine=2}\nend\n", GRAFT_E_FORMAT, "neither true nor false"},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {mode=square}\nend\n", GRAFT_E_NOT_FOUND,
     "\"square\" is none of the choices"},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {axes=[1, 2, 3, 4, 5]}\nend\n", GRAFT_E_FORMAT, "at most 4"},
    {HEAD "%1 f32[2, 4] = types.all.v1(%0) {eps=1\nend\n", GRAFT_E_FORMAT, "expected"},
    {HEAD "output \"y\" = %3\nend\n", GRAFT_E_FORMAT, "%3 is no value"},
    {HEAD "output \"y\" = %0\noutput \"y\" = %0\nend\n", GRAFT_E_EXISTS, "already"},
};

static void OP7_what_is_no_graph_is_refused_with_its_line(void **state) {
  graft_context *context = *state;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; ++i) {
    graft_graph *graph = NULL;
    const refusal *r = &refusals[i];
    graft_status status = graft_graph_load(context, r->text, strlen(r->text), &source, &graph);
    const graft_error *error = graft_context_error(context);
    if (status != r->status || error->status != r->status || strstr(error->message, r->part) == NULL)
      fail_msg("text %zu: %s, \"%s\" does not say \"%s\"", i, graft_status_name(status), error->message, r->part);
    assert_null(graph);
  }
  graft_graph *graph = NULL;
  assert_int_equal(graft_graph_load(context, "graft-graph 1\0end\n", 18, &source, &graph), GRAFT_E_FORMAT);
  assert_int_equal(graft_graph_load(context, NULL, 0, NULL, &graph), GRAFT_E_FORMAT);
  const char *text = "graft-graph 1\n%0 f32[4] = constant \"w\"\nend\n";
  assert_int_equal(graft_graph_load(context, text, strlen(text), NULL, &graph), GRAFT_E_NOT_FOUND);
  assert_non_null(strstr(graft_context_error(context)->message, "nobody knows"));
}

static void OP7_every_cut_text_is_refused(void **state) {
  graft_graph *graph = make_graph(*state);
  char *text = save(graph);
  size_t n = strlen(text);
  for (size_t cut = 0; cut + 1 < n; ++cut) {
    graft_graph *loaded = NULL;
    if (graft_graph_load(*state, text, cut, &source, &loaded) == GRAFT_OK)
      fail_msg("%zu of %zu bytes are a graph", cut, n);
  }
  free(text);
  graft_graph_destroy(graph);
}

static void OP7_a_failed_graph_and_a_failing_writer(void **state) {
  graft_graph *graph = make_graph(*state);
  text_sink text = {.n_allowed = 5};
  assert_int_equal(graft_graph_save(graph, sink_writer(&text)), GRAFT_E_IO);
  GRAFT_GRAPH_FAIL(graph, GRAFT_E_SHAPE, "too wide");
  assert_int_equal(graft_graph_save(graph, sink_writer(&text)), GRAFT_E_SHAPE);
  graft_graph_destroy(graph);
}

typedef struct sweep {
  graft_context *context;
  const char *text;
} sweep;

static void try_load(void *user) {
  const sweep *s = user;
  graft_graph *graph = NULL;
  graft_status status = graft_graph_load(s->context, s->text, strlen(s->text), &source, &graph);
  if (status != GRAFT_OK) assert_int_equal(status, GRAFT_E_NO_MEMORY);
  graft_graph_destroy(graph);
}

static void check_load(void *user, int64_t failed) {
  (void)user;
  (void)failed;
}

static void OP7_every_failing_allocation_is_a_status(void **state) {
  graft_graph *graph = make_graph(*state);
  char *text = save(graph);
  sweep s = {*state, text};
  assert_true(fail_alloc_sweep(try_load, check_load, &s) > 5);
  free(text);
  graft_graph_destroy(graph);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(OP7_a_loaded_graph_plans_and_computes_the_same),
      TEST(OP7_every_type_of_attribute_survives),
      TEST(OP7_attributes_that_are_left_out_have_their_defaults),
      TEST(OP7_results_written_over_others_stay_so),
      TEST(OP7_what_is_no_graph_is_refused_with_its_line),
      TEST(OP7_every_cut_text_is_refused),
      TEST(OP7_a_failed_graph_and_a_failing_writer),
      TEST(OP7_every_failing_allocation_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
