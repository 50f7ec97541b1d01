// Plans that are replayed as graphs and plans that are not, against a double of the driver that computes one function.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "cuda_layer.h"
#include "cuda_session.h"
#include "graft/cuda.h"
#include "graft/graft.h"
#include "tools/graft/gpu_runs.h"

enum { ROWS = 24, COLUMNS = 1024, N = ROWS * COLUMNS, WEIGHT_BYTES = N * 4, N_LAYERS = 12 };
static const int64_t plenty = (int64_t)1 << 30;

static cuda_double cuda;
static float weights[N_LAYERS][N], x[N], expected[N], got[N];

static const void *weights_of(int layer) {
  return weights[layer];
}

static void begin(int64_t memory, cuda_session *s) {
  const cuda_layers layers = {.n = N_LAYERS, .rows = ROWS, .columns = COLUMNS, .weights_of = weights_of};
  cuda.reset(0, 0);
  cuda.set_memory(memory);
  cuda_session_open("", s);
  assert_int_equal(cuda_session_open_devices("", s), GRAFT_OK);
  cuda_session_build(s, &layers);
}

static void end(cuda_session *s) {
  cuda_session_close(s);
  assert_int_equal(cuda.get_counts().live_objects, 0);
  assert_int_equal(cuda.get_counts().hazards, 0);
}

static graft_cuda_run_counts counts_of(const graft_device *device) {
  const graft_cuda_runs_service *service = graft_device_service(device, GRAFT_CUDA_RUNS_SERVICE);
  graft_cuda_run_counts counts = {.struct_size = sizeof counts};
  service->count(device, &counts);
  return counts;
}

// |plan| gives the bytes of the reference on the host, run after run.
static void check_results(const cuda_session *s, graft_plan *plan) {
  graft_plan *host = cuda_session_plan(s, (graft_plan_options){.device = s->cpu});
  for (int run = 0; run < 4; ++run) {
    for (int i = 0; i < N; ++i) x[i] = (float)((i * 7 + run * 13) % 101 - 50);
    assert_int_equal(cuda_session_run(host, x, expected, sizeof x), GRAFT_OK);
    assert_int_equal(cuda_session_run(plan, x, got, sizeof x), GRAFT_OK);
    assert_memory_equal(got, expected, sizeof got);
  }
  graft_plan_destroy(host);
}

static void RP1_replays_give_the_bytes_of_ordinary_runs(void **state) {
  (void)state;
  cuda_session s;
  begin(plenty, &s);
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu});
  check_results(&s, plan);
  assert_int_equal(cuda.get_counts().graph_launches, 3);
  const graft_cuda_run_counts counts = counts_of(s.gpu);
  assert_int_equal(counts.n_dispatched, 1);
  assert_int_equal(counts.n_captured, 1);
  assert_int_equal(counts.n_replayed, 3);
  graft_plan_destroy(plan);
  end(&s);
}

static void break_capture(void) {
  (void)cuda.synchronize_context();
}

static void check_bench_says(const cuda_session *s, const char *text) {
  char *said = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&said, &bytes);
  assert_non_null(file);
  tool_gpu_runs_print(s->gpu, file);
  fclose(file);
  if (strstr(said, text) == NULL) fail_msg("\"%s\" is not in:\n%s", text, said);
  free(said);
}

// Other libraries of the process share the context, and may break any capture.
static void RP1_failed_captures_are_reported_and_not_tried_again(void **state) {
  (void)state;
  cuda_session s;
  begin(plenty, &s);
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu});
  check_bench_says(&s, "replayed                0           of 0 runs");
  cuda.on_capture(break_capture);
  check_results(&s, plan);
  assert_int_equal(cuda.get_counts().graph_launches, 0);
  assert_int_equal(cuda.get_counts().refused_waits, 1);
  assert_int_equal(counts_of(s.gpu).n_failed_captures, 1);
  assert_int_equal(s.n_warnings, 1);
  assert_non_null(strstr(s.warning, "a plan of 12 commands is dispatched and never replayed: capturing a plan"));
  check_bench_says(&s, "replayed                0           of 4 runs");
  check_bench_says(&s, "not captured            1           and dispatched instead: capturing a plan");
  json_t *json = json_object();
  tool_gpu_runs_describe(s.gpu, json);
  assert_int_equal(json_integer_value(json_object_get(json, "failed_captures")), 1);
  assert_non_null(json_string_value(json_object_get(json, "capture_failure")));
  json_decref(json);
  graft_plan_destroy(plan);
  end(&s);
}

static void check_refused(const cuda_session *s, graft_status status, const char *text) {
  assert_int_equal(status, GRAFT_E_UNSUPPORTED);
  const char *message = graft_context_error(s->context)->message;
  if (strstr(message, text) == NULL) fail_msg("\"%s\" is not in: %s", text, message);
}

