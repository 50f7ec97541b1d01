// The builder: what it makes, what it refuses, and that the first refusal sticks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "mock.h"
#include "src/graph/graph_internal.h"

typedef struct fixture {
  graft_context *context;
  graft_graph *graph;
  graft_tensor *x;  // f32[4, 6]
} fixture;

static graft_tensor_desc describe(graft_dtype dtype, int32_t rank, const int64_t *shape) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(dtype, rank, shape, NULL, &desc), GRAFT_OK);
  return desc;
}

static int set_up(void **state) {
  static fixture f;
  f.context = mock_context();
  assert_int_equal(graft_graph_create(f.context, &f.graph), GRAFT_OK);
  graft_tensor_desc desc = describe(GRAFT_F32, 2, (int64_t[]){4, 6});
  f.x = graft_graph_input(f.graph, "x", &desc);
  assert_non_null(f.x);
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_graph_destroy(f->graph);
  graft_context_destroy(f->context);
  return 0;
}

static graft_tensor *apply1(graft_graph *graph, const char *op, graft_tensor *input) {
  graft_tensor *output;
  graft_graph_apply(graph, op, NULL, 0, &input, 1, &output);
  return output;
}

static graft_tensor *add(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  graft_tensor *inputs[] = {a, b}, *output;
  graft_graph_apply(graph, "mock.add.v1", NULL, 0, inputs, 2, &output);
  return output;
}

