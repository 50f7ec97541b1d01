// Every allocation of a tiny generation fails once: each time there is a status and a sentence, and what was there
// before still works and gives the same bytes.
#include "studio.h"

#include <stdio.h>
#include <string.h>

#include "fail_alloc.h"

enum { N_BYTES = 8 * 8 * 3 };

typedef struct attempt {
  temp_folder folder;
  graft_context *context;    // kept over runs, or NULL while each run makes its own
  graft_pipeline *pipeline;  // the same
  graft_status status;
  char message[512];
  uint8_t rgb[N_BYTES], wanted[N_BYTES];
} attempt;

static void note_failure(attempt *a, const graft_context *context) {
  snprintf(a->message, sizeof a->message, "%s", graft_context_error(context)->message);
}

static void generate(attempt *a, graft_context *context, graft_pipeline *pipeline) {
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_result result = {.struct_size = sizeof result};
  graft_generate_request_init(pipeline, &request);
  request.prompt = "a cat";
  request.width = 8;
  request.height = 8;
  request.n_steps = 1;
  a->status = graft_pipeline_generate(pipeline, &request, NULL, &result);
  if (a->status != GRAFT_OK) {
    note_failure(a, context);
    return;
  }
  memcpy(a->rgb, result.rgb, N_BYTES);
  graft_generate_result_release(&result);
}

static void run_generation(void *user) {
  attempt *a = user;
  generate(a, a->context, a->pipeline);
}

// Opening, generating once with cold plans, and closing.
static void run_pipeline(void *user) {
  attempt *a = user;
  graft_pipeline *pipeline;
  a->status = graft_pipeline_open(a->context, a->folder.path, NULL, &pipeline);
  if (a->status != GRAFT_OK) {
    note_failure(a, a->context);
    return;
  }
  generate(a, a->context, pipeline);
  graft_pipeline_close(pipeline);
}

static void check(void *user, int64_t failed) {
  attempt *a = user;
  if (a->status == GRAFT_OK) {
    assert_memory_equal(a->rgb, a->wanted, N_BYTES);
    return;
  }
  if (failed == 0 || a->status != GRAFT_E_NO_MEMORY || !a->message[0])
    fail_msg("allocation %lld: %s: %s", (long long)failed, graft_status_name(a->status), a->message);
}

static void sweep(attempt *a, fail_alloc_step step, const char *what) {
  step(a);
  if (a->status != GRAFT_OK) fail_msg("%s", a->message);
  memcpy(a->wanted, a->rgb, N_BYTES);
  const int64_t n = fail_alloc_sweep(step, check, a);
  print_message("    %s: %lld allocations\n", what, (long long)n);
  assert_true(n > 100);
}

static attempt begin(void) {
  attempt a = {.folder = temp_folder_create()};
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1};
  tiny_model_write(&a.folder, NULL);
  assert_int_equal(graft_context_create(&options, NULL, &a.context), GRAFT_OK);
  return a;
}

static void end(attempt *a) {
  graft_pipeline_close(a->pipeline);
  graft_context_destroy(a->context);
  temp_folder_remove(&a->folder);
}

static void every_allocation_of_opening_and_generating(void **state) {
  (void)state;
  attempt a = begin();
  sweep(&a, run_pipeline, "open and generate");
  end(&a);
}

static void every_allocation_of_generating_again(void **state) {
  (void)state;
  attempt a = begin();
  assert_int_equal(graft_pipeline_open(a.context, a.folder.path, NULL, &a.pipeline), GRAFT_OK);
  sweep(&a, run_generation, "generate again");
  end(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_allocation_of_opening_and_generating),
      cmocka_unit_test(every_allocation_of_generating_again),
  };
  return cmocka_run_group_tests_name("diffusion.allocation", tests, NULL, NULL);
}
