// The CUDA backend's host logic against a double of the driver: devices, copies, replay, cancelling, and an error at
// every call.
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "fake_libcuda.h"
#include "graft/cuda.h"
#include "graft/graft.h"
#include "ops/binary/binary.h"
#include "ops/conv2d/conv2d.h"
#include "ops/linear_i8/linear_i8.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/unary/unary.h"

enum { FAKE_OUT_OF_MEMORY = 2, FAKE_ILLEGAL_ADDRESS = 700, ROWS = 16, COLUMNS = 24, N_KERNELS = 3 };

static fake_cuda_reset_fn reset;
static fake_cuda_counts_fn get_counts;
static fake_cuda_on_capture_fn on_capture;
static int (*synchronize_context)(void);

typedef struct session {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
  graft_plan *plan;
} session;

static graft_status open_context(const char *words, graft_context **out_context) {
  char devices[600];
  snprintf(devices, sizeof devices, "cuda library=%s %s", FAKE_LIBCUDA, words);
  const graft_context_options options = {
      .struct_size = sizeof options, .devices = devices, .ignore_environment = true, .n_threads = 1};
  return graft_context_create(&options, NULL, out_context);
}

static void build_graph(session *s) {
  graft_tensor_desc desc;
  const int64_t shape[2] = {ROWS, COLUMNS};
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, shape, NULL, &desc), GRAFT_OK);
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  graft_tensor *x = graft_graph_input(s->graph, "x", &desc);
  graft_graph_output(s->graph, graft_tanh(s->graph, graft_add(s->graph, graft_sigmoid(s->graph, x), x)), "y");
}

static graft_status make_plan(session *s) {
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = s->device, .flags = GRAFT_PLAN_KEEP_NODES};
  float zeros[ROWS * COLUMNS] = {0};
  GRAFT_TRY(graft_plan_create(s->graph, &options, &s->plan));
  return graft_plan_write(s->plan, 0, zeros, sizeof zeros);
}

static graft_status begin(const char *words, session *s) {
  *s = (session){0};
  GRAFT_TRY(open_context(words, &s->context));
  GRAFT_TRY(graft_device_open(s->context, "cuda:0", &s->device));
  build_graph(s);
  return make_plan(s);
}

static void end(session *s) {
  graft_plan_destroy(s->plan);
  if (s->graph != NULL) graft_graph_destroy(s->graph);
  if (s->context != NULL) graft_context_destroy(s->context);
}

static void open_well(const char *words, session *s) {
  reset(0, 0);
  assert_int_equal(begin(words, s), GRAFT_OK);
}

static void close_well(session *s) {
  end(s);
  assert_int_equal(get_counts().hazards, 0);
  assert_int_equal(get_counts().live_objects, 0);
}

static void virtual_devices_share_a_card(void **state) {
  (void)state;
  session s;
  graft_device *second = NULL, *third = NULL;
  open_well("virtual=2", &s);
  assert_int_equal(graft_device_open(s.context, "cuda:1", &second), GRAFT_OK);
  assert_int_equal(graft_device_open(s.context, "cuda:2", &third), GRAFT_E_NOT_FOUND);
  assert_int_equal(graft_cuda_describe(second)->ordinal, 0);
  assert_ptr_not_equal(graft_device_state(second), graft_device_state(s.device));
  close_well(&s);
}

static void SV2_services_are_found_by_name(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  const graft_cuda_context_service *context = graft_device_service(s.device, GRAFT_CUDA_CONTEXT_SERVICE);
  const graft_cuda_context_service *device = graft_device_service(s.device, GRAFT_CUDA_DEVICE_SERVICE);
  assert_true(context != NULL && device != NULL);
  assert_true(context->describe(s.device)->stream != NULL && context->describe(s.device)->context != NULL);
  assert_int_equal(device->describe(s.device)->ordinal, 0);
  assert_non_null(graft_device_service(s.device, GRAFT_CUDA_BLAS_SERVICE));
  assert_null(graft_device_service(s.device, "cuda.context.v2"));
  close_well(&s);
}

