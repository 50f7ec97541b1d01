// What only a real card shows: replays give the bytes of ordinary runs, plans made anew leave no memory behind, long
// work stops soon when it is cancelled. Skipped where there is no card.
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "graft/cuda.h"
#include "graft/graft.h"
#include "ops/binary/binary.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/unary/unary.h"

enum { ROWS = 64, WIDTH = 256, N_LAYERS = 24, N_VALUES = ROWS * WIDTH, LONG_WIDTH = 6144, N_LONG = 40 };

typedef struct session {
  graft_context *context;
  graft_device *device;
  graft_graph *graph;
  float *weights;
} session;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static graft_status open_card(const char *words, session *s) {
  const graft_context_options options = {.struct_size = sizeof options, .devices = words};
  *s = (session){0};
  assert_int_equal(graft_context_create(&options, NULL, &s->context), GRAFT_OK);
  return graft_device_open(s->context, "cuda:0", &s->device);
}

static void close_card(session *s) {
  if (s->graph != NULL) graft_graph_destroy(s->graph);
  graft_context_destroy(s->context);
  free(s->weights);
}

static graft_tensor *constant(session *s, const graft_tensor_desc *desc, size_t first) {
  const graft_constant data = {
      .struct_size = sizeof data, .data = s->weights + first, .bytes = graft_tensor_desc_bytes(desc)};
  return graft_graph_constant(s->graph, "w", desc, &data);
}

// Layers of norm, product, activation and sum; of weights of their own, one behind the other, or all of the same.
static void build_with(session *s, int64_t rows, int64_t width, int n_layers, bool has_own_weights) {
  graft_tensor_desc x_desc, w_desc;
  const size_t shift = has_own_weights ? (size_t)(width * width) : 0,
               n = (size_t)(width * width) + shift * (size_t)n_layers;
  s->weights = malloc(n * sizeof *s->weights);
  assert_non_null(s->weights);
  for (size_t i = 0; i < n; ++i) s->weights[i] = (float)((i * 2654435761u >> 8 & 1023) - 511.5) / 8192;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){rows, width}, NULL, &x_desc), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){width, width}, NULL, &w_desc), GRAFT_OK);
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  graft_tensor *x = graft_graph_input(s->graph, "x", &x_desc), *w = constant(s, &w_desc, 0);
  for (int i = 0; i < n_layers; ++i) {
    if (has_own_weights) w = constant(s, &w_desc, shift * (size_t)i);
    graft_tensor *y = graft_rms_norm(s->graph, x, graft_graph_none(), 1e-5);
    y = graft_silu(s->graph, graft_linear(s->graph, y, w, graft_graph_none()));
    x = graft_add(s->graph, x, y);
  }
  graft_graph_output(s->graph, x, "y");
}

static void build(session *s, int64_t rows, int64_t width, int n_layers) {
  build_with(s, rows, width, n_layers, false);
}

static graft_plan *make_plan(const session *s) {
  const graft_plan_options options = {.struct_size = sizeof options, .device = s->device};
  graft_plan *plan = NULL;
  if (graft_plan_create(s->graph, &options, &plan) != GRAFT_OK)
    fail_msg("%s", graft_context_error(s->context)->message);
  return plan;
}

static void run_with(graft_plan *plan, float value, float *out) {
  float x[N_VALUES];
  for (int i = 0; i < N_VALUES; ++i) x[i] = value * (float)(i % 37 - 18);
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, out, sizeof x), GRAFT_OK);
}

