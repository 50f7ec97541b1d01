// Plans on CUDA devices that have less memory than they need, against a double of the driver that computes one function
// and does everything as late as streams allow: constants that come while the segment before runs, graphs that are
// split between devices, and work that is worth bringing its weights for.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "cuda_layer.h"
#include "cuda_session.h"
#include "graft/graft.h"

enum { FAKE_OUT_OF_MEMORY = 2, FAKE_ILLEGAL_ADDRESS = 700 };
enum { ROWS = 24, COLUMNS = 1024, N = ROWS * COLUMNS, WEIGHT_BYTES = N * 4, N_LAYERS = 12, MOST_LAYERS = 16 };

static cuda_double cuda;

// ---- graphs ----

// Those of layer 4 lie askew, as in a file.
static _Alignas(64) char weights[MOST_LAYERS][WEIGHT_BYTES + 64];
static const void *weights_of(int layer) {
  return weights[layer] + (layer == 4 ? 2 : 0);
}

static float x[N], expected[N], got[N];

static void build(cuda_session *s, int n_layers, const int64_t *work) {
  const cuda_layers layers = {.n = n_layers, .rows = ROWS, .columns = COLUMNS, .weights_of = weights_of, .work = work};
  cuda_session_build(s, &layers);
}

static void begin(const char *words, int64_t memory, cuda_session *s) {
  cuda.reset(0, 0);
  cuda.set_memory(cuda.get_counts().live_bytes + memory);
  cuda_session_open(words, s);
  s->live_objects = cuda.get_counts().live_objects;
  assert_int_equal(cuda_session_open_devices(words, s), GRAFT_OK);
}

static void end_well(cuda_session *s) {
  assert_int_equal(cuda.get_counts().hazards, 0);
  cuda_session_close(s);
  assert_int_equal(cuda.get_counts().live_objects, s->live_objects);
  assert_int_equal(cuda.get_counts().hazards, 0);
}

static void fill_input(int run) {
  for (int i = 0; i < N; ++i) x[i] = (float)((i * 7 + run * 13) % 101 - 50);
}

static graft_status run_plan(graft_plan *plan, float *out) {
  return cuda_session_run(plan, x, out, sizeof x);
}

// |plan| gives the bytes of the reference on the host, run after run.
static void check_results(const cuda_session *s, graft_plan *plan) {
  graft_plan *host = cuda_session_plan(s, (graft_plan_options){.device = s->cpu});
  for (int run = 0; run < 4; ++run) {
    fill_input(run);
    assert_int_equal(run_plan(host, expected), GRAFT_OK);
    assert_int_equal(run_plan(plan, got), GRAFT_OK);
    assert_memory_equal(got, expected, sizeof got);
  }
  graft_plan_destroy(host);
}

static uint32_t count_stages(const graft_plan *plan, const char *device) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < graft_plan_n_stages(plan); ++i) {
    graft_stage_info stage = {.struct_size = sizeof stage};
    graft_plan_stage(plan, i, &stage);
    n += !stage.is_transfer && strcmp(stage.device, device) == 0;
  }
  return n;
}

static uint32_t count_steps(const graft_plan *plan, const char *device) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info step = {.struct_size = sizeof step};
    graft_plan_step(plan, i, &step);
    n += strcmp(step.op->name, "tests.layer.v1") == 0 && strcmp(step.device, device) == 0;
  }
  return n;
}

static graft_memory_report report_of(const graft_plan *plan, uint32_t device) {
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_device_memory(plan, device, &report);
  return report;
}

// ---- budgets ----

enum { N_VALUES = 3 };  // at a time: the input, what a layer reads and what it makes

// Workspaces and packed constants, which are larger than what they are made of, are in it.
static void the_report_is_what_is_allocated(void **state) {
  (void)state;
  cuda_session s;
  begin("", (int64_t)1 << 30, &s);
  build(&s, N_LAYERS, NULL);
  const int64_t before = cuda.get_counts().live_bytes;
  for (int i = 0; i < 2; ++i) {
    const size_t budget = i == 0 ? 0 : 8 * WEIGHT_BYTES;
    graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu, .memory_budget = budget});
    assert_int_equal(cuda.get_counts().live_bytes - before, report_of(plan, 0).allocated_bytes);
    assert_int_equal(report_of(plan, 0).workspace_bytes, CUDA_LAYER_WORKSPACE);
    if (budget == 0)
      assert_int_equal(report_of(plan, 0).packed_bytes, N_LAYERS / 4 * (CUDA_LAYER_PADDING + WEIGHT_BYTES));
    if (budget == 0) assert_int_equal(report_of(plan, 0).constant_bytes, N_LAYERS / 4 * 3 * WEIGHT_BYTES);
    graft_plan_destroy(plan);
    assert_int_equal(cuda.get_counts().live_bytes, before);
  }
  end_well(&s);
}