static void SV2_cards_are_known_before_they_are_open(void **state) {
  (void)state;
  graft_context *context = NULL;
  int32_t ordinal = -1;
  reset(0, 0);
  assert_int_equal(open_context("virtual=2", &context), GRAFT_OK);
  assert_int_equal(graft_cuda_find_ordinal(context, 1, &ordinal), GRAFT_OK);
  assert_int_equal(ordinal, 0);
  assert_int_equal(graft_cuda_find_ordinal(context, 2, &ordinal), GRAFT_E_NOT_FOUND);
  assert_int_equal(get_counts().live_objects, 0);
  graft_context_destroy(context);
}

static void SV3_services_of_every_gpu_say_their_runtime(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  const graft_cuda_context_service *device = graft_device_service(s.device, GRAFT_GPU_DEVICE_SERVICE);
  assert_string_equal(device->runtime, "cuda");
  assert_int_equal(device->describe(s.device)->warp_size, 32);
  assert_true(device->describe(s.device)->shared_bytes_per_block >= 48 << 10);
  assert_ptr_equal(graft_device_service(s.device, GRAFT_GPU_CONTEXT_SERVICE), device);
  const graft_cuda_blas_service *blas = graft_device_service(s.device, GRAFT_GPU_BLAS_SERVICE);
  assert_true(blas->has_int8);
  close_well(&s);
}

static void the_device_says_what_it_can_do(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(s.device, &info);
  assert_int_equal(info.flags,
                   GRAFT_DEVICE_ASYNC | GRAFT_DEVICE_EVENTS | GRAFT_DEVICE_HOST_POINTERS | GRAFT_DEVICE_MAPPING);
  assert_int_equal(info.memory_bytes, 1 << 30);
  assert_int_equal(info.max_buffer_bytes, 1 << 30);
  assert_int_equal(info.free_bytes, (1 << 30) - get_counts().live_bytes);
  close_well(&s);
}

static void words_that_mean_nothing_are_named(void **state) {
  (void)state;
  graft_context *context = NULL;
  graft_device *device = NULL;
  reset(0, 0);
  assert_int_equal(open_context("speed=11", &context), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "cuda:0", &device), GRAFT_E_NOT_FOUND);
  assert_non_null(strstr(graft_context_error(context)->message, "speed=11"));
  graft_context_destroy(context);
}

static void a_missing_driver_is_a_reason(void **state) {
  (void)state;
  const graft_context_options options = {.struct_size = sizeof options, .devices = "cuda library=/nowhere/libcuda.so"};
  graft_context *context = NULL;
  graft_device *device = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "cuda", &device), GRAFT_E_NOT_FOUND);
  assert_non_null(strstr(graft_context_error(context)->message, "/nowhere/libcuda.so"));
  graft_context_destroy(context);
}

static void large_copies_arrive_whole(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  const size_t bytes = ((size_t)20 << 20) + 12345;
  unsigned char *source = malloc(bytes), *target = calloc(1, bytes);
  void *memory = NULL;
  assert_true(source != NULL && target != NULL);
  for (size_t i = 0; i < bytes; ++i) source[i] = (unsigned char)(i * 2654435761u >> 13);
  const graft_backend_def *backend = graft_device_backend(s.device);
  void *device = graft_device_state(s.device);
  assert_int_equal(backend->allocate(device, bytes, NULL, &memory), GRAFT_OK);
  assert_int_equal(backend->upload(device, memory, source, bytes, NULL), GRAFT_OK);
  assert_int_equal(backend->download(device, target, memory, bytes, NULL), GRAFT_OK);
  assert_memory_equal(source, target, bytes);
  backend->release(device, memory, bytes);
  free(source);
  free(target);
  close_well(&s);
}

static void the_second_run_captures_and_later_ones_replay(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  assert_int_equal(get_counts().launches, N_KERNELS);
  assert_int_equal(get_counts().graph_launches, 0);
  for (int i = 1; i <= 3; ++i) {
    assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
    assert_int_equal(get_counts().launches, N_KERNELS);
    assert_int_equal(get_counts().captured, N_KERNELS);
    assert_int_equal(get_counts().graph_launches, i);
  }
  close_well(&s);
}

// A plan that another thread destroys while one is captured; it waits for the device.
static pthread_t destroyer;
static graft_plan *doomed;

static void *destroy_doomed(void *unused) {
  graft_plan_destroy(doomed);
  return unused;
}