static void replays_give_the_bytes_of_ordinary_runs(void **state) {
  (void)state;
  static const float values[] = {0.01f, 0.5f, -3.0f};
  static float ordinary[3][N_VALUES], replayed[N_VALUES];
  session off, on;
  if (open_card("cuda replay=off", &off) != GRAFT_OK) {
    close_card(&off);
    skip();
  }
  assert_int_equal(open_card("", &on), GRAFT_OK);
  build(&off, ROWS, WIDTH, N_LAYERS);
  build(&on, ROWS, WIDTH, N_LAYERS);
  graft_plan *plan = make_plan(&off), *replaying = make_plan(&on);
  for (int i = 0; i < 3; ++i) run_with(plan, values[i], ordinary[i]);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 3; ++i) {
      run_with(replaying, values[i], replayed);
      assert_memory_equal(replayed, ordinary[i], sizeof replayed);
    }
  }
  double times[2];
  graft_plan *const plans[2] = {plan, replaying};
  for (int p = 0; p < 2; ++p) {
    const double begin = seconds_now();
    for (int i = 0; i < 200; ++i) assert_int_equal(graft_plan_run(plans[p], NULL), GRAFT_OK);
    times[p] = (seconds_now() - begin) / 200;
  }
  print_message("    %u steps: %.1f us dispatched, %.1f us replayed\n", graft_plan_n_steps(plan), 1e6 * times[0],
                1e6 * times[1]);
  graft_plan_destroy(plan);
  graft_plan_destroy(replaying);
  close_card(&off);
  close_card(&on);
}

// All of a replayed run but waiting for the card.
static double measure_host_seconds(const session *s, graft_plan *plan, int n_runs) {
  const graft_cuda_runs_service *service = graft_device_service(s->device, GRAFT_CUDA_RUNS_SERVICE);
  graft_cuda_run_counts before = {.struct_size = sizeof before}, after = before;
  service->count(s->device, &before);
  const double begin = seconds_now();
  for (int i = 0; i < n_runs; ++i) assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  const double all = seconds_now() - begin;
  service->count(s->device, &after);
  assert_int_equal(after.n_replayed - before.n_replayed, n_runs);
  return (all - (after.wait_seconds - before.wait_seconds)) / n_runs;
}

static void the_host_needs_little_for_a_replay(void **state) {
  (void)state;
  static float out[N_VALUES];
  session s;
  if (open_card("", &s) != GRAFT_OK) {
    close_card(&s);
    skip();
  }
  build(&s, ROWS, WIDTH, 250);
  graft_plan *plan = make_plan(&s);
  for (int i = 0; i < 3; ++i) run_with(plan, 0.1f, out);
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    const double seconds = measure_host_seconds(&s, plan, 100);
    if (seconds < best) best = seconds;
  }
  print_message("    %u steps: %.1f us of the host for a replayed run\n", graft_plan_n_steps(plan), 1e6 * best);
  assert_true(best <= 60e-6);
  graft_plan_destroy(plan);
  close_card(&s);
}

static double pinned_mbytes(const session *s) {
  const graft_cuda_runs_service *service = graft_device_service(s->device, GRAFT_CUDA_RUNS_SERVICE);
  graft_cuda_run_counts counts = {.struct_size = sizeof counts};
  service->count(s->device, &counts);
  return (double)counts.peak_pinned_bytes / 1e6;
}

// Weights of 24 layers in a budget for a few of them: they come while the layers before run.
static void run_within_budget(const char *words) {
  enum { LARGE = 2048 };
  session s;
  if (open_card(words, &s) != GRAFT_OK) {
    close_card(&s);
    skip();
  }
  build_with(&s, ROWS, LARGE, N_LAYERS, true);
  graft_plan *whole = make_plan(&s), *cut = NULL;
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(whole, &report);
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = s.device, .memory_budget = report.peak_bytes / 3};
  if (graft_plan_create(s.graph, &options, &cut) != GRAFT_OK) fail_msg("%s", graft_context_error(s.context)->message);
  graft_memory_report less = {.struct_size = sizeof less};
  graft_plan_memory(cut, &less);
  assert_true(less.peak_bytes <= report.peak_bytes / 3);
  const size_t bytes = (size_t)ROWS * LARGE * sizeof(float);
  float *expected = malloc(bytes), *got = malloc(bytes);
  assert_true(expected != NULL && got != NULL);
  double times[2] = {0};
  for (int run = 0; run < 4; ++run) {
    const float *x = s.weights + (size_t)run * 1000;
    graft_plan *const plans[2] = {whole, cut};
    for (int p = 0; p < 2; ++p) {
      assert_int_equal(graft_plan_write(plans[p], 0, x, bytes), GRAFT_OK);
      const double begin = seconds_now();
      assert_int_equal(graft_plan_run(plans[p], NULL), GRAFT_OK);
      times[p] = seconds_now() - begin;
      assert_int_equal(graft_plan_read(plans[p], 0, p == 0 ? expected : got, bytes), GRAFT_OK);
    }
    assert_memory_equal(got, expected, bytes);
  }
  print_message(
      "    %s: %u stages, %.1f of %.1f MB: %.2f ms, %.2f ms when all stays on the card; %.1f MB were pinned\n", words,
      graft_plan_n_stages(cut), (double)less.peak_bytes / 1e6, (double)report.peak_bytes / 1e6, 1e3 * times[1],
      1e3 * times[0], pinned_mbytes(&s));
  free(expected);
  free(got);
  graft_plan_destroy(whole);
  graft_plan_destroy(cut);
  close_card(&s);
}

