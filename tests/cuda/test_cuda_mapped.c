// Weights that a CUDA device takes from where they lie, against a double of the driver that keeps account of what is
// registered: the same bytes as through staging memory, and nothing registered longer than it is needed.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "cuda_layer.h"
#include "cuda_session.h"
#include "graft/cuda.h"
#include "graft/graft.h"

enum { FAKE_OUT_OF_MEMORY = 2, FAKE_ILLEGAL_ADDRESS = 700, READ_ONLY = 113, REGISTERING = 99 };
enum { ROWS = 384, COLUMNS = 1024, N = ROWS * COLUMNS, WEIGHT_BYTES = N * 4, N_LAYERS = 6, PAGE = 4096 };

static cuda_double cuda;

// One behind the other and askew, as in a file: neighbours share pages. The first is packed, so the device cannot take
// it as it is.
enum { STEP = WEIGHT_BYTES + 98 };
static _Alignas(PAGE) char file[N_LAYERS * STEP];
static size_t starts[N_LAYERS];
static void lay_out_weights(void) {
  for (int i = 0; i < N_LAYERS; ++i) starts[i] = (size_t)i * STEP;
}

static const void *weights_of(int layer) {
  return file + starts[layer];
}

// Bytes of whole pages in the weights that are not packed.
static int64_t mappable_bytes(void) {
  int64_t bytes = 0;
  for (int i = 1; i < N_LAYERS; ++i) {
    if (i % 4 == 0) continue;
    const size_t begin = (size_t)((const char *)weights_of(i) - file), first = (begin + PAGE - 1) / PAGE;
    bytes += (int64_t)((begin + WEIGHT_BYTES) / PAGE - first) * PAGE;
  }
  return bytes;
}
enum { N_MAPPABLE = N_LAYERS - 2 };

static float x[N], expected[N], got[N];

static graft_status open_session(const char *words, cuda_session *s) {
  const fake_cuda_counts before = cuda.get_counts();
  cuda.set_memory(before.live_bytes + ((int64_t)1 << 30));
  cuda_session_open(words, s);
  s->live_objects = before.live_objects;
  return cuda_session_open_devices(words, s);
}

static void build(cuda_session *s) {
  const cuda_layers layers = {.n = N_LAYERS, .rows = ROWS, .columns = COLUMNS, .weights_of = weights_of};
  cuda_session_build(s, &layers);
}

static graft_status run_plan(graft_plan *plan, float *out) {
  return cuda_session_run(plan, x, out, sizeof x);
}

static graft_status make_plan(const cuda_session *s, graft_device *device, size_t budget, graft_plan **out_plan) {
  const graft_plan_options options = {.struct_size = sizeof options, .device = device, .memory_budget = budget};
  return graft_plan_create(s->graph, &options, out_plan);
}

static void begin(const char *words, cuda_session *s) {
  graft_plan *host = NULL;
  cuda.reset(0, 0);
  assert_int_equal(open_session(words, s), GRAFT_OK);
  build(s);
  assert_int_equal(make_plan(s, s->cpu, 0, &host), GRAFT_OK);
  assert_int_equal(run_plan(host, expected), GRAFT_OK);
  graft_plan_destroy(host);
}

static void end_well(cuda_session *s) {
  assert_int_equal(cuda.get_counts().pinned_bytes, 0);
  cuda_session_close(s);
  assert_int_equal(cuda.get_counts().live_objects, s->live_objects);
  assert_int_equal(cuda.get_counts().hazards, 0);
}

static void check_runs(graft_plan *plan) {
  for (int run = 0; run < 3; ++run) {
    assert_int_equal(run_plan(plan, got), GRAFT_OK);
    assert_memory_equal(got, expected, sizeof got);
    memset(got, 0, sizeof got);
  }
}

static graft_cuda_run_counts counts_of(const graft_device *device) {
  const graft_cuda_runs_service *service = graft_device_service(device, GRAFT_CUDA_RUNS_SERVICE);
  graft_cuda_run_counts counts = {.struct_size = sizeof counts};
  service->count(device, &counts);
  return counts;
}

