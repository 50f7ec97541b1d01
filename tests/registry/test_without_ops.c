// The core and the backends link and work without any operator of the project, and know a mock one only by its tables.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "graft/graft.h"

extern const graft_extension graft_extension_cpu_backend;

// Stands in for the generated list of all that comes with graft.
const graft_extension *const *graft_builtin_extensions(uint32_t *out_count) {
  static const graft_extension *const extensions[] = {&graft_extension_cpu_backend};
  *out_count = 1;
  return extensions;
}

// y = 2x, element by element, at any strides.
static graft_status double_elements(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  int64_t index[GRAFT_MAX_RANK] = {0};
  if (graft_tensor_desc_elements(&y->desc) == 0) return GRAFT_OK;
  do {
    double value = graft_dtype_load(x->desc.dtype, graft_view_at(x, index));
    graft_dtype_store(y->desc.dtype, graft_view_at(y, index), 2 * value);
  } while (graft_index_next(&y->desc, index));
  return GRAFT_OK;
}

static const graft_op_def ops[] = {{.struct_size = sizeof ops[0],
                                    .name = "mock.double.v1",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .n_outputs = 1,
                                    .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
                                    .infer = graft_infer_elementwise,
                                    .reference = double_elements}};
static const graft_extension extension = {.struct_size = sizeof extension,
                                          .abi_version = GRAFT_ABI_VERSION,
                                          .name = "mock.double",
                                          .vendor = "mock",
                                          .ops = ops,
                                          .n_ops = 1};

static void OP4_a_mock_operator_runs_on_the_cpu(void **state) {
  (void)state;
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
  graft_tensor_desc desc;
  assert_int_equal(graft_context_create(NULL, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_n_ops(context), 0);
  assert_int_equal(graft_context_register(context, &extension), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, (int64_t[]){3}, NULL, &desc), GRAFT_OK);
  graft_tensor *x = graft_graph_input(graph, "x", &desc), *y, *z;
  graft_graph_apply(graph, "mock.double.v1", NULL, 0, &x, 1, &y);
  graft_graph_apply(graph, "mock.double.v1", NULL, 0, &y, 1, &z);
  graft_graph_output(graph, z, "z");

  graft_plan_options options = {.struct_size = sizeof options, .device = device};
  graft_plan *plan;
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) fail_msg("%s", graft_context_error(context)->message);
  float values[3] = {1, -2.5f, 0};
  const float wanted[3] = {4, -10, 0};
  assert_int_equal(graft_plan_write(plan, 0, values, sizeof values), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, values, sizeof values), GRAFT_OK);
  assert_memory_equal(values, wanted, sizeof values);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(OP4_a_mock_operator_runs_on_the_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