static void plans_made_anew_leave_no_memory_behind(void **state) {
  (void)state;
  static float out[N_VALUES];
  session s;
  if (open_card("", &s) != GRAFT_OK) {
    close_card(&s);
    skip();
  }
  build(&s, ROWS, WIDTH, 2);
  uint64_t free_bytes = 0;
  for (int i = 0; i < 1000; ++i) {
    graft_plan *plan = make_plan(&s);
    for (int k = 0; k < 3; ++k) run_with(plan, 0.1f, out);
    graft_plan_destroy(plan);
    graft_device_info info = {.struct_size = sizeof info};
    graft_device_describe(s.device, &info);
    assert_int_equal(info.allocated_bytes, 0);
    // The first plans fill the cache of graphs and the driver's own pools.
    if (i == 50) free_bytes = info.free_bytes;
    if (i == 999) assert_true(info.free_bytes + ((uint64_t)4 << 20) >= free_bytes);
  }
  close_card(&s);
}

static void budgets_give_the_same_bytes(void **state) {
  (void)state;
  run_within_budget("cuda mapping=on");
  run_within_budget("cuda mapping=off");
}

// A file of numbers, mapped as weights are.
typedef struct mapped_file {
  int file;
  const uint32_t *numbers;
  size_t bytes;
} mapped_file;

static mapped_file map_numbers(size_t bytes) {
  char path[] = "/tmp/graft-card-XXXXXX";
  mapped_file m = {.file = mkstemp(path), .bytes = bytes};
  const int readable = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(m.file >= 0 && readable >= 0);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(ftruncate(m.file, (off_t)bytes), 0);
  uint32_t *written = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.file, 0);
  assert_ptr_not_equal(written, MAP_FAILED);
  for (size_t i = 0; i < bytes / sizeof *written; ++i) written[i] = (uint32_t)i * 2654435761u;
  munmap(written, bytes);
  m.numbers = mmap(NULL, bytes, PROT_READ, MAP_SHARED, readable, 0);
  assert_ptr_not_equal(m.numbers, MAP_FAILED);
  close(readable);
  return m;
}

// Whether the card has the file's numbers.
static bool has_numbers(const session *s, const void *memory, size_t bytes) {
  const graft_backend_def *backend = graft_device_backend(s->device);
  uint32_t *got = malloc(bytes);
  assert_non_null(got);
  assert_int_equal(backend->download(graft_device_state(s->device), got, memory, bytes, NULL), GRAFT_OK);
  size_t i = 0;
  while (i < bytes / sizeof *got && got[i] == (uint32_t)i * 2654435761u) ++i;
  free(got);
  return i == bytes / sizeof *got;
}

static double copy_registered(const session *s, graft_stream *stream, const mapped_file *m, void *target) {
  const graft_backend_def *backend = graft_device_backend(s->device);
  const double begin = seconds_now();
  assert_int_equal(backend->upload_async(stream, target, m->numbers, m->bytes, NULL), GRAFT_OK);
  assert_int_equal(backend->synchronize(graft_device_state(s->device), NULL), GRAFT_OK);
  return seconds_now() - begin;
}