static const size_t tiny_budget = 4 * WEIGHT_BYTES + 2 * CUDA_LAYER_PADDING;
static const size_t small_budget = 6 * (WEIGHT_BYTES + CUDA_LAYER_PADDING);

// Once, for a plan that keeps them on the device: two at a time.
static void uploads_take_weights_from_where_they_lie(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *plan = NULL;
  begin("", &s);
  const uint64_t before = counts_of(s.gpu).pinned_bytes;
  assert_int_equal(make_plan(&s, s.gpu, 0, &plan), GRAFT_OK);
  assert_int_equal(cuda.get_counts().registered, N_MAPPABLE);
  assert_int_equal(cuda.get_counts().mapped_bytes, mappable_bytes());
  assert_int_equal(cuda.get_counts().pinned_bytes, 0);
  assert_int_equal(counts_of(s.gpu).pinned_bytes, before);
  assert_in_range(counts_of(s.gpu).peak_pinned_bytes, before + WEIGHT_BYTES, before + 2 * WEIGHT_BYTES);
  check_runs(plan);
  graft_plan_destroy(plan);
  end_well(&s);
}

// With a budget they are registered as long as the plan lives, and every run takes them from there.
static void brought_weights_stay_registered(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *plan = NULL;
  begin("", &s);
  assert_int_equal(make_plan(&s, s.gpu, small_budget, &plan), GRAFT_OK);
  assert_int_equal(cuda.get_counts().registered, N_MAPPABLE);
  assert_int_equal(cuda.get_counts().pinned_bytes, mappable_bytes());
  check_runs(plan);
  assert_int_equal(cuda.get_counts().registered, N_MAPPABLE);
  assert_int_equal(cuda.get_counts().mapped_bytes, 3 * mappable_bytes());
  assert_true(cuda.get_counts().overlaps > 0);
  graft_plan_destroy(plan);
  end_well(&s);
}

// Where two segments' constants do not fit at a time they come late, from the same place.
static void late_weights_come_from_where_they_lie(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *plan = NULL;
  begin("", &s);
  assert_int_equal(make_plan(&s, s.gpu, tiny_budget, &plan), GRAFT_OK);
  assert_int_equal(cuda.get_counts().pinned_bytes, mappable_bytes());
  check_runs(plan);
  assert_int_equal(cuda.get_counts().mapped_bytes, 3 * mappable_bytes());
  assert_int_equal(cuda.get_counts().overlaps, 0);
  graft_plan_destroy(plan);
  end_well(&s);
}

// Stretches of one block that lie over each other go one after the other.
static void overlapping_weights_are_registered_in_turn(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *plan = NULL;
  cuda.reset(0, 0);
  assert_int_equal(open_session("", &s), GRAFT_OK);
  for (int i = 0; i < N_LAYERS; ++i) starts[i] = (size_t)i * 8 * PAGE;
  build(&s);
  assert_int_equal(make_plan(&s, s.gpu, 0, &plan), GRAFT_OK);
  assert_int_equal(cuda.get_counts().registered, N_MAPPABLE);
  assert_int_equal(cuda.get_counts().mapped_bytes, N_MAPPABLE * WEIGHT_BYTES);
  assert_int_equal(cuda.get_counts().pinned_bytes, 0);
  graft_plan_destroy(plan);
  end_well(&s);
  lay_out_weights();
}

static void plans_share_what_is_registered(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *first = NULL, *second = NULL;
  begin("", &s);
  assert_int_equal(make_plan(&s, s.gpu, small_budget, &first), GRAFT_OK);
  assert_int_equal(make_plan(&s, s.gpu, small_budget, &second), GRAFT_OK);
  assert_int_equal(cuda.get_counts().registered, N_MAPPABLE);
  graft_plan_destroy(first);
  assert_int_equal(cuda.get_counts().pinned_bytes, mappable_bytes());
  check_runs(second);
  graft_plan_destroy(second);
  end_well(&s);
}

