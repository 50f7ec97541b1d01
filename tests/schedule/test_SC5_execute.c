// Direct execution, access to graphs, and copying parts of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fail_alloc.h"
#include "schedule_support.h"

static int set_up(void **state) {
  *state = schedule_open(2, NULL);
  return 0;
}

static int tear_down(void **state) {
  schedule_close(*state);
  return 0;
}

static graft_binding bind(const graft_tensor *tensor, float *data, size_t n) {
  return (graft_binding){sizeof(graft_binding), tensor, data, n * sizeof *data};
}

static void SC5_a_whole_graph_runs_at_once(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *y = schedule_scale(s->graph, schedule_scale(s->graph, x, 2), 3);
  graft_graph_output(s->graph, y, "y");
  float in[] = {1, 2}, out[2] = {0};
  const graft_binding bindings[] = {bind(x, in, 2), bind(y, out, 2)};
  graft_device *const devices[] = {s->cpu, s->first};
  for (int i = 0; i < 2; ++i) {
    out[0] = out[1] = 0;
    const graft_execution run = {
        .struct_size = sizeof run, .device = devices[i], .bindings = bindings, .n_bindings = 2};
    assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
    assert_true(out[0] == 10 && out[1] == 16);
  }
}

// Node by node, with values carried by the caller, gives what the whole graph gives.
static void SC5_ranges_of_nodes(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 4, 1);
  graft_tensor *a = schedule_scale(s->graph, x, 2);                    // node 0: 2x + 1
  graft_tensor *part = schedule_slice(s->graph, a, 1, 2);              // node 1: a view
  graft_tensor *b = schedule_scale(s->graph, part, 10);                // node 2
  graft_tensor *c = schedule_scale(s->graph, b, 1);                    // node 3
  graft_graph_output(s->graph, schedule_add(s->graph, c, part), "y");  // node 4
  float in[] = {1, 2, 3, 4}, a_data[4], c_data[2], y_data[2];
  graft_tensor *y = graft_graph_output_at(s->graph, 0, NULL);
  const graft_binding first[] = {bind(x, in, 4), bind(a, a_data, 4)};
  const graft_binding middle[] = {bind(a, a_data, 4), bind(c, c_data, 2)};
  const graft_binding last[] = {bind(a, a_data, 4), bind(c, c_data, 2), bind(y, y_data, 2)};
  graft_execution run = {.struct_size = sizeof run, .device = s->cpu, .n_nodes = 1, .bindings = first, .n_bindings = 2};
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
  run = (graft_execution){
      .struct_size = sizeof run, .device = s->first, .first = 2, .n_nodes = 2, .bindings = middle, .n_bindings = 2};
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
  assert_true(c_data[0] == 52 && c_data[1] == 72);
  run = (graft_execution){.struct_size = sizeof run, .device = s->cpu, .first = 4, .bindings = last, .n_bindings = 3};
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
  assert_true(y_data[0] == 57 && y_data[1] == 79);
  // Without the value from outside it cannot run; with a wrong size neither.
  run.n_bindings = 1;
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_E_INVALID);
  assert_non_null(strstr(graft_context_error(s->context)->message, "is not bound"));
  run.first = 9;
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_E_INVALID);
}

static void SC5_states_are_read_and_written(void **state) {
  schedule *s = *state;
  graft_tensor *cache = plan_input(s->graph, "cache", 4, 1);
  graft_tensor *row = schedule_slice(s->graph, cache, 1, 2);
  (void)schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = 2}, row, NULL, row);
  float data[] = {1, 2, 3, 4};
  const graft_binding bindings[] = {bind(cache, data, 4)};
  const graft_execution run = {
      .struct_size = sizeof run, .device = s->cpu, .first = 1, .bindings = bindings, .n_bindings = 1};
  assert_int_equal(graft_graph_execute(s->graph, &run), GRAFT_OK);
  assert_true(data[0] == 1 && data[1] == 5 && data[2] == 7 && data[3] == 4);
}

static void SC6_nodes_and_leaves_can_be_walked(void **state) {
  schedule *s = *state;
  static const float ones[] = {1, 1};
  graft_tensor *x = plan_input(s->graph, "x", 2, 1), *w = plan_constant(s->graph, "w", 2, 1, ones);
  graft_tensor *y = schedule_add(s->graph, x, w);
  graft_tensor *z = schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = 2}, y, NULL, x);
  graft_tensor *late = plan_input(s->graph, "late", 1, 1);
  assert_int_equal(graft_graph_n_leaves(s->graph), 3);
  assert_ptr_equal(graft_graph_leaf_at(s->graph, 0), x);
  assert_ptr_equal(graft_graph_leaf_at(s->graph, 2), late);
  assert_null(graft_graph_leaf_at(s->graph, 3));
  assert_int_equal(graft_tensor_kind_of(w), GRAFT_TENSOR_CONSTANT);
  assert_ptr_equal(graft_tensor_constant(w)->data, ones);
  assert_null(graft_tensor_constant(x));
  assert_int_equal(graft_tensor_n_uses(y), 1);
  assert_int_equal(graft_tensor_n_uses(late), 0);
  assert_int_equal(graft_tensor_maker(z), 1);
  assert_int_equal(graft_tensor_maker(x), UINT32_MAX);
  assert_ptr_equal(graft_graph_tensor_at(s->graph, graft_tensor_index(z)), z);
  graft_node_view node = {.struct_size = sizeof node};
  assert_true(graft_graph_node(s->graph, 1, &node));
  assert_string_equal(node.op->name, "plan.scale.v1");
  assert_ptr_equal(node.into, x);
  assert_ptr_equal(node.inputs[0], y);
  assert_int_equal(node.n_after, 0);  // y's maker reads x, but the edge to y orders them
  assert_false(graft_graph_node(s->graph, 2, &node));
}