static void a_thousand_plans_leave_nothing_behind(void **state) {
  (void)state;
  cuda_session s;
  begin("", 12 * WEIGHT_BYTES, &s);
  build(&s, N_LAYERS, NULL);
  graft_device *const devices[] = {s.gpu, s.cpu};
  const fake_cuda_counts before = cuda.get_counts();
  fill_input(0);
  for (int i = 0; i < 1000; ++i) {
    const bool is_split = i % 2 == 1;
    graft_plan *plan = cuda_session_plan(
        &s, (graft_plan_options){
                .devices = devices, .n_devices = is_split ? 2 : 1, .memory_budget = is_split ? 0 : 8 * WEIGHT_BYTES});
    if (i % 100 < 2) assert_int_equal(run_plan(plan, got), GRAFT_OK);
    graft_plan_destroy(plan);
    assert_int_equal(cuda.get_counts().live_bytes, before.live_bytes);
  }
  assert_in_range(cuda.get_counts().live_objects, before.live_objects,
                  before.live_objects + 16);  // graphs that are kept
  end_well(&s);
}

static void constants_come_while_the_segment_before_runs(void **state) {
  (void)state;
  cuda_session s;
  begin("", (int64_t)1 << 30, &s);
  build(&s, N_LAYERS, NULL);
  for (size_t budget = 16 * WEIGHT_BYTES; budget >= (N_VALUES + 2) * WEIGHT_BYTES; budget -= WEIGHT_BYTES) {
    // Each constant may take a little more, to begin where it should.
    const graft_plan_options options = {.device = s.gpu, .memory_budget = budget + 8 * CUDA_LAYER_PADDING};
    graft_plan *plan = cuda_session_plan(&s, options);
    assert_true(report_of(plan, 0).peak_bytes <= options.memory_budget);
    const int64_t overlaps = cuda.get_counts().overlaps;
    check_results(&s, plan);
    const bool is_cut = graft_plan_n_stages(plan) > 1;
    assert_int_equal(is_cut, budget < (N_VALUES + N_LAYERS) * WEIGHT_BYTES);
    assert_int_equal(cuda.get_counts().overlaps > overlaps, is_cut);
    assert_int_equal(graft_plan_host_bytes(plan) > 0, true);
    assert_int_equal(cuda.get_counts().hazards, 0);
    graft_plan_destroy(plan);
  }
  end_well(&s);
}

// Two segments' constants at a time do not fit: they come one after the other, and results are the same.
static void without_room_constants_come_late(void **state) {
  (void)state;
  cuda_session s;
  begin("", (int64_t)1 << 30, &s);
  build(&s, N_LAYERS, NULL);
  graft_plan *plan = cuda_session_plan(
      &s,
      (graft_plan_options){.device = s.gpu, .memory_budget = (N_VALUES + 1) * WEIGHT_BYTES + 2 * CUDA_LAYER_PADDING});
  check_results(&s, plan);
  assert_int_equal(cuda.get_counts().overlaps, 0);
  graft_plan_destroy(plan);
  end_well(&s);
}

static bool stop_later(void *user) {
  return --*(int *)user <= 0;
}

static void cancelled_runs_leave_nothing_on_its_way(void **state) {
  (void)state;
  cuda_session s;
  begin("", (int64_t)1 << 30, &s);
  build(&s, N_LAYERS, NULL);
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu, .memory_budget = 6 * WEIGHT_BYTES});
  fill_input(0);
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  for (int n = 1; n < 12; ++n) {
    int left = n;
    const graft_run_control control = {.struct_size = sizeof control, .abort = stop_later, .abort_user = &left};
    const graft_status status = graft_plan_run(plan, &control);
    assert_true(status == GRAFT_E_CANCELLED || status == GRAFT_OK);
    check_results(&s, plan);
  }
  graft_plan_destroy(plan);
  end_well(&s);
}

static void bringing_ends_behind_the_first_constant(void **state) {
  (void)state;
  cuda_session s;
  begin("", (int64_t)1 << 30, &s);
  build(&s, N_LAYERS, NULL);
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.device = s.gpu, .memory_budget = 12 * WEIGHT_BYTES});
  assert_int_equal(run_plan(plan, got), GRAFT_OK);
  const graft_run_control control = {.struct_size = sizeof control, .abort = stop_later, .abort_user = &(int){0}};
  const int64_t uploads = cuda.get_counts().uploads;
  assert_int_equal(graft_plan_run(plan, &control), GRAFT_E_CANCELLED);
  assert_int_equal(cuda.get_counts().uploads - uploads, 1);
  check_results(&s, plan);
  graft_plan_destroy(plan);
  end_well(&s);
}

