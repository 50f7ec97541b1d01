// FU7: the six-billion-parameter transformer at 1024×1024, planned without reading its weights, needs at least a
// quarter less memory for what it computes than without fusion.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "graft/diffusion.h"
#include "large_model.h"

static size_t arena_bytes(const graft_graph *graph, graft_device *device, const char *fusion) {
  const graft_plan_options options = {
      .struct_size = sizeof options, .flags = GRAFT_PLAN_MEASURE_ONLY, .device = device, .fusion = fusion};
  graft_plan *plan = NULL;
  graft_memory_report memory = {.struct_size = sizeof memory};
  assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
  graft_plan_memory(plan, &memory);
  graft_plan_destroy(plan);
  return memory.arena_bytes;
}

static void FU7_a_large_model_needs_a_quarter_less(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  graft_context *context = NULL;
  graft_pipeline *pipeline = NULL;
  graft_device *device = NULL;
  graft_graph *graph = NULL;
  large_model_write(&folder);
  assert_int_equal(graft_context_create(NULL, NULL, &context), GRAFT_OK);
  if (graft_pipeline_open(context, folder.path, NULL, &pipeline) != GRAFT_OK) {
    fail_msg("%s", graft_context_error(context)->message);
  }
  const graft_stage_request request = {
      .struct_size = sizeof request, .stage = GRAFT_STAGE_TRANSFORMER, .width = 1024, .height = 1024, .n_tokens = 128};
  assert_int_equal(graft_pipeline_stage_graph(pipeline, &request, &graph), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const size_t with = arena_bytes(graph, device, "on"), without = arena_bytes(graph, device, "off");
  print_message("    %.1f MiB, %.1f without fusion\n", (double)with / 0x1p20, (double)without / 0x1p20);
  assert_true((double)with <= 0.75 * (double)without);
  graft_graph_destroy(graph);
  graft_pipeline_close(pipeline);
  graft_context_destroy(context);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(FU7_a_large_model_needs_a_quarter_less)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
