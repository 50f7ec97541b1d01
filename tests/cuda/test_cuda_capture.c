// What of recordings is captured into graphs, by graft and by others, against a double of the driver.
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cuda/device.h"
#include "fake_libcuda.h"
#include "graft/cuda.h"
#include "graft/graft.h"

extern const graft_extension graft_extension_cuda_backend;

enum { N_COMMANDS = 2 };

static fake_cuda_reset_fn reset;
static fake_cuda_counts_fn get_counts;
static fake_cuda_lack_fn lack;
static int (*begin_capture)(void *stream, int mode);
static int (*end_capture)(void *stream, void **graph);
static int (*destroy_graph)(void *graph);

typedef struct session {
  graft_context *context;
  graft_device *device;
  const graft_backend_def *backend;
} session;

static graft_status open_session(session *s) {
  char devices[600];
  snprintf(devices, sizeof devices, "cuda library=%s", FAKE_LIBCUDA);
  const graft_context_options options = {
      .struct_size = sizeof options, .devices = devices, .ignore_environment = true, .without_builtins = true};
  *s = (session){0};
  assert_int_equal(graft_context_create(&options, NULL, &s->context), GRAFT_OK);
  assert_int_equal(graft_context_register(s->context, &graft_extension_cuda_backend), GRAFT_OK);
  GRAFT_TRY(graft_device_open(s->context, "cuda:0", &s->device));
  s->backend = graft_device_backend(s->device);
  return GRAFT_OK;
}

static void begin(session *s) {
  reset(0, 0);
  assert_int_equal(open_session(s), GRAFT_OK);
}

static void end(session *s) {
  graft_context_destroy(s->context);
  assert_int_equal(get_counts().hazards, 0);
  assert_int_equal(get_counts().live_objects, 0);
}

static graft_recording *begin_recording(const session *s, graft_encoder **out_encoder) {
  graft_recording *recording = NULL;
  assert_int_equal(s->backend->record_begin(graft_device_state(s->device), 1, NULL, &recording), GRAFT_OK);
  *out_encoder = s->backend->step_begin(recording, 0);
  return recording;
}

static graft_recording *record_launches(const session *s) {
  static const char image[] = "none";
  static const graft_cuda_module module = {.struct_size = sizeof module, .name = "tests", .image = image};
  graft_encoder *encoder = NULL;
  graft_recording *recording = begin_recording(s, &encoder);
  graft_cuda_launch launch = {.struct_size = sizeof launch, .grid = {1, 1, 1}, .block = {32, 1, 1}};
  assert_int_equal(graft_cuda_function_load(s->device, &module, "nothing", 0, NULL, &launch.function), GRAFT_OK);
  for (int i = 0; i < N_COMMANDS; ++i) assert_int_equal(graft_cuda_encode(encoder, &launch, NULL), GRAFT_OK);
  assert_int_equal(s->backend->record_end(recording, NULL), GRAFT_OK);
  return recording;
}

static graft_status enqueue_nothing(const void *args, void *stream, graft_error *error) {
  (void)args, (void)stream, (void)error;
  return GRAFT_OK;
}

static graft_recording *record_calls(const session *s, const graft_cuda_call *call) {
  graft_encoder *encoder = NULL;
  graft_recording *recording = begin_recording(s, &encoder);
  for (int i = 0; i < N_COMMANDS; ++i) assert_int_equal(graft_cuda_encode_call(encoder, call, NULL), GRAFT_OK);
  assert_int_equal(s->backend->record_end(recording, NULL), GRAFT_OK);
  return recording;
}

static graft_status run(const session *s, graft_recording *recording, graft_error *error) {
  return s->backend->run(recording, 0, 1, NULL, error);
}

// Whoever captures the device's stream gets the plan's work in their own graph, also at its first run.
static void RP1_an_outer_capture_records_the_plan(void **state) {
  (void)state;
  session s;
  void *graph = NULL;
  begin(&s);
  void *stream = graft_cuda_describe(s.device)->stream;
  graft_recording *recording = record_launches(&s);
  for (int i = 1; i <= 3; ++i) {
    assert_int_equal(begin_capture(stream, 0), 0);
    assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
    assert_int_equal(end_capture(stream, &graph), 0);
    assert_int_equal(get_counts().captured, i * N_COMMANDS);
    assert_int_equal(destroy_graph(graph), 0);
  }
  assert_int_equal(get_counts().launches, 0);
  assert_int_equal(get_counts().refused_waits, 0);
  assert_int_equal(get_counts().graph_launches, 0);
  s.backend->record_destroy(recording);
  end(&s);
}

