// Every allocation of context, registry and graph fails once: a status and a sentence, nothing leaked, objects usable.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fail_alloc.h"
#include "mock.h"

typedef struct attempt {
  graft_status status;
  graft_error error;
  graft_context *context;  // where one is used over all attempts
} attempt;

static void check(void *argument, int64_t failed) {
  attempt *a = argument;
  assert_int_equal(a->status, failed == 0 ? GRAFT_OK : GRAFT_E_NO_MEMORY);
  if (failed != 0) assert_non_null(strstr(a->error.message, "no memory"));
}

static void create_and_register(void *argument) {
  attempt *a = argument;
  graft_context_options options = {.struct_size = sizeof options, .ignore_environment = true};
  graft_context *context;
  graft_device *device;
  a->status = graft_context_create(&options, &a->error, &context);
  if (a->status != GRAFT_OK) return;
  a->status = graft_context_register(context, &mock_extension);
  if (a->status == GRAFT_OK) a->status = graft_device_open(context, "mock", &device);
  a->error = *graft_context_error(context);
  graft_context_destroy(context);
}

static void context_survives_allocation_failure(void **state) {
  (void)state;
  attempt a = {0};
  assert_true(fail_alloc_sweep(create_and_register, check, &a) > 5);
}

static void change_registry(void *argument) {
  attempt *a = argument;
  graft_extension more = {.struct_size = sizeof more,
                          .abi_version = GRAFT_ABI_VERSION,
                          .name = "more",
                          .vendor = "more",
                          .kernels = &mock_kernel,
                          .n_kernels = 1};
  a->status = graft_context_register(a->context, &more);
  if (a->status == GRAFT_OK) {
    a->status = graft_context_unregister(a->context, &more);
    if (a->status != GRAFT_OK) {
      fail_alloc_stop();
      assert_non_null(graft_context_find_kernel(a->context, "mock_add"));
      assert_int_equal(graft_context_unregister(a->context, &more), GRAFT_OK);
      GRAFT_FAIL(&a->error, a->status, "no memory");
      return;
    }
  }
  a->error = *graft_context_error(a->context);
  assert_null(graft_context_find_kernel(a->context, "mock_add"));
  assert_int_equal(graft_context_n_ops(a->context), mock_extension.n_ops);
}

static void OP1_registry_is_whole_after_allocation_failure(void **state) {
  (void)state;
  attempt a = {.context = mock_context()};
  assert_true(fail_alloc_sweep(change_registry, check, &a) > 5);
  graft_context_destroy(a.context);
}

static void build(void *argument) {
  attempt *a = argument;
  graft_graph *graph;
  a->status = graft_graph_create(a->context, &graph);
  a->error = *graft_context_error(a->context);
  if (a->status != GRAFT_OK) return;
  static const float data[6] = {0};
  graft_constant constant = {.struct_size = sizeof constant, .data = data, .bytes = sizeof data};
  graft_tensor_desc matrix, row;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){4, 6}, NULL, &matrix), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, (int64_t[]){6}, NULL, &row), GRAFT_OK);
  graft_tensor *inputs[2] = {graft_graph_input(graph, "x", &matrix), graft_graph_constant(graph, "w", &row, &constant)};
  for (int i = 0; i < 60; ++i) {
    graft_tensor *sum = NULL, *halves[2];
    graft_graph_scope_push(graph, "block.%d", i);
    graft_graph_apply(graph, "mock.add.v1", NULL, 0, inputs, 2, &sum);
    graft_graph_apply(graph, "mock.split.v1", NULL, 0, &sum, 1, halves);
    graft_graph_scope_pop(graph);
    inputs[0] = sum;
  }
  graft_graph_output(graph, inputs[0], "y");
  a->status = graft_graph_status(graph);
  a->error = *graft_graph_error(graph);
  if (a->status == GRAFT_OK) a->status = graft_graph_verify(graph, &a->error);
  // A graph that ran out of memory still is what was built before.
  mock_text *text = &(mock_text){.n = 0};
  text->fail_after = 1;
  assert_int_equal(graft_graph_print(graph, mock_writer(text)) != GRAFT_E_NO_MEMORY, 1);
  graft_graph_destroy(graph);
}

static void graph_sticks_to_allocation_failure(void **state) {
  (void)state;
  attempt a = {.context = mock_context()};
  assert_true(fail_alloc_sweep(build, check, &a) > 10);
  graft_context_destroy(a.context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(context_survives_allocation_failure),
      cmocka_unit_test(OP1_registry_is_whole_after_allocation_failure),
      cmocka_unit_test(graph_sticks_to_allocation_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