// A graph that others capture would copy from memory of graft's that holds something else by then.
static void RP1_what_the_host_moves_is_kept_out_of_the_graphs_of_others(void **state) {
  (void)state;
  cuda_session s;
  void *graph = NULL;
  begin(plenty, &s);
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu});
  const graft_backend_def *backend = graft_device_backend(s.gpu);
  graft_error error = {0};
  assert_int_equal(cuda_session_run(plan, x, expected, sizeof x), GRAFT_OK);
  assert_int_equal(cuda.begin_capture(graft_cuda_describe(s.gpu)->stream, 0), 0);
  check_refused(&s, graft_plan_write(plan, 0, x, sizeof x), "nothing can be written to the GPU while");
  check_refused(&s, graft_plan_read(plan, 0, got, sizeof got), "nothing can be read from the GPU while");
  assert_int_equal(backend->synchronize(graft_device_state(s.gpu), &error), GRAFT_E_UNSUPPORTED);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(cuda.end_capture(graft_cuda_describe(s.gpu)->stream, &graph), 0);
  assert_int_equal(cuda.get_counts().captured, N_LAYERS);
  assert_int_equal(cuda.get_counts().refused_waits, 0);
  assert_int_equal(cuda.destroy_graph(graph), 0);
  check_results(&s, plan);
  graft_plan_destroy(plan);
  end(&s);
}

static void RP1_mixed_plans_are_kept_out_of_the_graphs_of_others(void **state) {
  (void)state;
  cuda_session s;
  void *graph = NULL;
  begin(8 * WEIGHT_BYTES, &s);
  graft_device *const devices[] = {s.gpu, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  assert_int_equal(cuda.begin_capture(graft_cuda_describe(s.gpu)->stream, 0), 0);
  check_refused(&s, graft_plan_run(plan, NULL), "while the device's stream is captured");
  assert_int_equal(cuda.end_capture(graft_cuda_describe(s.gpu)->stream, &graph), 0);
  assert_int_equal(cuda.destroy_graph(graph), 0);
  check_results(&s, plan);
  graft_plan_destroy(plan);
  end(&s);
}

// The host moves values between such runs, or makes no second one.
static void RP3_several_copies_and_mixed_plans_are_dispatched(void **state) {
  (void)state;
  for (int i = 0; i < 2; ++i) {
    cuda_session s;
    begin(i == 0 ? plenty : 8 * WEIGHT_BYTES, &s);
    graft_device *const devices[] = {s.gpu, s.cpu};
    graft_plan *plan = cuda_session_plan(
        &s, (graft_plan_options){.devices = devices, .n_devices = 1 + (uint32_t)i, .n_input_copies = i == 0 ? 2 : 0});
    assert_int_equal(graft_plan_n_stages(plan) > 1, i == 1);
    check_results(&s, plan);
    assert_int_equal(cuda.get_counts().graph_launches, 0);
    graft_plan_destroy(plan);
    end(&s);
  }
}

static graft_status execute(const cuda_session *s, uint32_t flags) {
  const graft_run_control control = {.struct_size = sizeof control, .flags = flags};
  graft_binding bindings[] = {{.struct_size = sizeof bindings[0], .data = x, .bytes = sizeof x},
                              {.struct_size = sizeof bindings[0], .data = got, .bytes = sizeof got}};
  bindings[0].tensor = graft_graph_input_at(s->graph, 0);
  bindings[1].tensor = graft_graph_output_at(s->graph, 0, NULL);
  return graft_graph_execute(s->graph, &(graft_execution){.struct_size = sizeof(graft_execution),
                                                          .device = s->gpu,
                                                          .bindings = bindings,
                                                          .n_bindings = 2,
                                                          .control = &control});
}

// Also where the graph of a plan that is gone would fit.
static void RP3_direct_calls_are_dispatched(void **state) {
  (void)state;
  cuda_session s;
  begin(plenty, &s);
  for (int i = 0; i < 3; ++i) {
    graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu});
    for (int k = 0; k < 2; ++k) assert_int_equal(cuda_session_run(plan, x, expected, sizeof x), GRAFT_OK);
    graft_plan_destroy(plan);
    const int64_t launches = cuda.get_counts().graph_launches;
    assert_true(launches > 0);
    assert_int_equal(execute(&s, 0), GRAFT_OK);
    assert_memory_equal(got, expected, sizeof got);
    assert_int_equal(cuda.get_counts().graph_launches, launches);
  }
  assert_int_equal(execute(&s, 1u << 31), GRAFT_E_INVALID);
  end(&s);
}

static void RP3_runs_are_dispatched_where_the_caller_says_so(void **state) {
  (void)state;
  cuda_session s;
  begin(plenty, &s);
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu});
  const graft_run_control control = {.struct_size = sizeof control, .flags = GRAFT_RUN_DISPATCH};
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  for (int i = 0; i < 3; ++i) assert_int_equal(graft_plan_run(plan, &control), GRAFT_OK);
  assert_int_equal(cuda.get_counts().graph_launches, 0);
  graft_plan_destroy(plan);
  end(&s);
}

int main(void) {
  if (!cuda_double_find(&cuda)) return 1;
  for (int i = 0; i < N_LAYERS * N; ++i) weights[i / N][i % N] = (float)((i % N * 5 + i / N * 11) % 97 - 48);
  for (int i = 0; i < N; ++i) x[i] = (float)(i * 7 % 101 - 50);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(RP1_replays_give_the_bytes_of_ordinary_runs),
      cmocka_unit_test(RP1_failed_captures_are_reported_and_not_tried_again),
      cmocka_unit_test(RP1_what_the_host_moves_is_kept_out_of_the_graphs_of_others),
      cmocka_unit_test(RP1_mixed_plans_are_kept_out_of_the_graphs_of_others),
      cmocka_unit_test(RP3_several_copies_and_mixed_plans_are_dispatched),
      cmocka_unit_test(RP3_direct_calls_are_dispatched),
      cmocka_unit_test(RP3_runs_are_dispatched_where_the_caller_says_so),
  };
  return cmocka_run_group_tests_name("cuda_replay", tests, NULL, NULL);
}