// Devices of one card share a context, where nothing is registered twice: the second one copies.
static void what_others_have_registered_is_copied(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *first = NULL, *second = NULL;
  begin("virtual=2", &s);
  assert_int_equal(make_plan(&s, s.gpu, small_budget, &first), GRAFT_OK);
  assert_int_equal(make_plan(&s, s.second, small_budget, &second), GRAFT_OK);
  const int64_t mapped = cuda.get_counts().mapped_bytes;
  check_runs(second);
  assert_int_equal(cuda.get_counts().mapped_bytes, mapped);
  check_runs(first);
  assert_int_equal(cuda.get_counts().mapped_bytes, mapped + 3 * mappable_bytes());
  graft_plan_destroy(first);
  graft_plan_destroy(second);
  end_well(&s);
}

static void who_cannot_register_copies(void **state) {
  (void)state;
  static const int attributes[] = {READ_ONLY, REGISTERING, -1};
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 2; ++k) {
      cuda_session s;
      graft_plan *plan = NULL;
      begin(attributes[i] < 0 ? "mapping=off" : "", &s);
      cuda.lack(attributes[i]);
      assert_int_equal(make_plan(&s, s.gpu, k * small_budget, &plan), GRAFT_OK);
      check_runs(plan);
      assert_int_equal(cuda.get_counts().registered, 0);
      assert_int_equal(cuda.get_counts().mapped_bytes, 0);
      graft_plan_destroy(plan);
      end_well(&s);
    }
  }
}

enum { N_UNEVEN = 3 };
static float wide[2 * N], wide_expected[N_UNEVEN][2 * N], wide_got[2 * N];

static int64_t rows_of(int i) {
  return i == 0 ? 2 * ROWS : ROWS;
}

// The first weight is twice as large as the others, which are behind it.
static void build_uneven(cuda_session *s) {
  const cuda_layer_attrs attrs = {.factor = 2, .work = 1};
  assert_int_equal(graft_graph_create(s->context, &s->graph), GRAFT_OK);
  for (int i = 0; i < N_UNEVEN; ++i) {
    static const char *const inputs[] = {"a", "b", "c"}, *const outputs[] = {"p", "q", "r"};
    graft_tensor_desc desc;
    assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){rows_of(i), COLUMNS}, NULL, &desc), GRAFT_OK);
    const graft_constant data = {
        .struct_size = sizeof data, .data = file + i * 2 * STEP, .bytes = graft_tensor_desc_bytes(&desc)};
    graft_tensor *x_and_w[] = {graft_graph_input(s->graph, inputs[i], &desc),
                               graft_graph_constant(s->graph, "w", &desc, &data)};
    graft_tensor *y = NULL;
    graft_graph_apply(s->graph, "tests.layer.v1", &attrs, sizeof attrs, x_and_w, 2, &y);
    graft_graph_output(s->graph, y, outputs[i]);
  }
  assert_int_equal(graft_graph_status(s->graph), GRAFT_OK);
}

static void run_uneven(graft_plan *plan) {
  for (uint32_t i = 0; i < N_UNEVEN; ++i) {
    const size_t bytes = (size_t)rows_of((int)i) * COLUMNS * sizeof(float);
    assert_int_equal(graft_plan_write(plan, i, wide, bytes), GRAFT_OK);
  }
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
}

// What is too large is copied as usual; what is not still lies where it is.
static void a_weight_that_is_too_large_says_nothing_of_others(void **state) {
  (void)state;
  for (int k = 0; k < 2; ++k) {
    cuda_session s;
    graft_plan *plan = NULL, *host = NULL;
    cuda.reset(0, 0);
    assert_int_equal(open_session("", &s), GRAFT_OK);
    build_uneven(&s);
    assert_int_equal(make_plan(&s, s.cpu, 0, &host), GRAFT_OK);
    run_uneven(host);
    cuda.limit_pinning(2 * WEIGHT_BYTES - PAGE);
    assert_int_equal(make_plan(&s, s.gpu, k * 16 * WEIGHT_BYTES, &plan), GRAFT_OK);
    assert_int_equal(cuda.get_counts().registered, 2);
    run_uneven(plan);
    assert_true(cuda.get_counts().mapped_bytes >= WEIGHT_BYTES - 2 * PAGE);
    for (uint32_t i = 0; i < N_UNEVEN; ++i) {
      const size_t bytes = (size_t)rows_of((int)i) * COLUMNS * sizeof(float);
      assert_int_equal(graft_plan_read(host, i, wide_expected[i], bytes), GRAFT_OK);
      assert_int_equal(graft_plan_read(plan, i, wide_got, bytes), GRAFT_OK);
      assert_memory_equal(wide_got, wide_expected[i], bytes);
    }
    graft_plan_destroy(plan);
    graft_plan_destroy(host);
    end_well(&s);
  }
}