// Leaves the other thread time to do harm.
static void destroy_meanwhile(void) {
  assert_int_equal(pthread_create(&destroyer, NULL, destroy_doomed, NULL), 0);
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void SC3_plans_are_destroyed_while_another_is_captured(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  const graft_plan_options options = {.struct_size = sizeof options, .device = s.device};
  assert_int_equal(graft_plan_create(s.graph, &options, &doomed), GRAFT_OK);
  assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  on_capture(destroy_meanwhile);
  const graft_status status = graft_plan_run(s.plan, NULL);
  pthread_join(destroyer, NULL);
  assert_int_equal(status, GRAFT_OK);
  assert_int_equal(get_counts().refused_waits, 0);
  assert_int_equal(get_counts().graph_launches, 1);
  close_well(&s);
}

static graft_device *neighbour;

static void wait_for_neighbour(void) {
  const graft_backend_def *backend = graft_device_backend(neighbour);
  assert_int_equal(backend->synchronize(graft_device_state(neighbour), NULL), GRAFT_OK);
}

// Devices of one card share a context.
static void SC3_devices_are_waited_for_while_another_of_the_card_is_captured(void **state) {
  (void)state;
  session s;
  graft_stream *stream = NULL;
  open_well("virtual=2", &s);
  assert_int_equal(graft_device_open(s.context, "cuda:1", &neighbour), GRAFT_OK);
  const graft_backend_def *backend = graft_device_backend(neighbour);
  assert_int_equal(backend->stream_create(graft_device_state(neighbour), NULL, &stream), GRAFT_OK);
  assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  on_capture(wait_for_neighbour);
  assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  assert_int_equal(get_counts().refused_waits, 0);
  assert_int_equal(get_counts().graph_launches, 1);
  backend->stream_destroy(stream);
  close_well(&s);
}

static void break_capture(void) {
  (void)synchronize_context();
}

// Other libraries of the process share the context.
static void a_capture_that_others_break_costs_no_run(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  on_capture(break_capture);
  for (int i = 2; i <= 3; ++i) {
    assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
    assert_int_equal(get_counts().launches, i * N_KERNELS);
  }
  assert_int_equal(get_counts().refused_waits, 1);
  assert_int_equal(get_counts().graph_launches, 0);
  // RP1: reported, and not tried again.
  const graft_cuda_runs_service *service = graft_device_service(s.device, GRAFT_CUDA_RUNS_SERVICE);
  graft_cuda_run_counts counts = {.struct_size = sizeof counts};
  service->count(s.device, &counts);
  assert_int_equal(counts.n_failed_captures, 1);
  assert_non_null(strstr(counts.capture_failure, "capturing a plan"));
  close_well(&s);
}

static void replay_can_be_switched_off(void **state) {
  (void)state;
  session s;
  open_well("replay=off", &s);
  for (int i = 0; i < 4; ++i) assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  assert_int_equal(get_counts().launches, 4 * N_KERNELS);
  assert_int_equal(get_counts().graph_launches, 0);
  close_well(&s);
}

static void count_step(void *user, uint32_t step, bool is_end) {
  (void)step, (void)is_end;
  ++*(int *)user;
}

static void watched_runs_are_dispatched(void **state) {
  (void)state;
  session s;
  int n_seen = 0;
  const graft_run_control control = {.struct_size = sizeof control, .on_step = count_step, .on_step_user = &n_seen};
  open_well("", &s);
  for (int i = 0; i < 3; ++i) assert_int_equal(graft_plan_run(s.plan, &control), GRAFT_OK);
  assert_int_equal(n_seen, 3 * 2 * N_KERNELS);
  assert_int_equal(get_counts().launches, 3 * N_KERNELS);
  assert_int_equal(get_counts().graph_launches, 0);
  close_well(&s);
}

static bool always(void *user) {
  (void)user;
  return true;
}

static void cancelled_plans_run_again(void **state) {
  (void)state;
  session s;
  const graft_run_control control = {.struct_size = sizeof control, .abort = always};
  open_well("", &s);
  for (int i = 0; i < 3; ++i) {
    assert_int_equal(graft_plan_run(s.plan, &control), GRAFT_E_CANCELLED);
    assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  }
  close_well(&s);
}

static void plans_made_anew_take_over_graphs(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  for (int i = 0; i < 2; ++i) assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  const int64_t live = get_counts().live_objects, bytes = get_counts().live_bytes;
  for (int i = 0; i < 1000; ++i) {
    graft_plan_destroy(s.plan);
    assert_int_equal(make_plan(&s), GRAFT_OK);
    assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_OK);
  }
  assert_int_equal(get_counts().captured, N_KERNELS);
  assert_int_equal(get_counts().graph_launches, 1001);
  assert_int_equal(get_counts().live_objects, live);
  assert_int_equal(get_counts().live_bytes, bytes);
  close_well(&s);
}

