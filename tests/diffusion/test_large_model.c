// The real Z-Image is recognised and planned without its weights being read.
#include <sys/resource.h>

#include "large_model.h"
#include "studio.h"

static void check_description(const graft_pipeline *pipeline) {
  graft_pipeline_info info = {.struct_size = sizeof info};
  graft_pipeline_describe(pipeline, &info);
  assert_string_equal(info.family, "Z-Image");
  assert_int_equal(info.n_parameters, LARGE_MODEL_PARAMETERS);
  assert_int_equal(info.parts[2].n_tensors, 521);
  assert_string_equal(info.parts[2].dtypes, "f32");
  assert_true(info.parts[2].is_present && !info.parts[3].is_present);
  assert_int_equal(info.max_width, 8192);
  assert_int_equal(info.max_tokens, 512);
}

static void it_is_planned_without_reading_weights(void **state) {
  (void)state;
  const temp_folder folder = temp_folder_create();
  graft_context *context;
  graft_pipeline *pipeline;
  large_model_write(&folder);
  assert_int_equal(graft_context_create(NULL, NULL, &context), GRAFT_OK);
  if (graft_pipeline_open(context, folder.path, NULL, &pipeline) != GRAFT_OK)
    fail_msg("%s", graft_context_error(context)->message);
  check_description(pipeline);

  const graft_stage_request request = {
      .struct_size = sizeof request, .stage = GRAFT_STAGE_TRANSFORMER, .width = 1024, .height = 1024, .n_tokens = 100};
  graft_pipeline_memory memory = {.struct_size = sizeof memory};
  if (graft_pipeline_measure(pipeline, &request, &memory) != GRAFT_OK)
    fail_msg("%s", graft_context_error(context)->message);
  // All weights are needed, packed or not, and what is computed fits beside them.
  const size_t weights = (size_t)LARGE_MODEL_PARAMETERS * 4;
  assert_in_range(memory.peak_bytes, weights, weights + ((size_t)2 << 30));
  print_message("    1024x1024 takes %.2f GiB, of which %.2f are not weights\n", (double)memory.peak_bytes / 0x1p30,
                (double)(memory.peak_bytes - weights) / 0x1p30);

  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  assert_in_range(usage.ru_maxrss, 0, 1 << 20);  // kB; reading the weights would take 24 of these
  graft_pipeline_close(pipeline);
  graft_context_destroy(context);
  temp_folder_remove(&folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_planned_without_reading_weights)};
  return cmocka_run_group_tests_name("diffusion.large_model", tests, NULL, NULL);
}