static void SC6_parts_are_copied_through_a_map(void **state) {
  schedule *s = *state;
  static const float ones[] = {1, 1};
  graft_tensor *x = plan_input(s->graph, "x", 2, 1), *w = plan_constant(s->graph, "w", 2, 1, ones);
  graft_tensor *a = schedule_scale(s->graph, x, 2);
  graft_tensor *b = schedule_add(s->graph, a, w);
  graft_tensor *c = schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = 3}, b, NULL, a);
  graft_graph *target = NULL;
  assert_int_equal(graft_graph_create(s->context, &target), GRAFT_OK);
  graft_tensor *own = plan_input(target, "own", 2, 1);
  graft_tensor *map[16] = {0};
  map[graft_tensor_index(a)] = own;
  assert_int_equal(graft_graph_copy_nodes(target, s->graph, 1, 3, map), GRAFT_OK);
  assert_int_equal(graft_graph_n_nodes(target), 2);
  assert_int_equal(graft_graph_verify(target, NULL), GRAFT_OK);
  assert_int_equal(graft_tensor_n_uses(map[graft_tensor_index(b)]), graft_tensor_n_uses(b));
  assert_int_equal(graft_tensor_kind_of(map[graft_tensor_index(w)]), GRAFT_TENSOR_CONSTANT);
  graft_node_view node = {.struct_size = sizeof node};
  assert_true(graft_graph_node(target, 1, &node));
  assert_ptr_equal(node.into, own);
  graft_graph_output(target, map[graft_tensor_index(c)], "c");
  graft_plan *plan = plan_make(target, s->cpu, 0);
  schedule_put(plan, 0, (const float[]){1, 2}, 2);
  schedule_run(plan);
  schedule_expect(plan, 0, (const float[]){7, 10}, 2);
  graft_plan_destroy(plan);
  graft_graph_destroy(target);
}

typedef struct shape {
  uint32_t n_nodes, n_tensors, n_inputs, n_uses;
} shape;

static shape shape_of(const graft_graph *graph, const graft_tensor *tensor) {
  return (shape){graft_graph_n_nodes(graph), graft_graph_n_tensors(graph), graft_graph_n_inputs(graph),
                 graft_tensor_n_uses(tensor)};
}

typedef struct copy_attempt {
  graft_graph *target;
  const graft_graph *source;
  graft_tensor *own;
  graft_tensor *map[16];
  graft_status status;
  shape before;
} copy_attempt;

static void try_copy(void *user) {
  copy_attempt *c = user;
  for (int i = 0; i < 16; ++i) c->map[i] = NULL;
  c->map[0] = c->own;
  c->before = shape_of(c->target, c->own);
  c->status = graft_graph_copy_nodes(c->target, c->source, 0, 3, c->map);
}

static void check_copy(void *user, int64_t failed) {
  const copy_attempt *c = user;
  assert_int_equal(c->status, failed == 0 ? GRAFT_OK : GRAFT_E_NO_MEMORY);
  if (failed == 0) return;
  shape after = shape_of(c->target, c->own);
  assert_memory_equal(&c->before, &after, sizeof after);
  assert_int_equal(graft_graph_verify(c->target, NULL), GRAFT_OK);
  for (int i = 1; i < 16; ++i) assert_null(c->map[i]);
}

static void SC6_invalid_maps_leave_the_destination_alone(void **state) {
  schedule *s = *state;
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_tensor *a = schedule_scale(s->graph, x, 2), *b = schedule_add(s->graph, a, x);
  (void)schedule_write(s->graph, "plan.scale.v1", (plan_attrs){.factor = 3}, b, NULL, x);
  graft_graph *target = NULL;
  assert_int_equal(graft_graph_create(s->context, &target), GRAFT_OK);
  graft_tensor *own = plan_input(target, "own", 2, 1), *wide = plan_input(target, "x", 1, 2);
  const shape before = shape_of(target, own);
  const struct {
    uint32_t first, end;
    uint32_t mapped;
    graft_tensor *to;
    graft_status status;
  } cases[] = {
      {0, 2, 0, NULL, GRAFT_E_EXISTS},  // the name x is taken
      {0, 2, 0, wide, GRAFT_E_SHAPE},   // another shape
      {0, 2, 0, x, GRAFT_E_INVALID},    // of the wrong graph
      {1, 2, 0, own, GRAFT_E_INVALID},  // a comes from outside
      {0, 2, 1, own, GRAFT_E_INVALID},  // a is made inside
      {2, 1, 0, own, GRAFT_E_INVALID},  // no range
      {0, 99, 0, own, GRAFT_E_INVALID},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    graft_tensor *map[16] = {0};
    map[cases[i].mapped] = cases[i].to;
    assert_int_equal(graft_graph_copy_nodes(target, s->graph, cases[i].first, cases[i].end, map), cases[i].status);
    const shape after = shape_of(target, own);
    assert_memory_equal(&before, &after, sizeof after);
    assert_int_equal(graft_graph_status(target), GRAFT_OK);
    assert_ptr_equal(map[cases[i].mapped], cases[i].to);
  }
  copy_attempt attempt = {.target = target, .source = s->graph, .own = own};
  assert_true(fail_alloc_sweep(try_copy, check_copy, &attempt) >= 1);
  graft_graph_destroy(target);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(SC5_a_whole_graph_runs_at_once),     TEST(SC5_ranges_of_nodes),
      TEST(SC5_states_are_read_and_written),    TEST(SC6_nodes_and_leaves_can_be_walked),
      TEST(SC6_parts_are_copied_through_a_map), TEST(SC6_invalid_maps_leave_the_destination_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