static graft_status live_a_life(session *s) {
  float result[ROWS * COLUMNS];
  GRAFT_TRY(begin("", s));
  for (int i = 0; i < 3; ++i) GRAFT_TRY(graft_plan_run(s->plan, NULL));
  const graft_run_control control = {.struct_size = sizeof control, .abort = NULL, .on_step = NULL};
  GRAFT_TRY(graft_plan_run(s->plan, &control));
  return graft_plan_read(s->plan, 0, result, sizeof result);
}

// Fails each call in turn until a life passes without one that fails.
static void survive(graft_status (*live)(session *s), int result) {
  for (int64_t n = 1;; ++n) {
    session s;
    reset(n, result);
    graft_status status = live(&s);
    const bool is_hit = get_counts().calls >= n;
    if (status != GRAFT_OK) assert_true(graft_context_error(s.context)->message[0] != '\0');
    reset(0, 0);
    end(&s);
    if (!is_hit) {
      assert_int_equal(status, GRAFT_OK);
      return;
    }
  }
}

static void any_call_may_fail(void **state) {
  (void)state;
  survive(live_a_life, FAKE_OUT_OF_MEMORY);
}

static void the_device_may_be_lost_at_any_call(void **state) {
  (void)state;
  survive(live_a_life, FAKE_ILLEGAL_ADDRESS);
}

static graft_tensor *input(session *s, const char *name, graft_dtype dtype, const int64_t shape[4]) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(dtype, 4, shape, NULL, &desc), GRAFT_OK);
  return graft_graph_input(s->graph, name, &desc);
}

// Attention and a convolution of bf16, of sizes for which a Hopper card has kernels of its own.
static graft_status multiply_on_hopper(session *s) {
  static uint16_t weights[40 * 24 * 3 * 3], zeros[300 * 2 * 128];
  const graft_conv2d_attrs padded = {.padding = {1, 1, 1, 1}};
  graft_tensor_desc desc;
  *s = (session){0};
  GRAFT_TRY(open_context("", &s->context));
  GRAFT_TRY(graft_device_open(s->context, "cuda:0", &s->device));
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_BF16, 4, (int64_t[]){40, 24, 3, 3}, NULL, &desc), GRAFT_OK);
  const graft_constant data = {.struct_size = sizeof data, .data = weights, .bytes = sizeof weights};
  graft_tensor *q = input(s, "q", GRAFT_BF16, (int64_t[]){1, 300, 2, 128});
  graft_tensor *image = input(s, "image", GRAFT_BF16, (int64_t[]){1, 24, 20, 16});
  graft_tensor *weight = graft_graph_constant(s->graph, "w", &desc, &data), *none = graft_graph_none();
  graft_graph_output(s->graph, graft_scaled_dot_product_attention(s->graph, q, q, q, none, NULL), "attention");
  graft_graph_output(s->graph, graft_conv2d(s->graph, image, weight, none, &padded), "convolution");
  const graft_plan_options options = {.struct_size = sizeof options, .device = s->device};
  GRAFT_TRY(graft_plan_create(s->graph, &options, &s->plan));
  GRAFT_TRY(graft_plan_write(s->plan, 0, zeros, sizeof zeros));
  GRAFT_TRY(graft_plan_write(s->plan, 1, zeros, 24 * 20 * 16 * sizeof zeros[0]));
  return graft_plan_run(s->plan, NULL);
}