static void RP1_calls_that_are_not_capture_safe_are_never_captured(void **state) {
  (void)state;
  session s;
  graft_error error = {0};
  void *graph = NULL;
  begin(&s);
  void *stream = graft_cuda_describe(s.device)->stream;
  const graft_cuda_call call = {.struct_size = sizeof call, .run = enqueue_nothing};
  graft_recording *recording = record_calls(&s, &call);
  for (int i = 0; i < 3; ++i) assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
  assert_int_equal(get_counts().graph_launches, 0);
  assert_int_equal(begin_capture(stream, 0), 0);
  assert_int_equal(run(&s, recording, &error), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "cannot be captured"));
  assert_int_equal(end_capture(stream, &graph), 0);
  assert_int_equal(destroy_graph(graph), 0);
  assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
  s.backend->record_destroy(recording);
  end(&s);
}

static void count_steps(void *user, uint32_t step, bool is_end) {
  (void)step, (void)is_end;
  ++*(int *)user;
}

static bool stop_now(void *user) {
  (void)user;
  return true;
}

// Steps of a graph are over when it was launched, and it cannot be stopped half-way.
static void RP1_outer_captures_are_not_watched_and_end_as_a_whole(void **state) {
  (void)state;
  session s;
  void *graph = NULL;
  graft_error error = {0};
  int n_steps = 0;
  begin(&s);
  void *stream = graft_cuda_describe(s.device)->stream;
  graft_recording *recording = record_launches(&s);
  const graft_run_control watching = {.struct_size = sizeof watching, .on_step = count_steps, .on_step_user = &n_steps};
  const graft_run_control stopping = {.struct_size = sizeof stopping, .abort = stop_now};
  assert_int_equal(begin_capture(stream, 0), 0);
  assert_int_equal(s.backend->run(recording, 0, 1, &watching, &error), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "cannot be watched"));
  assert_int_equal(n_steps, 0);
  assert_int_equal(s.backend->run(recording, 0, 1, &stopping, &error), GRAFT_E_CANCELLED);
  assert_int_equal(get_counts().captured, 0);
  assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
  assert_int_equal(get_counts().captured, N_COMMANDS);
  assert_int_equal(end_capture(stream, &graph), 0);
  assert_int_equal(destroy_graph(graph), 0);
  s.backend->record_destroy(recording);
  end(&s);
}

// What stands in for a kernel that finds a fault, or does not.
typedef struct fault_call {
  graft_cuda_fault *fault;
  const bool *is_bad;
} fault_call;

static graft_status find_fault(const void *args, void *stream, graft_error *error) {
  const fault_call *call = args;
  (void)stream, (void)error;
  if (*call->is_bad) call->fault->code = 1;
  return GRAFT_OK;
}

static graft_status report_fault(const graft_cuda_fault *fault, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "fault %d", (int)fault->code);
}

static graft_recording *record_fault(const session *s, const bool *is_bad) {
  graft_encoder *encoder = NULL;
  graft_recording *recording = begin_recording(s, &encoder);
  fault_call args = {.is_bad = is_bad};
  void *address = NULL;
  assert_int_equal(graft_cuda_encode_fault(encoder, report_fault, NULL, &address), GRAFT_OK);
  args.fault = address;
  const graft_cuda_call call = {.struct_size = sizeof call,
                                .run = find_fault,
                                .args = &args,
                                .args_bytes = sizeof args,
                                .key_bytes = sizeof args,
                                .is_capture_safe = true};
  for (int i = 0; i < N_COMMANDS; ++i) assert_int_equal(graft_cuda_encode_call(encoder, &call, NULL), GRAFT_OK);
  assert_int_equal(s->backend->record_end(recording, NULL), GRAFT_OK);
  return recording;
}

// graft hears of faults when a run of its own is over.
static void RP1_plans_with_fault_records_are_kept_out_of_the_graphs_of_others(void **state) {
  (void)state;
  session s;
  void *graph = NULL;
  graft_error error = {0};
  bool is_bad = true;
  begin(&s);
  void *stream = graft_cuda_describe(s.device)->stream;
  graft_recording *recording = record_fault(&s, &is_bad);
  assert_int_equal(begin_capture(stream, 0), 0);
  assert_int_equal(run(&s, recording, &error), GRAFT_E_UNSUPPORTED);
  assert_non_null(strstr(error.message, "nobody would hear of it"));
  assert_int_equal(end_capture(stream, &graph), 0);
  assert_int_equal(destroy_graph(graph), 0);
  assert_int_equal(run(&s, recording, &error), GRAFT_E_INVALID);
  is_bad = false;
  assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
  s.backend->record_destroy(recording);
  end(&s);
}

static bool stop_later(void *user) {
  return --*(int *)user < 0;
}