// The failure is |status|, its sentence holds |part|, and later calls return nothing and do not change it.
static void assert_failed(fixture *f, graft_status status, const char *part) {
  assert_int_equal(graft_graph_status(f->graph), status);
  const graft_error *error = graft_graph_error(f->graph);
  if (strstr(error->message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error->message, part);
  assert_string_equal(graft_context_error(f->context)->message, error->message);
  graft_error before = *error;
  uint32_t n_tensors = f->graph->n_tensors;
  assert_null(apply1(f->graph, "mock.norm.v1", f->x));
  assert_null(apply1(f->graph, "mock.norm.v1", NULL));
  assert_null(graft_graph_input(f->graph, "later", &f->x->desc));
  graft_graph_output(f->graph, f->x, "later");
  assert_null(GRAFT_GRAPH_FAIL(f->graph, GRAFT_E_IO, "later"));
  assert_memory_equal(&before, error, sizeof before);
  assert_int_equal(f->graph->n_tensors, n_tensors);
  assert_int_equal(graft_graph_n_outputs(f->graph), 0);
}

static void OP2_apply_makes_a_tensor_with_edges(void **state) {
  fixture *f = *state;
  graft_graph_scope_push(f->graph, "layers.%d", 3);
  graft_tensor *y = apply1(f->graph, "mock.norm.v1", f->x);
  graft_tensor *sum = add(f->graph, y, y);
  graft_graph_scope_pop(f->graph);
  graft_tensor *last = add(f->graph, sum, f->x);
  graft_graph_output(f->graph, last, "y");
  assert_int_equal(graft_graph_status(f->graph), GRAFT_OK);
  assert_int_equal(graft_graph_n_nodes(f->graph), 3);
  assert_string_equal(graft_tensor_name(y), "layers.3.norm#0");
  assert_string_equal(graft_tensor_name(last), "add#2");
  assert_int_equal(y->n_uses, 2);
  assert_int_equal(f->x->n_uses, 2);
  assert_int_equal(last->n_uses, 0);
  assert_ptr_equal(sum->node->inputs[1], y);
  assert_true(last->is_output);
  const char *name = NULL;
  assert_ptr_equal(graft_graph_output_at(f->graph, 0, &name), last);
  assert_string_equal(name, "y");
  assert_ptr_equal(graft_graph_find_output(f->graph, "y"), last);
  assert_ptr_equal(graft_graph_find_input(f->graph, "x"), f->x);
  assert_null(graft_graph_find_input(f->graph, "y"));
  assert_null(graft_graph_input_at(f->graph, 1));
  assert_null(graft_graph_output_at(f->graph, 1, NULL));
}

static void OP2_attributes_are_copied_or_default(void **state) {
  fixture *f = *state;
  mock_norm_attrs attrs = {.eps = 0.5, .groups = 2, .mode = 0, .n_axes = 1};
  graft_tensor *y, *z = apply1(f->graph, "mock.norm.v1", f->x);
  graft_graph_apply(f->graph, "mock.norm.v1", &attrs, sizeof attrs, &f->x, 1, &y);
  attrs.eps = 7;
  const mock_norm_attrs *kept = y->node->attrs, *defaults = z->node->attrs;
  assert_true(kept->eps == 0.5);
  assert_int_equal(kept->groups, 2);
  assert_true(defaults->eps == 1e-5);
  assert_int_equal(defaults->groups, -3);
  assert_true(defaults->affine);
  assert_int_equal(defaults->mode, 1);
  assert_ptr_equal(defaults->accumulate, GRAFT_BF16);
  assert_int_equal(defaults->n_axes, 4);
  assert_int_equal(defaults->axes[3], 7);
}

static void OP4_several_outputs_and_omitted_inputs(void **state) {
  fixture *f = *state;
  graft_tensor *halves[2], *inputs[] = {f->x, graft_graph_none()}, *y;
  graft_graph_apply(f->graph, "mock.split.v1", NULL, 0, &f->x, 1, halves);
  graft_graph_apply(f->graph, "mock.norm.v1", NULL, 0, inputs, 2, &y);
  assert_int_equal(graft_graph_status(f->graph), GRAFT_OK);
  assert_int_equal(halves[1]->desc.shape[0], 2);
  assert_int_equal(halves[1]->output_index, 1);
  assert_string_equal(graft_tensor_name(halves[0]), "split#0");
  assert_string_equal(graft_tensor_name(halves[1]), "split#0:1");
  assert_null(y->node->inputs[1]);
}

static void views_share_storage(void **state) {
  fixture *f = *state;
  mock_slice_attrs attrs = {.start = 1, .length = 2};
  graft_tensor *part, *inner;
  graft_graph_apply(f->graph, "mock.slice.v1", &attrs, sizeof attrs, &f->x, 1, &part);
  graft_graph_apply(f->graph, "mock.slice.v1", &attrs, sizeof attrs, &part, 1, &inner);
  assert_failed(f, GRAFT_E_SHAPE, "rows 1 + 2");
  assert_ptr_equal(part->view_of, f->x);
  assert_int_equal(part->view_offset, 24);
  assert_null(inner);
  assert_string_equal(graft_graph_error(f->graph)->op, "mock.slice.v1");
}

static void a_constant_must_cover_its_description(void **state) {
  fixture *f = *state;
  static const float data[6] = {0};
  graft_constant constant = {.struct_size = sizeof constant, .data = data, .bytes = sizeof data};
  graft_tensor_desc fits = describe(GRAFT_F32, 1, (int64_t[]){6}), large = describe(GRAFT_F32, 1, (int64_t[]){7});
  graft_tensor *w = graft_graph_constant(f->graph, "w", &fits, &constant);
  assert_non_null(w);
  assert_int_equal(w->kind, GRAFT_TENSOR_CONSTANT);
  assert_ptr_equal(w->constant.data, data);
  assert_null(graft_graph_constant(f->graph, "too large", &large, &constant));
  assert_failed(f, GRAFT_E_INVALID, "\"too large\" has 24 bytes; its description covers 28");
}

static void unset_struct_size_is_refused(void **state) {
  fixture *f = *state;
  graft_constant constant = {.data = f, .bytes = 1000};
  graft_graph_constant(f->graph, "w", &f->x->desc, &constant);
  assert_failed(f, GRAFT_E_INVALID, "struct_size");
}

static void OP3_unknown_operator_is_refused(void **state) {
  fixture *f = *state;
  assert_null(apply1(f->graph, "mock.nothing.v1", f->x));
  assert_failed(f, GRAFT_E_NOT_FOUND, "mock.nothing.v1");
}

static void arity_is_checked(void **state) {
  fixture *f = *state;
  assert_null(apply1(f->graph, "mock.add.v1", f->x));
  assert_failed(f, GRAFT_E_INVALID, "takes 2 inputs, not 1");
}

static void only_optional_inputs_may_be_omitted(void **state) {
  fixture *f = *state;
  assert_null(add(f->graph, f->x, graft_graph_none()));
  assert_failed(f, GRAFT_E_INVALID, "not optional");
}

static void a_null_input_is_a_failure_of_its_own(void **state) {
  fixture *f = *state;
  assert_null(add(f->graph, f->x, NULL));
  assert_failed(f, GRAFT_E_INVALID, "NULL");
}

static void outputs_are_null_after_a_failure(void **state) {
  fixture *f = *state;
  graft_tensor *halves[2] = {f->x, f->x};
  const int line = __LINE__ + 1;
  GRAFT_GRAPH_FAIL(f->graph, GRAFT_E_SHAPE, "a %s of %d", "constructor", 3);
  assert_int_equal(graft_graph_error(f->graph)->line, line);
  assert_non_null(strstr(graft_graph_error(f->graph)->file, "test_graph.c"));
  graft_graph_apply(f->graph, "mock.split.v1", NULL, 0, &f->x, 1, halves);
  assert_null(halves[0]);
  assert_null(halves[1]);
  assert_int_equal(graft_tensor_describe(halves[0])->rank, 0);
  assert_string_equal(graft_tensor_name(NULL), "");
  assert_failed(f, GRAFT_E_SHAPE, "a constructor of 3");
}

static void tensors_of_other_graphs_are_refused(void **state) {
  fixture *f = *state;
  graft_graph *other;
  assert_int_equal(graft_graph_create(f->context, &other), GRAFT_OK);
  graft_tensor *theirs = graft_graph_input(other, "theirs", &f->x->desc);
  assert_null(add(f->graph, f->x, theirs));
  assert_failed(f, GRAFT_E_INVALID, "(theirs) belongs to another graph");
  graft_graph_output(other, f->x, "mine");
  assert_int_equal(graft_graph_status(other), GRAFT_E_INVALID);
  graft_graph_destroy(other);
}

static void attribute_size_must_match(void **state) {
  fixture *f = *state;
  graft_tensor *y;
  graft_graph_apply(f->graph, "mock.norm.v1", f, 8, &f->x, 1, &y);
  assert_failed(f, GRAFT_E_INVALID, "not 8");
}

static void attributes_are_checked_by_schema(void **state) {
  fixture *f = *state;
  mock_norm_attrs wrong[4] = {{.mode = 2}, {.mode = -1}, {.n_axes = 5}, {.n_axes = -1}};
  const char *const says[] = {"mode of mock.norm.v1 is 2", "mode of mock.norm.v1 is -1", "axes of mock.norm.v1 has 5",
                              "axes of mock.norm.v1 has -1"};
  for (int i = 0; i < 4; ++i) {
    graft_graph *graph;
    graft_tensor *y;
    assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
    graft_tensor *x = graft_graph_input(graph, "x", &f->x->desc);
    graft_graph_apply(graph, "mock.norm.v1", &wrong[i], sizeof wrong[i], &x, 1, &y);
    assert_null(y);
    assert_int_equal(graft_graph_status(graph), GRAFT_E_INVALID);
    assert_non_null(strstr(graft_graph_error(graph)->message, says[i]));
    graft_graph_destroy(graph);
  }
  mock_norm_attrs neither;
  memset(&neither, 0, sizeof neither);
  memset((char *)&neither + offsetof(mock_norm_attrs, affine), 5, 1);
  graft_tensor *y;
  graft_graph_apply(f->graph, "mock.norm.v1", &neither, sizeof neither, &f->x, 1, &y);
  assert_failed(f, GRAFT_E_INVALID, "neither false nor true");
}

static void a_refusal_without_a_sentence_gets_one(void **state) {
  fixture *f = *state;
  graft_tensor_desc odd = describe(GRAFT_F32, 1, (int64_t[]){3});
  graft_tensor *x = graft_graph_input(f->graph, "odd", &odd), *halves[2];
  graft_graph_apply(f->graph, "mock.split.v1", NULL, 0, &x, 1, halves);
  assert_failed(f, GRAFT_E_SHAPE, "mock.split.v1 refuses");
}

static void names_of_inputs_and_outputs_are_unique(void **state) {
  fixture *f = *state;
  graft_graph *graph;
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  graft_tensor *x = graft_graph_input(graph, "x", &f->x->desc);
  graft_graph_output(graph, x, "a");
  graft_graph_output(graph, x, "b");
  assert_int_equal(graft_graph_status(graph), GRAFT_OK);
  graft_graph_output(graph, x, "a");
  assert_int_equal(graft_graph_status(graph), GRAFT_E_EXISTS);
  graft_graph_destroy(graph);
  assert_null(graft_graph_input(f->graph, "x", &f->x->desc));
  assert_failed(f, GRAFT_E_EXISTS, "\"x\"");
}

static void an_input_is_contiguous(void **state) {
  fixture *f = *state;
  graft_tensor_desc strided = f->x->desc;
  strided.strides[0] = 100;
  assert_null(graft_graph_input(f->graph, "strided", &strided));
  assert_failed(f, GRAFT_E_SHAPE, "contiguous");
}

static void deep_and_long_scopes_are_cut_and_undone(void **state) {
  fixture *f = *state;
  for (int i = 0; i < 100; ++i) graft_graph_scope_push(f->graph, "%s%d", i % 2 ? "a long name of a scope" : "s", i);
  graft_tensor *deep = apply1(f->graph, "mock.norm.v1", f->x);
  assert_true(strlen(graft_tensor_name(deep)) < 200);
  for (int i = 0; i < 99; ++i) graft_graph_scope_pop(f->graph);
  assert_string_equal(graft_tensor_name(apply1(f->graph, "mock.norm.v1", f->x)), "s0.norm#1");
  graft_graph_scope_pop(f->graph);
  assert_string_equal(graft_tensor_name(apply1(f->graph, "mock.norm.v1", f->x)), "norm#2");
  graft_graph_scope_pop(f->graph);
  assert_failed(f, GRAFT_E_INVALID, "scope_pop");
}

// Names are found however many there are, also after some were taken back.
static void many_names_are_found_and_stay_unique(void **state) {
  fixture *f = *state;
  enum { MANY = 2000 };
  char name[32];
  const graft_tensor_desc desc = describe(GRAFT_F32, 1, (int64_t[]){1});
  for (int i = 0; i < MANY; ++i) {
    snprintf(name, sizeof name, "value.%d", i);
    graft_graph_output(f->graph, graft_graph_input(f->graph, name, &desc), name);
  }
  assert_int_equal(graft_graph_status(f->graph), GRAFT_OK);
  for (int i = 0; i < MANY; ++i) {
    snprintf(name, sizeof name, "value.%d", i);
    assert_ptr_equal(graft_graph_find_input(f->graph, name), graft_graph_input_at(f->graph, (uint32_t)i + 1));
    assert_ptr_equal(graft_graph_find_output(f->graph, name), graft_graph_output_at(f->graph, (uint32_t)i, NULL));
  }
  assert_null(graft_graph_find_input(f->graph, "value.-1"));
  assert_null(graft_graph_find_output(f->graph, ""));
  assert_null(graft_graph_input(f->graph, "value.77", &desc));
  assert_int_equal(graft_graph_status(f->graph), GRAFT_E_EXISTS);
}

enum { N_NAMES = 5000 };
static char names_of_test[N_NAMES][32];
static int n_names, n_looks;

static const char *name_at(const graft_graph *graph, uint32_t index) {
  (void)graph;
  ++n_looks;
  return index < (uint32_t)n_names ? names_of_test[index] : NULL;
}

// Comparing each with each would look millions of times.
static void finding_a_name_takes_few_looks(void **state) {
  graft_graph_names names = {0};
  (void)state;
  n_looks = 0;
  for (n_names = 0; n_names < N_NAMES; ++n_names) {
    snprintf(names_of_test[n_names], sizeof names_of_test[0], "layer.%d", n_names);
    assert_int_equal(graft_graph_names_find(&names, NULL, name_at, names_of_test[n_names]), UINT32_MAX);
    assert_true(graft_graph_names_reserve(&names, NULL, name_at));
    graft_graph_names_add(&names, names_of_test[n_names], (uint32_t)n_names);
  }
  assert_in_range(n_looks, 1, 10 * N_NAMES);
  n_names = 100;  // the others are taken back, and other names come in their place
  assert_int_equal(graft_graph_names_find(&names, NULL, name_at, "layer.99"), 99);
  assert_int_equal(graft_graph_names_find(&names, NULL, name_at, "layer.100"), UINT32_MAX);
  snprintf(names_of_test[n_names], sizeof names_of_test[0], "head");
  assert_true(graft_graph_names_reserve(&names, NULL, name_at));
  graft_graph_names_add(&names, "head", (uint32_t)n_names++);
  assert_int_equal(graft_graph_names_find(&names, NULL, name_at, "head"), 100);
  assert_int_equal(graft_graph_names_find(&names, NULL, name_at, "layer.100"), UINT32_MAX);
  free(names.slots);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(OP2_apply_makes_a_tensor_with_edges),
      TEST(OP2_attributes_are_copied_or_default),
      TEST(OP4_several_outputs_and_omitted_inputs),
      TEST(views_share_storage),
      TEST(a_constant_must_cover_its_description),
      TEST(unset_struct_size_is_refused),
      TEST(OP3_unknown_operator_is_refused),
      TEST(arity_is_checked),
      TEST(only_optional_inputs_may_be_omitted),
      TEST(a_null_input_is_a_failure_of_its_own),
      TEST(outputs_are_null_after_a_failure),
      TEST(tensors_of_other_graphs_are_refused),
      TEST(attribute_size_must_match),
      TEST(attributes_are_checked_by_schema),
      TEST(a_refusal_without_a_sentence_gets_one),
      TEST(names_of_inputs_and_outputs_are_unique),
      TEST(many_names_are_found_and_stay_unique),
      cmocka_unit_test(finding_a_name_takes_few_looks),
      TEST(an_input_is_contiguous),
      TEST(deep_and_long_scopes_are_cut_and_undone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