static void OP8_commands_of_another_size_are_refused(void **state) {
  (void)state;
  session s;
  graft_error error = {0};
  graft_recording *recording = NULL;
  graft_cuda_tensor_map map;
  open_well("", &s);
  const graft_backend_def *backend = graft_device_backend(s.device);
  assert_int_equal(backend->record_begin(graft_device_state(s.device), 1, &error, &recording), GRAFT_OK);
  graft_encoder *encoder = backend->step_begin(recording, 0);
  assert_int_equal(graft_cuda_encode(encoder, &(graft_cuda_launch){.grid = {1, 1, 1}}, &error), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "struct_size of a graft_cuda_launch is 0"));
  assert_int_equal(graft_cuda_encode_call(encoder, &(graft_cuda_call){.args = NULL}, &error), GRAFT_E_INVALID);
  backend->record_destroy(recording);
  graft_cuda_tiled_tensor tensor = {.element_bytes = 2, .rank = 1, .shape = {64}, .box = {64}};
  assert_int_equal(graft_cuda_tensor_map_encode(s.device, &tensor, &error, &map), GRAFT_E_INVALID);
  tensor.struct_size = sizeof tensor;
  tensor.rank = 6;
  assert_int_equal(graft_cuda_tensor_map_encode(s.device, &tensor, &error, &map), GRAFT_E_INVALID);
  tensor.rank = 1;
  tensor.swizzle_bytes = 16;
  assert_int_equal(graft_cuda_tensor_map_encode(s.device, &tensor, &error, &map), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "swizzled by 16"));
  close_well(&s);
}

static void OP8_device_code_of_another_size_is_refused(void **state) {
  (void)state;
  session s;
  graft_cuda_function *function = NULL;
  open_well("", &s);
  const graft_cuda_module wrong[] = {
      {.name = "tests", .image = "none"},  // nobody set its size
      {.struct_size = 8, .name = "tests", .image = "none"},
      {.struct_size = 12, .name = "tests", .image = "none"},
      {.struct_size = 16, .name = "tests", .image = "none"},  // ends before the image
      {.struct_size = sizeof wrong[0], .image = "none"},
      {.struct_size = sizeof wrong[0], .name = "tests"},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    graft_error error = {0};
    assert_int_equal(graft_cuda_function_load(s.device, &wrong[i], "f", 0, &error, &function), GRAFT_E_INVALID);
    assert_non_null(strstr(error.message, "graft_cuda_module"));
  }
  assert_null(function);
  close_well(&s);
}

// The largest tensors that there are: what kernels need beside them is counted, not wrapped around.
static void the_largest_rows_are_counted(void **state) {
  (void)state;
  const int64_t largest = (int64_t)1 << 56;
  const struct {
    int64_t m, n, k;
    graft_dtype x, weight;
    size_t least_bytes;
  } cases[] = {
      {largest, 1, 1, GRAFT_F8_E4M3, GRAFT_I8, (size_t)(16 + 4) << 56},         // rows of 16 bytes, and their scales
      {1, 1, largest, GRAFT_F8_E4M3, GRAFT_I8, (size_t)(1 + 1 + 1 + 4) << 56},  // a row of numbers, too
      {256, 1, largest / 256, GRAFT_F8_E4M3, GRAFT_I8, (size_t)(1 + 1 + 4) << 56},
      {1, 256, largest / 256, GRAFT_I8, GRAFT_F8_E4M3, (size_t)(1 + 1 + 4) << 56},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    session s = {0};
    graft_tensor_desc x, weight, scale;
    reset(0, 0);
    assert_int_equal(open_context("", &s.context), GRAFT_OK);
    assert_int_equal(graft_device_open(s.context, "cuda:0", &s.device), GRAFT_OK);
    assert_int_equal(graft_graph_create(s.context, &s.graph), GRAFT_OK);
    const int64_t x_shape[] = {cases[i].m, cases[i].k}, weight_shape[] = {cases[i].n, cases[i].k}, one = 1;
    assert_int_equal(graft_tensor_desc_init(cases[i].x, 2, x_shape, NULL, &x), GRAFT_OK);
    assert_int_equal(graft_tensor_desc_init(cases[i].weight, 2, weight_shape, NULL, &weight), GRAFT_OK);
    assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, &one, NULL, &scale), GRAFT_OK);
    graft_tensor *none = graft_graph_none();
    const graft_linear_i8_inputs inputs = {
        .x = graft_graph_input(s.graph, "x", &x),
        .x_scale = cases[i].x == GRAFT_I8 ? graft_graph_input(s.graph, "x_scale", &scale) : none,
        .weight = graft_graph_input(s.graph, "weight", &weight),
        .weight_scale = none,
        .bias = none};
    const graft_linear_i8_attrs attrs = {.group = 1, .y_dtype = GRAFT_F8_E4M3};
    graft_graph_output(s.graph, graft_linear_i8(s.graph, &inputs, &attrs), "y");
    const graft_plan_options options = {
        .struct_size = sizeof options, .device = s.device, .flags = GRAFT_PLAN_MEASURE_ONLY};
    graft_memory_report memory = {.struct_size = sizeof memory};
    if (graft_plan_create(s.graph, &options, &s.plan) != GRAFT_OK) {
      fail_msg("%s", graft_context_error(s.context)->message);
    }
    graft_plan_memory(s.plan, &memory);
    assert_true(memory.peak_bytes >= cases[i].least_bytes);
    close_well(&s);
  }
}

