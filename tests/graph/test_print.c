// Text, Graphviz and the verifier on one small graph.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mock.h"
#include "src/graph/graph_internal.h"

static graft_context *context;
static graft_graph *graph;

static int set_up(void **state) {
  (void)state;
  static const float data[6] = {0};
  graft_constant constant = {.struct_size = sizeof constant, .data = data, .bytes = sizeof data};
  context = mock_context();
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  graft_tensor_desc matrix, row;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){4, 6}, NULL, &matrix), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, (int64_t[]){6}, NULL, &row), GRAFT_OK);
  graft_tensor *x = graft_graph_input(graph, "x \"1\"\n", &matrix);
  graft_tensor *inputs[] = {x, graft_graph_constant(graph, "w", &row, &constant)}, *omitted[] = {x, graft_graph_none()};
  graft_tensor *sum, *part, *halves[2], *norm;
  graft_graph_scope_push(graph, "block");
  graft_graph_apply(graph, "mock.add.v1", NULL, 0, inputs, 2, &sum);
  mock_slice_attrs slice = {.start = 1, .length = 2};
  graft_graph_apply(graph, "mock.slice.v1", &slice, sizeof slice, &sum, 1, &part);
  graft_graph_scope_pop(graph);
  graft_graph_apply(graph, "mock.split.v1", NULL, 0, &part, 1, halves);
  mock_norm_attrs attrs = {.eps = 0.1, .groups = 4, .accumulate = NULL, .axes = {-1, 2}, .n_axes = 2};
  graft_graph_apply(graph, "mock.norm.v1", &attrs, sizeof attrs, omitted, 2, &norm);
  graft_graph_output(graph, halves[1], "y");
  graft_graph_output(graph, norm, "z");
  assert_int_equal(graft_graph_status(graph), GRAFT_OK);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  graft_graph_destroy(graph);
  graft_context_destroy(context);
  return 0;
}

static void text_shows_every_value(void **state) {
  (void)state;
  mock_text text = {.n = 0};
  assert_int_equal(graft_graph_print(graph, mock_writer(&text)), GRAFT_OK);
  assert_string_equal(text.text,
                      "%0 f32[4, 6] = input \"x \\\"1\\\"\\x0a\"\n"
                      "%1 f32[6] = constant \"w\"\n"
                      "%2 f32[4, 6] = mock.add.v1(%0, %1) block\n"
                      "%3 f32[2, 6] = mock.slice.v1(%2) {start=1, length=2} block\n"
                      "%4 f32[1, 6], %5 f32[1, 6] = mock.split.v1(%3)\n"
                      "%6 f32[4, 6] = mock.norm.v1(%0, none) {eps=0.1, groups=4, affine=false, mode=plain, "
                      "accumulate=none, axes=[-1, 2]}\n"
                      "output \"y\" = %5\n"
                      "output \"z\" = %6\n");
}

static void dot_has_vertices_and_edges(void **state) {
  (void)state;
  mock_text text = {.n = 0};
  assert_int_equal(graft_graph_print_dot(graph, mock_writer(&text)), GRAFT_OK);
  assert_non_null(strstr(text.text, "digraph graft {\n"));
  assert_non_null(strstr(text.text, "leaf0 [shape=ellipse, label=\"x \\\"1\\\"\\x0a\"];\n"));
  assert_non_null(strstr(text.text, "node1 [shape=box, style=dashed, label=\"block.slice#1\"];\n"));
  assert_non_null(strstr(text.text, "  leaf1 -> node0 [label=\"f32[6]\"];\n"));
  assert_non_null(strstr(text.text, "  node2 -> output0 [label=\"f32[1, 6]\"];\n"));
  assert_int_equal(text.text[text.n - 2], '}');
}

static void a_failing_writer_ends_the_printing(void **state) {
  (void)state;
  for (int n = 1; n < 40; ++n) {
    mock_text text = {.fail_after = n};
    assert_int_equal(graft_graph_print(graph, mock_writer(&text)), GRAFT_E_IO);
    assert_int_equal(text.n_pieces, n + 1);
    assert_int_equal(graft_graph_print_dot(graph, mock_writer(&text)), GRAFT_E_IO);
    assert_int_equal(text.n_pieces, n + 1);
  }
}

static void SC10_the_verifier_accepts_what_was_built(void **state) {
  (void)state;
  graft_error error = {0};
  graft_status status = graft_graph_verify(graph, &error);
  if (status != GRAFT_OK) fail_msg("%s", error.message);
}

// Breaks one thing at a time, each by hand, and puts it back.
static void refuse(const char *part) {
  graft_error error = {0};
  assert_int_equal(graft_graph_verify(graph, &error), GRAFT_E_INVALID);
  if (strstr(error.message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void SC10_the_verifier_finds_what_is_broken(void **state) {
  (void)state;
  graft_tensor *sum = graph->tensors[2], *part = graph->tensors[3];
  graft_node *add = sum->node;
  add->inputs[0] = part;
  refuse("made after it");
  add->inputs[0] = NULL;
  refuse("input 0 of block.add#0 is missing");
  add->inputs[0] = graph->tensors[0];
  sum->n_uses = 5;
  refuse("counts 5 uses and has 1");
  sum->n_uses = 1;
  sum->desc.shape[0] = 5;
  refuse("is not what inference gives");
  sum->desc.shape[0] = 4;
  part->view_offset = 0;
  refuse("does not view");
  part->view_offset = 24;
  part->id = 2;
  refuse("not in its place");
  part->id = 3;
  graph->outputs[1].name = "y";
  refuse("two outputs are called \"y\"");
  graph->outputs[1].name = "z";
  add->n_inputs = 1;
  refuse("has 1 input and 1 output");
  add->n_inputs = 2;
  ((mock_slice_attrs *)part->node->attrs)->start = 0;
  refuse("does not view");
  ((mock_slice_attrs *)part->node->attrs)->start = 1;
  graph->tensors[0]->desc.strides[0] = 100;
  refuse("not contiguous");
  graph->tensors[0]->desc.strides[0] = 24;
  SC10_the_verifier_accepts_what_was_built(NULL);
}

static void SC10_a_failed_graph_is_not_well_formed(void **state) {
  (void)state;
  graft_error error = {0};
  GRAFT_GRAPH_FAIL(graph, GRAFT_E_SHAPE, "a reason");
  assert_int_equal(graft_graph_verify(graph, &error), GRAFT_E_SHAPE);
  assert_string_equal(error.message, "a reason");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_shows_every_value),
      cmocka_unit_test(dot_has_vertices_and_edges),
      cmocka_unit_test(a_failing_writer_ends_the_printing),
      cmocka_unit_test(SC10_the_verifier_accepts_what_was_built),
      cmocka_unit_test(SC10_the_verifier_finds_what_is_broken),
      cmocka_unit_test(SC10_a_failed_graph_is_not_well_formed),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