// A run that was cancelled, watched or not, leaves no fault for the next one, and says where it stopped itself.
static void faults_of_cancelled_runs_are_not_those_of_the_next(void **state) {
  (void)state;
  session s;
  begin(&s);
  for (int is_watched = 0; is_watched < 2; ++is_watched) {
    int n_steps = 0, left = 1;
    uint32_t step = 7;
    bool is_bad = true;
    const graft_run_control control = {.struct_size = sizeof control,
                                       .abort = stop_later,
                                       .abort_user = &left,
                                       .on_step = is_watched ? count_steps : NULL,
                                       .on_step_user = &n_steps,
                                       .out_step = &step};
    graft_recording *recording = record_fault(&s, &is_bad);
    assert_int_equal(s.backend->run(recording, 0, 1, &control, NULL), GRAFT_E_CANCELLED);
    assert_int_equal(step, 0);
    is_bad = false;
    assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
    s.backend->record_destroy(recording);
  }
  end(&s);
}

// A recording with the same commands takes over the graph of one that is gone, unless that said that it cannot.
static void RP2_captures_that_need_their_plan_are_not_kept(void **state) {
  (void)state;
  session s;
  begin(&s);
  for (int is_bound = 0; is_bound < 2; ++is_bound) {
    const graft_cuda_call call = {
        .struct_size = sizeof call, .run = enqueue_nothing, .is_capture_safe = true, .is_bound = is_bound != 0};
    graft_recording *recording = record_calls(&s, &call);
    for (int i = 0; i < 2; ++i) assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
    s.backend->record_destroy(recording);
    const int64_t launches = get_counts().graph_launches;
    recording = record_calls(&s, &call);
    assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
    assert_int_equal(get_counts().graph_launches - launches, is_bound ? 0 : 1);
    s.backend->record_destroy(recording);
  }
  end(&s);
}

// Nothing of what lies behind the members that an older caller knows is looked at.
static void OP8_older_calls_are_not_bound(void **state) {
  (void)state;
  session s;
  graft_cuda_call call;
  begin(&s);
  memset(&call, 1, sizeof call);
  call.struct_size = offsetof(graft_cuda_call, is_bound);
  call.run = enqueue_nothing;
  call.args = NULL;
  call.args_bytes = call.key_bytes = 0;
  call.is_capture_safe = true;
  for (int i = 0; i < 2; ++i) {
    graft_recording *recording = record_calls(&s, &call);
    for (int k = 0; k < 2; ++k) assert_int_equal(run(&s, recording, NULL), GRAFT_OK);
    s.backend->record_destroy(recording);
  }
  assert_int_equal(get_counts().graph_launches, 1 + 2);
  end(&s);
}

static void BE2_cards_before_turing_are_refused(void **state) {
  (void)state;
  session s;
  reset(0, 0);
  lack(75);  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  assert_int_equal(open_session(&s), GRAFT_E_DEVICE);
  assert_non_null(strstr(graft_context_error(s.context)->message, "Turing"));
  end(&s);
}

// Tensor cores multiply integers from 7.2 on.
static void SV3_integer_products_are_a_matter_of_the_card(void **state) {
  (void)state;
  static const struct {
    int major, minor;
    bool has_int8;
  } cards[] = {{7, 0, false}, {7, 2, true}, {7, 5, true}, {9, 0, true}, {12, 0, true}};
  for (size_t i = 0; i < sizeof cards / sizeof cards[0]; ++i) {
    static graft_cuda_device device;
    device.info.compute_major = cards[i].major;
    device.info.compute_minor = cards[i].minor;
    const graft_cuda_blas_service *blas = graft_cuda_service(&device, GRAFT_GPU_BLAS_SERVICE);
    assert_int_equal(blas->has_int8, cards[i].has_int8);
    assert_ptr_equal(graft_cuda_service(&device, GRAFT_CUDA_BLAS_SERVICE), blas);
  }
}

int main(void) {
  void *library = dlopen(FAKE_LIBCUDA, RTLD_NOW);
  if (library == NULL) return 1;
  *(void **)&reset = dlsym(library, "fake_cuda_reset");
  *(void **)&get_counts = dlsym(library, "fake_cuda_get_counts");
  *(void **)&lack = dlsym(library, "fake_cuda_lack");
  *(void **)&begin_capture = dlsym(library, "cuStreamBeginCapture_v2");
  *(void **)&end_capture = dlsym(library, "cuStreamEndCapture");
  *(void **)&destroy_graph = dlsym(library, "cuGraphDestroy");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(RP1_an_outer_capture_records_the_plan),
      cmocka_unit_test(RP1_calls_that_are_not_capture_safe_are_never_captured),
      cmocka_unit_test(RP1_outer_captures_are_not_watched_and_end_as_a_whole),
      cmocka_unit_test(RP1_plans_with_fault_records_are_kept_out_of_the_graphs_of_others),
      cmocka_unit_test(faults_of_cancelled_runs_are_not_those_of_the_next),
      cmocka_unit_test(RP2_captures_that_need_their_plan_are_not_kept),
      cmocka_unit_test(OP8_older_calls_are_not_bound),
      cmocka_unit_test(SV3_integer_products_are_a_matter_of_the_card),
      cmocka_unit_test(BE2_cards_before_turing_are_refused),
  };
  return cmocka_run_group_tests_name("cuda_capture", tests, NULL, NULL);
}