static void hopper_kernels_describe_their_tensors(void **state) {
  (void)state;
  session s;
  reset(0, 0);
  assert_int_equal(multiply_on_hopper(&s), GRAFT_OK);
  assert_int_equal(get_counts().tensor_maps, HAS_HOPPER_CODE ? 3 + 2 : 0);
  close_well(&s);
}

static void hopper_kernels_survive_any_error(void **state) {
  (void)state;
  survive(multiply_on_hopper, FAKE_OUT_OF_MEMORY);
}

static void a_lost_device_stays_lost(void **state) {
  (void)state;
  session s;
  open_well("", &s);
  int64_t n = 1;
  graft_status status = GRAFT_OK;
  // The first call of a run whose failure the run reports.
  for (; status == GRAFT_OK && n < 100; ++n) {
    reset(n, FAKE_ILLEGAL_ADDRESS);
    status = graft_plan_run(s.plan, NULL);
  }
  assert_int_equal(status, GRAFT_E_DEVICE);
  assert_non_null(strstr(graft_context_error(s.context)->message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  reset(0, 0);
  assert_int_equal(graft_plan_run(s.plan, NULL), GRAFT_E_DEVICE);
  assert_non_null(strstr(graft_context_error(s.context)->message, "lost"));
  end(&s);
}

int main(void) {
  void *library = dlopen(FAKE_LIBCUDA, RTLD_NOW);
  if (library == NULL) return 1;
  *(void **)&reset = dlsym(library, "fake_cuda_reset");
  *(void **)&get_counts = dlsym(library, "fake_cuda_get_counts");
  *(void **)&on_capture = dlsym(library, "fake_cuda_on_capture");
  *(void **)&synchronize_context = dlsym(library, "cuCtxSynchronize");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(virtual_devices_share_a_card),
      cmocka_unit_test(SV2_services_are_found_by_name),
      cmocka_unit_test(SV2_cards_are_known_before_they_are_open),
      cmocka_unit_test(SV3_services_of_every_gpu_say_their_runtime),
      cmocka_unit_test(the_device_says_what_it_can_do),
      cmocka_unit_test(words_that_mean_nothing_are_named),
      cmocka_unit_test(a_missing_driver_is_a_reason),
      cmocka_unit_test(large_copies_arrive_whole),
      cmocka_unit_test(the_second_run_captures_and_later_ones_replay),
      cmocka_unit_test(SC3_plans_are_destroyed_while_another_is_captured),
      cmocka_unit_test(SC3_devices_are_waited_for_while_another_of_the_card_is_captured),
      cmocka_unit_test(a_capture_that_others_break_costs_no_run),
      cmocka_unit_test(replay_can_be_switched_off),
      cmocka_unit_test(watched_runs_are_dispatched),
      cmocka_unit_test(cancelled_plans_run_again),
      cmocka_unit_test(plans_made_anew_take_over_graphs),
      cmocka_unit_test(OP8_commands_of_another_size_are_refused),
      cmocka_unit_test(OP8_device_code_of_another_size_is_refused),
      cmocka_unit_test(the_largest_rows_are_counted),
      cmocka_unit_test(hopper_kernels_describe_their_tensors),
      cmocka_unit_test(any_call_may_fail),
      cmocka_unit_test(the_device_may_be_lost_at_any_call),
      cmocka_unit_test(a_lost_device_stays_lost),
      cmocka_unit_test(hopper_kernels_survive_any_error),
  };
  return cmocka_run_group_tests_name("cuda_backend", tests, NULL, NULL);
}