static graft_status live(cuda_session *s, size_t budget) {
  graft_plan *plan = NULL;
  build(s);
  GRAFT_TRY(make_plan(s, s->gpu, budget, &plan));
  graft_status status = run_plan(plan, got);
  if (status == GRAFT_OK) status = run_plan(plan, got);
  graft_plan_destroy(plan);
  return status;
}

static void any_call_may_fail(void **state) {
  (void)state;
  static const int results[] = {FAKE_OUT_OF_MEMORY, FAKE_ILLEGAL_ADDRESS};
  const size_t budgets[] = {0, small_budget, tiny_budget};
  for (int i = 0; i < 6; ++i) {
    bool is_hit = true;
    for (int64_t n = 1; is_hit; ++n) {
      cuda_session s;
      cuda.reset(n, results[i / 3]);
      graft_status status = open_session("", &s);
      if (status == GRAFT_OK) status = live(&s, budgets[i % 3]);
      is_hit = cuda.get_counts().calls >= n;
      if (status == GRAFT_OK) assert_memory_equal(got, expected, sizeof got);
      assert_true(status == GRAFT_OK || graft_context_error(s.context)->message[0] != '\0');
      assert_true(is_hit || status == GRAFT_OK);
      assert_int_equal(cuda.get_counts().hazards, 0);
      cuda.reset(0, 0);
      cuda_session_close(&s);
      // What a lost device had registered goes with it, once.
      assert_int_equal(cuda.get_counts().pinned_bytes, 0);
      assert_int_equal(cuda.get_counts().hazards, 0);
    }
  }
}

// Copies in two streams of their own, and waits. Whether waiting began and failed.
static bool copy_and_wait(cuda_session *s) {
  enum { N_STREAMS = 2 };
  const graft_backend_def *backend = graft_device_backend(s->gpu);
  void *device = graft_device_state(s->gpu), *memory[N_STREAMS] = {NULL};
  graft_stream *streams[N_STREAMS] = {NULL};
  graft_error error = {0};
  graft_status status = GRAFT_OK;
  for (int i = 0; i < N_STREAMS && status == GRAFT_OK; ++i) {
    status = backend->allocate(device, sizeof x, &error, &memory[i]);
    // The double's device memory is the host's.
    if (status == GRAFT_OK) memset(memory[i], 0, sizeof x);
    if (status == GRAFT_OK) status = backend->stream_create(device, &error, &streams[i]);
    if (status == GRAFT_OK) status = backend->upload_async(streams[i], memory[i], x, sizeof x, &error);
  }
  if (status == GRAFT_OK) status = backend->synchronize(device, &error);
  const bool has_failed_waiting = status != GRAFT_OK && strstr(error.message, "waiting for") != NULL;
  int n_missing = 0;
  for (int i = 0; i < N_STREAMS; ++i) {
    if (status == GRAFT_OK || has_failed_waiting) n_missing += memcmp(memory[i], x, sizeof x) != 0;
    backend->stream_destroy(streams[i]);
    backend->release(device, memory[i], sizeof x);
  }
  assert_true(n_missing <= has_failed_waiting);
  return has_failed_waiting;
}