// ---- several devices ----

static void what_does_not_fit_goes_to_the_host(void **state) {
  (void)state;
  cuda_session s;
  begin("", 8 * WEIGHT_BYTES, &s);
  build(&s, N_LAYERS, NULL);
  graft_device *const devices[] = {s.gpu, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  const uint32_t n_gpu = count_steps(plan, "cuda:0"), n_cpu = count_steps(plan, "cpu:0");
  assert_in_range(n_gpu, 2, 7);
  assert_int_equal(n_gpu + n_cpu, N_LAYERS);
  assert_int_equal(count_stages(plan, "cuda:0"), 1);
  assert_int_equal(count_stages(plan, "cpu:0"), 1);
  graft_step_info last = {.struct_size = sizeof last};
  graft_plan_step(plan, graft_plan_n_steps(plan) - 1, &last);
  assert_string_equal(last.placement, "weights do not fit cuda:0: on cpu:0");
  assert_true(report_of(plan, 0).peak_bytes <= 8 * WEIGHT_BYTES);
  check_results(&s, plan);
  // Measuring says the same.
  const graft_plan_options measuring = {.devices = devices, .n_devices = 2, .flags = GRAFT_PLAN_MEASURE_ONLY};
  graft_plan_destroy(plan);
  graft_plan *measured = cuda_session_plan(&s, measuring);
  assert_int_equal(count_steps(measured, "cuda:0"), n_gpu);
  graft_plan_destroy(measured);
  end_well(&s);
}

static void what_fits_is_not_split(void **state) {
  (void)state;
  cuda_session s;
  begin("", 64 * WEIGHT_BYTES, &s);
  build(&s, N_LAYERS, NULL);
  graft_device *const devices[] = {s.gpu, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  assert_int_equal(graft_plan_n_stages(plan), 1);
  assert_int_equal(count_steps(plan, "cuda:0"), N_LAYERS);
  // A second plan of the same weights needs none of them again.
  cuda.set_memory(cuda.get_counts().live_bytes + 4 * WEIGHT_BYTES);
  graft_plan *again = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  assert_int_equal(count_steps(again, "cuda:0"), N_LAYERS);
  graft_plan_destroy(again);
  graft_plan_destroy(plan);
  end_well(&s);
}

static void two_devices_of_a_card_share_it(void **state) {
  (void)state;
  cuda_session s;
  begin("virtual=2", 16 * WEIGHT_BYTES, &s);
  build(&s, MOST_LAYERS, NULL);
  graft_device *const devices[] = {s.gpu, s.second, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 3});
  assert_true(count_steps(plan, "cuda:0") > 1 && count_steps(plan, "cuda:1") > 1 && count_steps(plan, "cpu:0") > 1);
  check_results(&s, plan);
  graft_plan_destroy(plan);
  end_well(&s);
}

static void a_device_without_room_is_left_out(void **state) {
  (void)state;
  cuda_session s;
  begin("", WEIGHT_BYTES, &s);
  build(&s, N_LAYERS, NULL);
  graft_device *const devices[] = {s.gpu, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  assert_int_equal(count_steps(plan, "cpu:0"), N_LAYERS);
  check_results(&s, plan);
  graft_plan_destroy(plan);
  end_well(&s);
}

// ---- bringing weights for work that is worth it ----

static void large_work_brings_its_weights(void **state) {
  (void)state;
  cuda_session s;
  int64_t work[N_LAYERS];
  for (int i = 0; i < N_LAYERS; ++i) work[i] = 1000;
  begin("", 10 * WEIGHT_BYTES, &s);
  build(&s, N_LAYERS, work);
  graft_device *const devices[] = {s.gpu, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  assert_int_equal(count_steps(plan, "cuda:0"), N_LAYERS);
  assert_true(count_stages(plan, "cuda:0") > 2);
  graft_step_info first = {.struct_size = sizeof first}, last = {.struct_size = sizeof last};
  graft_plan_step(plan, 0, &first);
  graft_plan_step(plan, N_LAYERS - 1, &last);
  assert_string_equal(last.placement, "its weights are brought to cuda:0");
  assert_string_not_equal(first.placement, last.placement);
  assert_true(cuda.get_counts().live_bytes <= 10 * WEIGHT_BYTES);
  check_results(&s, plan);
  assert_true(cuda.get_counts().overlaps > 0);
  graft_plan_destroy(plan);
  end_well(&s);
}

// 32 operations a byte are worth it: 128 for each of a weight's elements, which have four bytes.
static void the_threshold_is_work_for_a_byte(void **state) {
  (void)state;
  cuda_session s;
  int64_t work[N_LAYERS];
  for (int i = 0; i < N_LAYERS; ++i) work[i] = i == N_LAYERS - 1 ? 128 : 127;
  begin("", 8 * WEIGHT_BYTES, &s);
  build(&s, N_LAYERS, work);
  graft_device *const devices[] = {s.gpu, s.cpu};
  graft_plan *plan = cuda_session_plan(&s, (graft_plan_options){.devices = devices, .n_devices = 2});
  graft_step_info last = {.struct_size = sizeof last};
  graft_plan_step(plan, graft_plan_n_steps(plan) - 1, &last);
  assert_string_equal(last.device, "cuda:0");
  assert_true(count_steps(plan, "cpu:0") > 1);
  check_results(&s, plan);
  graft_plan_destroy(plan);
  end_well(&s);
}

// ---- errors of the driver ----

typedef struct life {
  size_t budget;
  bool is_split;
} life;

static graft_status live(cuda_session *s, const life *l) {
  graft_plan *plan = NULL;
  GRAFT_TRY(cuda_session_open_devices("", s));
  int64_t work[N_LAYERS];
  for (int i = 0; i < N_LAYERS; ++i) work[i] = 1000 * (i % 2);
  build(s, N_LAYERS, work);
  graft_device *const devices[] = {s->gpu, s->cpu};
  const graft_plan_options options = {
      .struct_size = sizeof options, .devices = devices, .n_devices = l->is_split ? 2 : 1, .memory_budget = l->budget};
  GRAFT_TRY(graft_plan_create(s->graph, &options, &plan));
  graft_status status = run_plan(plan, got);
  if (status == GRAFT_OK) status = run_plan(plan, got);
  graft_plan_destroy(plan);
  return status;
}

static void survive(const life *l, int result) {
  fill_input(1);
  for (int64_t n = 1;; ++n) {
    cuda_session s;
    cuda.reset(0, 0);
    cuda.set_memory(cuda.get_counts().live_bytes + (l->is_split ? 10 * WEIGHT_BYTES : (int64_t)1 << 30));
    cuda_session_open("", &s);
    cuda.reset(n, result);
    graft_status status = live(&s, l);
    const bool is_hit = cuda.get_counts().calls >= n;
    if (status != GRAFT_OK) assert_true(graft_context_error(s.context)->message[0] != '\0');
    if (status == GRAFT_OK && n > 1) assert_memory_equal(got, expected, sizeof got);
    assert_int_equal(cuda.get_counts().hazards, 0);
    cuda.reset(0, 0);
    cuda_session_close(&s);
    if (!is_hit) {
      assert_int_equal(status, GRAFT_OK);
      return;
    }
  }
}

static void any_call_may_fail(void **state) {
  (void)state;
  const life lives[] = {{.budget = 6 * WEIGHT_BYTES}, {.is_split = true}};
  for (int i = 0; i < 2; ++i) {
    cuda_session s;
    begin("", (int64_t)1 << 30, &s);
    build(&s, N_LAYERS, NULL);
    graft_plan *host = cuda_session_plan(&s, (graft_plan_options){.device = s.cpu});
    fill_input(1);
    assert_int_equal(run_plan(host, expected), GRAFT_OK);
    graft_plan_destroy(host);
    end_well(&s);
    survive(&lives[i], FAKE_OUT_OF_MEMORY);
    survive(&lives[i], FAKE_ILLEGAL_ADDRESS);
  }
}

int main(void) {
  if (!cuda_double_find(&cuda)) return 1;
  for (int i = 0; i < MOST_LAYERS; ++i) {
    for (int k = 0; k < N; ++k) {
      const float w = (float)((k * 5 + i * 11) % 97 - 48);
      memcpy((char *)(uintptr_t)weights_of(i) + (size_t)k * sizeof w, &w, sizeof w);
    }
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_report_is_what_is_allocated),
      cmocka_unit_test(a_thousand_plans_leave_nothing_behind),
      cmocka_unit_test(constants_come_while_the_segment_before_runs),
      cmocka_unit_test(without_room_constants_come_late),
      cmocka_unit_test(cancelled_runs_leave_nothing_on_its_way),
      cmocka_unit_test(bringing_ends_behind_the_first_constant),
      cmocka_unit_test(what_does_not_fit_goes_to_the_host),
      cmocka_unit_test(what_fits_is_not_split),
      cmocka_unit_test(two_devices_of_a_card_share_it),
      cmocka_unit_test(a_device_without_room_is_left_out),
      cmocka_unit_test(large_work_brings_its_weights),
      cmocka_unit_test(the_threshold_is_work_for_a_byte),
      cmocka_unit_test(any_call_may_fail),
  };
  return cmocka_run_group_tests_name("cuda_plan", tests, NULL, NULL);
}
