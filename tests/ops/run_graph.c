#include "run_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

test_graph test_graph_open(void) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 2, .ignore_environment = true};
  test_graph test = {0};
  graft_error error = {0};
  if (graft_context_create(&options, &error, &test.context) != GRAFT_OK) fail_msg("%s", error.message);
  assert_int_equal(graft_graph_create(test.context, &test.graph), GRAFT_OK);
  return test;
}

void test_graph_close(test_graph *test) {
  graft_graph_destroy(test->graph);
  graft_context_destroy(test->context);
  *test = (test_graph){0};
}

graft_tensor *test_constant(const test_graph *test, graft_dtype dtype, int32_t rank, const int64_t *shape,
                            const void *values) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(dtype, rank, shape, NULL, &desc), GRAFT_OK);
  const graft_constant constant = {
      .struct_size = sizeof constant, .data = values, .bytes = graft_tensor_desc_bytes(&desc)};
  return graft_graph_constant(test->graph, "values", &desc, &constant);
}

graft_status test_run(const test_graph *test, graft_tensor *tensor, uint32_t plan_flags, void *out, size_t bytes) {
  graft_plan_options options = {.struct_size = sizeof options, .flags = plan_flags};
  graft_plan *plan = NULL;
  graft_graph_output(test->graph, tensor, "out");
  graft_status status = graft_graph_status(test->graph);
  if (status == GRAFT_OK) status = graft_device_open(test->context, "cpu", &options.device);
  if (status == GRAFT_OK) status = graft_plan_create(test->graph, &options, &plan);
  if (status == GRAFT_OK) status = graft_plan_run(plan, NULL);
  if (status == GRAFT_OK) status = graft_plan_read(plan, 0, out, bytes);
  graft_plan_destroy(plan);
  if (status != GRAFT_OK) print_message("%s\n", graft_context_error(test->context)->message);
  return status;
}

void test_assert_refused(const test_graph *test, graft_status status, const char *text) {
  assert_int_equal(graft_graph_status(test->graph), status);
  const char *message = graft_graph_error(test->graph)->message;
  if (strstr(message, text) == NULL) fail_msg("\"%s\" does not say \"%s\"", message, text);
}