// SC8: a wait that fails for one stream does not leave out the others, whose memory is given back next.
static void all_copies_are_waited_for(void **state) {
  (void)state;
  int n_failed_waits = 0;
  bool is_hit = true;
  for (int64_t n = 1; is_hit; ++n) {
    cuda_session s;
    cuda.reset(n, FAKE_OUT_OF_MEMORY);
    if (open_session("", &s) == GRAFT_OK) n_failed_waits += copy_and_wait(&s);
    is_hit = cuda.get_counts().calls >= n;
    cuda.reset(0, 0);
    cuda_session_close(&s);
  }
  assert_true(n_failed_waits >= 3);
}

static bool stop_later(void *user) {
  return --*(int *)user <= 0;
}

static void cancelled_runs_leave_nothing_on_its_way(void **state) {
  (void)state;
  cuda_session s;
  graft_plan *plan = NULL;
  begin("", &s);
  assert_int_equal(make_plan(&s, s.gpu, small_budget, &plan), GRAFT_OK);
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  for (int n = 1; n < 10; ++n) {
    int left = n;
    const graft_run_control control = {.struct_size = sizeof control, .abort = stop_later, .abort_user = &left};
    const graft_status status = graft_plan_run(plan, &control);
    assert_true(status == GRAFT_E_CANCELLED || status == GRAFT_OK);
    check_runs(plan);
  }
  graft_plan_destroy(plan);
  end_well(&s);
}

// Whoever captures the device's stream would launch kernels whose weights were brought only while they captured.
static void RP1_brought_weights_are_kept_out_of_the_graphs_of_others(void **state) {
  (void)state;
  const size_t budgets[] = {small_budget, tiny_budget};
  for (int i = 0; i < 2; ++i) {
    cuda_session s;
    graft_plan *plan = NULL;
    void *graph = NULL;
    begin("", &s);
    void *stream = graft_cuda_describe(s.gpu)->stream;
    assert_int_equal(make_plan(&s, s.gpu, budgets[i], &plan), GRAFT_OK);
    assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
    assert_int_equal(cuda.begin_capture(stream, 0), 0);
    assert_int_equal(graft_plan_run(plan, NULL), GRAFT_E_UNSUPPORTED);
    assert_non_null(strstr(graft_context_error(s.context)->message, "without a memory budget"));
    assert_int_equal(cuda.end_capture(stream, &graph), 0);
    assert_int_equal(cuda.get_counts().captured, 0);
    assert_int_equal(cuda.destroy_graph(graph), 0);
    check_runs(plan);
    graft_plan_destroy(plan);
    end_well(&s);
  }
}

int main(void) {
  if (!cuda_double_find(&cuda)) return 1;
  lay_out_weights();
  for (int i = 0; i < N_LAYERS; ++i) {
    for (int k = 0; k < N; ++k) {
      const float w = (float)((k * 5 + i * 11) % 97 - 48);
      memcpy(file + (size_t)i * STEP + (size_t)k * sizeof w, &w, sizeof w);
    }
  }
  for (int i = 0; i < 2 * N; ++i) wide[i] = (float)(i * 3 % 89 - 44);
  for (int i = 0; i < N; ++i) x[i] = (float)(i * 7 % 101 - 50);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(uploads_take_weights_from_where_they_lie),
      cmocka_unit_test(brought_weights_stay_registered),
      cmocka_unit_test(late_weights_come_from_where_they_lie),
      cmocka_unit_test(overlapping_weights_are_registered_in_turn),
      cmocka_unit_test(plans_share_what_is_registered),
      cmocka_unit_test(what_others_have_registered_is_copied),
      cmocka_unit_test(who_cannot_register_copies),
      cmocka_unit_test(a_weight_that_is_too_large_says_nothing_of_others),
      cmocka_unit_test(any_call_may_fail),
      cmocka_unit_test(all_copies_are_waited_for),
      cmocka_unit_test(cancelled_runs_leave_nothing_on_its_way),
      cmocka_unit_test(RP1_brought_weights_are_kept_out_of_the_graphs_of_others),
  };
  return cmocka_run_group_tests_name("cuda_mapped", tests, NULL, NULL);
}