// Numbers for docs/adr/0007: what registering costs, and what it saves. A file that is cut meanwhile does no harm.
static void mapped_files_are_copied_by_the_card(void **state) {
  (void)state;
  session s;
  graft_error error = {0};
  graft_stream *stream = NULL;
  void *memory = NULL;
  if (open_card("", &s) != GRAFT_OK) {
    close_card(&s);
    skip();
  }
  const graft_backend_def *backend = graft_device_backend(s.device);
  void *device = graft_device_state(s.device);
  const mapped_file m = map_numbers((size_t)256 << 20);
  assert_int_equal(backend->allocate(device, m.bytes, NULL, &memory), GRAFT_OK);
  assert_int_equal(backend->stream_create(device, NULL, &stream), GRAFT_OK);
  double begin = seconds_now();
  assert_int_equal(backend->upload(device, memory, m.numbers, m.bytes, NULL), GRAFT_OK);
  assert_int_equal(backend->synchronize(device, NULL), GRAFT_OK);
  const double staged = seconds_now() - begin;
  assert_true(has_numbers(&s, memory, m.bytes));
  begin = seconds_now();
  graft_status status = backend->register_host(device, m.numbers, m.bytes, &error);
  const double registering = seconds_now() - begin;
  if (status != GRAFT_OK) {
    print_message("    a mapped file cannot be registered here: %s\n", error.message);
  } else {
    const double copying = copy_registered(&s, stream, &m, memory);
    assert_true(has_numbers(&s, memory, m.bytes));
    assert_int_equal(ftruncate(m.file, 0), 0);
    (void)copy_registered(&s, stream, &m, memory);
    print_message("    cut under the card: the same numbers %s\n", has_numbers(&s, memory, m.bytes) ? "yes" : "no");
    begin = seconds_now();
    backend->unregister_host(device, m.numbers, m.bytes);
    print_message("    256 MiB: staged %.1f ms; registered in %.1f, copied in %.1f, given back in %.1f ms\n",
                  1e3 * staged, 1e3 * registering, 1e3 * copying, 1e3 * (seconds_now() - begin));
    assert_int_not_equal(backend->register_host(device, m.numbers, m.bytes, &error), GRAFT_OK);
  }
  backend->stream_destroy(stream);
  backend->release(device, memory, m.bytes);
  munmap((void *)(uintptr_t)m.numbers, m.bytes);
  close(m.file);
  close_card(&s);
}

typedef struct stopper {
  double at;
  double stopped;
} stopper;

static bool is_late(void *user) {
  stopper *s = user;
  const double now = seconds_now();
  if (now < s->at) return false;
  if (s->stopped == 0) s->stopped = now;
  return true;
}

static void long_work_stops_soon(void **state) {
  (void)state;
  session s;
  if (open_card("", &s) != GRAFT_OK) {
    close_card(&s);
    skip();
  }
  build(&s, LONG_WIDTH, LONG_WIDTH, N_LONG);
  graft_plan *plan = make_plan(&s);
  const size_t bytes = (size_t)LONG_WIDTH * LONG_WIDTH * sizeof(float);
  assert_int_equal(graft_plan_write(plan, 0, s.weights, bytes), GRAFT_OK);
  for (int i = 0; i < 4; ++i) {
    stopper stop = {.at = seconds_now() + 0.1};
    const graft_run_control control = {.struct_size = sizeof control, .abort = is_late, .abort_user = &stop};
    assert_int_equal(graft_plan_run(plan, &control), GRAFT_E_CANCELLED);
    const double late = seconds_now() - stop.at;
    print_message("    stopped after %.1f ms\n", 1e3 * late);
    assert_true(late < 0.05);
  }
  graft_plan_destroy(plan);
  close_card(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(replays_give_the_bytes_of_ordinary_runs),
      cmocka_unit_test(the_host_needs_little_for_a_replay),
      cmocka_unit_test(budgets_give_the_same_bytes),
      cmocka_unit_test(mapped_files_are_copied_by_the_card),
      cmocka_unit_test(plans_made_anew_leave_no_memory_behind),
      cmocka_unit_test(long_work_stops_soon),
  };
  return cmocka_run_group_tests_name("cuda_card", tests, NULL, NULL);
}
