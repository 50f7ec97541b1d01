// KS7: kernels chosen by their times, which are kept in a file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fail_alloc.h"
#include "graft/cpu.h"
#include "graft/graft.h"
#include "ops/linear/linear.h"
#include "temp_folder.h"

// tune.wait.v1 (x): y = x, by kernels that take very different times.
static int n_runs;  // of kernels, in plans and for timing

// The clock that times are measured with: it runs while a kernel says that it works, and stands still otherwise.
static int64_t clock_nanoseconds;

int __wrap_clock_gettime(clockid_t id, struct timespec *out_time);
int __wrap_clock_gettime(clockid_t id, struct timespec *out_time) {
  (void)id;
  clock_nanoseconds += 1000;
  *out_time = (struct timespec){clock_nanoseconds / 1000000000, clock_nanoseconds % 1000000000};
  return 0;
}

typedef struct wait_args {
  const float *x;
  float *y;
  int64_t n;
  int milliseconds;
} wait_args;

static void run_wait(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const wait_args *a = args;
  (void)item;
  (void)worker;
  ++n_runs;
  clock_nanoseconds += (int64_t)a->milliseconds * 1000000;
  for (int64_t i = 0; i < a->n; ++i) a->y[i] = a->x[i];
}

static graft_status encode_wait(graft_encoder *encoder, const graft_encode_args *args, int milliseconds) {
  const wait_args a = {args->inputs[0], args->outputs[0], graft_tensor_desc_elements(args->node->inputs[0]),
                       milliseconds};
  return graft_cpu_encode(encoder, &(graft_cpu_task){.run = run_wait, .args = &a, .args_bytes = sizeof a, .n_items = 1},
                          args->error);
}

static graft_status encode_slow(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_wait(encoder, args, 4);
}

static graft_status encode_fast(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_wait(encoder, args, 0);
}

static graft_status fail_prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)node;
  (void)out_prepared;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no room for tables");
}

static graft_status reference(const graft_reference_args *args) {
  return GRAFT_FAIL(args->error, GRAFT_E_UNSUPPORTED, "is not to be used");
}

static graft_status infer(graft_infer_args *args) {
  return graft_infer_elementwise(args);
}

static const graft_op_def ops[] = {{.struct_size = sizeof ops[0],
                                    .traits = GRAFT_OP_PURE,
                                    .name = "tune.wait.v1",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .n_outputs = 1,
                                    .infer = infer,
                                    .reference = reference},
                                   {.struct_size = sizeof ops[0],
                                    .traits = GRAFT_OP_OPAQUE_EFFECT,
                                    .name = "tune.effect.v1",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .n_outputs = 1,
                                    .infer = infer,
                                    .reference = reference}};

#define KERNEL(name_, op_, priority_) \
  .struct_size = sizeof(graft_kernel_def), .name = name_, .op = op_, .backend = "cpu", .priority = priority_
static const graft_kernel_def kernels[] = {
    {KERNEL("wait__failing", "tune.wait.v1", 30), .prepare = fail_prepare, .encode = encode_fast},
    {KERNEL("wait__slow", "tune.wait.v1", 40), .encode = encode_slow},
    {KERNEL("wait__fast", "tune.wait.v1", 20), .encode = encode_fast},
    {KERNEL("effect__slow", "tune.effect.v1", 20), .encode = encode_slow},
    {KERNEL("effect__fast", "tune.effect.v1", 10), .encode = encode_fast}};
static const graft_kernel_def later[] = {{KERNEL("wait__later", "tune.wait.v1", 10), .encode = encode_slow}};

static const graft_extension extension = {.struct_size = sizeof extension,
                                          .abi_version = GRAFT_ABI_VERSION,
                                          .name = "tune",
                                          .vendor = "tune",
                                          .ops = ops,
                                          .n_ops = 2,
                                          .kernels = kernels,
                                          .n_kernels = 5};
static const graft_extension later_extension = {.struct_size = sizeof later_extension,
                                                .abi_version = GRAFT_ABI_VERSION,
                                                .name = "tune.later",
                                                .vendor = "tune",
                                                .kernels = later,
                                                .n_kernels = 1};

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  temp_folder folder;
  temp_path path;  // of the file of times
  char log[1024];  // the last line …
  int n_lines;     // … of so many
} fixture;

static void take_line(void *user, graft_log_level level, const char *line) {
  fixture *f = user;
  if (level > GRAFT_LOG_WARNING) return;
  snprintf(f->log, sizeof f->log, "%s", line);
  ++f->n_lines;
}

static void open_context(fixture *f, const char *tuning, bool ignore_environment) {
  const graft_context_options options = {.struct_size = sizeof options,
                                         .n_threads = 1,
                                         .ignore_environment = ignore_environment,
                                         .log_level = GRAFT_LOG_WARNING,
                                         .log = take_line,
                                         .log_user = f,
                                         .tuning = tuning};
  assert_int_equal(graft_context_create(&options, NULL, &f->context), GRAFT_OK);
  assert_int_equal(graft_context_register(f->context, &extension), GRAFT_OK);
  assert_int_equal(graft_device_open(f->context, "cpu", &f->device), GRAFT_OK);
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  f->folder = temp_folder_create();
  f->path = temp_folder_join(&f->folder, "times");
  open_context(f, NULL, true);
  n_runs = 0;
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  graft_context_destroy(f->context);
  temp_folder_remove(&f->folder);
  free(f);
  return 0;
}

static graft_graph *wait_graph(fixture *f, const char *op, int64_t n) {
  graft_graph *graph = NULL;
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 1, &n, NULL, &desc), GRAFT_OK);
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  graft_tensor *x = graft_graph_input(graph, "x", &desc), *y = NULL;
  graft_graph_apply(graph, op, NULL, 0, &x, 1, &y);
  graft_graph_output(graph, y, "y");
  return graph;
}

// Plans one node of |n| elements and tells which kernel it got and how many runs that took.
static int plan_one(fixture *f, int64_t n, graft_plan_options options, const char *kernel) {
  graft_graph *graph = wait_graph(f, "tune.wait.v1", n);
  graft_plan *plan = NULL;
  graft_step_info info = {.struct_size = sizeof info};
  options.struct_size = sizeof options;
  options.device = f->device;
  int before = n_runs;
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) fail_msg("%s", graft_context_error(f->context)->message);
  graft_plan_step(plan, 0, &info);
  assert_string_equal(info.kernel->name, kernel);
  if (strcmp(kernel, "wait__fast") == 0)
    assert_non_null(strstr(info.rejections, "wait__slow: slower when measured: wait__fast took"));
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
  return n_runs - before;
}

static graft_plan_options tuned(const fixture *f) {
  return (graft_plan_options){.tuning = f->path.text};
}

static void KS7_off_unless_asked_for(void **state) {
  fixture *f = *state;
  assert_int_equal(plan_one(f, 8, (graft_plan_options){.tuning = NULL}, "wait__slow"), 0);
  assert_int_equal(plan_one(f, 8, (graft_plan_options){.tuning = "off"}, "wait__slow"), 0);
  assert_int_equal(temp_folder_count(&f->folder), 0);
}

static void KS7_the_fastest_is_chosen_and_remembered(void **state) {
  fixture *f = *state;
  assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
  assert_int_equal(temp_folder_count(&f->folder), 1);
  assert_int_equal(plan_one(f, 8, tuned(f), "wait__fast"), 0);
  graft_context_destroy(f->context);
  open_context(f, NULL, true);
  assert_int_equal(plan_one(f, 8, tuned(f), "wait__fast"), 0);
  assert_string_equal(f->log, "");
}

static void KS7_other_shapes_and_kernels_are_other_questions(void **state) {
  fixture *f = *state;
  assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
  assert_true(plan_one(f, 9, tuned(f), "wait__fast") > 2);
  assert_int_equal(graft_context_register(f->context, &later_extension), GRAFT_OK);
  assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
  assert_int_equal(graft_context_unregister(f->context, &later_extension), GRAFT_OK);
  assert_int_equal(plan_one(f, 8, tuned(f), "wait__fast"), 0);
  assert_int_equal(plan_one(f, 9, tuned(f), "wait__fast"), 0);
}

static void KS7_without_a_file_nothing_is_kept(void **state) {
  fixture *f = *state;
  assert_true(plan_one(f, 8, (graft_plan_options){.tuning = ""}, "wait__fast") > 2);
  assert_true(plan_one(f, 8, (graft_plan_options){.tuning = ""}, "wait__fast") > 2);
}

static void KS7_measuring_memory_times_nothing(void **state) {
  fixture *f = *state;
  graft_plan_options options = tuned(f);
  options.flags = GRAFT_PLAN_MEASURE_ONLY;
  assert_int_equal(plan_one(f, 8, options, "wait__slow"), 0);
  assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
  assert_int_equal(plan_one(f, 8, options, "wait__fast"), 0);
}

static void KS7_a_forced_kernel_stays(void **state) {
  fixture *f = *state;
  graft_plan_options options = tuned(f);
  options.force_kernel = "wait__slow";
  assert_int_equal(plan_one(f, 8, options, "wait__slow"), 0);
}

static void KS7_effects_are_not_tried_out(void **state) {
  fixture *f = *state;
  graft_graph *graph = wait_graph(f, "tune.effect.v1", 4);
  graft_plan *plan = NULL;
  graft_step_info info = {.struct_size = sizeof info};
  const graft_plan_options options = {.struct_size = sizeof options, .device = f->device, .tuning = ""};
  assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
  graft_plan_step(plan, 0, &info);
  assert_string_equal(info.kernel->name, "effect__slow");
  assert_int_equal(n_runs, 0);
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void KS7_a_damaged_file_is_ignored_with_a_warning(void **state) {
  fixture *f = *state;
  (void)plan_one(f, 8, tuned(f), "wait__fast");
  size_t bytes = 0;
  char *file = temp_folder_read(f->path.text, &bytes);
  for (size_t at = 0; at < bytes; at += bytes / 5) {
    char kept = file[at];
    file[at] ^= 4;
    (void)temp_folder_write(&f->folder, "times", file, bytes);
    file[at] = kept;
    f->log[0] = '\0';
    assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
    if (strstr(f->log, "damaged") == NULL) fail_msg("byte %zu: \"%s\"", at, f->log);
    f->log[0] = '\0';
    assert_int_equal(plan_one(f, 8, tuned(f), "wait__fast"), 0);  // written anew
    assert_string_equal(f->log, "");
  }
  (void)temp_folder_write(&f->folder, "times", file, bytes - 1);
  assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
  (void)temp_folder_write(&f->folder, "times", "", 0);
  assert_true(plan_one(f, 8, tuned(f), "wait__fast") > 2);
  assert_non_null(strstr(f->log, "damaged"));
  free(file);
}

static void KS7_what_cannot_be_written_is_a_warning(void **state) {
  fixture *f = *state;
  temp_path path = temp_folder_join(&f->folder, "no/such/folder");
  assert_true(plan_one(f, 8, (graft_plan_options){.tuning = path.text}, "wait__fast") > 2);
  assert_non_null(strstr(f->log, "cannot be written"));
  f->log[0] = '\0';
  assert_true(plan_one(f, 8, (graft_plan_options){.tuning = f->folder.path}, "wait__fast") > 2);
  assert_non_null(strstr(f->log, "cannot be"));
}

static void KS7_a_warning_is_not_repeated_by_every_plan(void **state) {
  fixture *f = *state;
  temp_path path = temp_folder_join(&f->folder, "no/such/folder");
  for (int i = 0; i < 3; ++i) (void)plan_one(f, 8, (graft_plan_options){.tuning = path.text}, "wait__fast");
  assert_int_equal(f->n_lines, 1);
  for (int i = 0; i < 3; ++i) (void)plan_one(f, 8, (graft_plan_options){.tuning = f->folder.path}, "wait__fast");
  assert_int_equal(f->n_lines, 3);  // it can neither be read nor be written
}

static void KS7_the_environment_may_ask_for_it(void **state) {
  fixture *f = *state;
  graft_context_destroy(f->context);
  setenv("GRAFT_TUNING", f->path.text, 1);
  open_context(f, NULL, false);
  unsetenv("GRAFT_TUNING");
  assert_true(plan_one(f, 8, (graft_plan_options){.tuning = NULL}, "wait__fast") > 2);
  assert_int_equal(plan_one(f, 8, (graft_plan_options){.tuning = "off"}, "wait__slow"), 0);
  assert_int_equal(temp_folder_count(&f->folder), 1);
}

// Kernels that pack constants and use workspace give the same result, whichever is taken.
static void KS7_packed_weights_are_timed_too(void **state) {
  enum { ROWS = 24, WIDTH = 96 };
  fixture *f = *state;
  static float w[WIDTH * WIDTH], x[ROWS * WIDTH], y[2][ROWS * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; ++i) w[i] = (float)(i % 7) - 3;
  for (int i = 0; i < ROWS * WIDTH; ++i) x[i] = (float)(i % 5) - 2;
  graft_graph *graph = NULL;
  graft_tensor_desc w_desc, x_desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){WIDTH, WIDTH}, NULL, &w_desc), GRAFT_OK);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (int64_t[]){ROWS, WIDTH}, NULL, &x_desc), GRAFT_OK);
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  const graft_constant bytes = {.struct_size = sizeof bytes, .data = w, .bytes = sizeof w};
  graft_tensor *weight = graft_graph_constant(graph, "w", &w_desc, &bytes);
  graft_tensor *result = graft_linear(graph, graft_graph_input(graph, "x", &x_desc), weight, graft_graph_none());
  graft_graph_output(graph, result, "y");
  for (int i = 0; i < 2; ++i) {
    graft_plan *plan = NULL;
    const graft_plan_options options = {
        .struct_size = sizeof options, .device = f->device, .tuning = i == 0 ? "off" : f->path.text};
    assert_int_equal(graft_plan_create(graph, &options, &plan), GRAFT_OK);
    assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
    assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
    assert_int_equal(graft_plan_read(plan, 0, y[i], sizeof y[i]), GRAFT_OK);
    graft_plan_destroy(plan);
  }
  assert_memory_equal(y[0], y[1], sizeof y[0]);  // small integers: exact in any order
  graft_graph_destroy(graph);
  graft_device_info info = {.struct_size = sizeof info};
  graft_device_describe(f->device, &info);
  assert_int_equal(info.allocated_bytes, 0);
}

typedef struct sweep {
  fixture *f;
  graft_graph *graph;
} sweep;

static void try_plan(void *user) {
  sweep *s = user;
  graft_plan *plan = NULL;
  const graft_plan_options options = {.struct_size = sizeof options, .device = s->f->device, .tuning = s->f->path.text};
  graft_status status = graft_plan_create(s->graph, &options, &plan);
  if (status != GRAFT_OK) assert_int_equal(status, GRAFT_E_NO_MEMORY);
  graft_plan_destroy(plan);
}

static void check_plan(void *user, int64_t failed) {
  sweep *s = user;
  graft_device_info info = {.struct_size = sizeof info};
  (void)failed;
  graft_device_describe(s->f->device, &info);
  assert_int_equal(info.allocated_bytes, 0);
  remove(s->f->path.text);
}

static void KS7_every_failing_allocation_is_a_status(void **state) {
  fixture *f = *state;
  sweep s = {f, wait_graph(f, "tune.wait.v1", 4)};
  assert_true(fail_alloc_sweep(try_plan, check_plan, &s) > 20);
  graft_graph_destroy(s.graph);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(KS7_off_unless_asked_for),
      TEST(KS7_the_fastest_is_chosen_and_remembered),
      TEST(KS7_other_shapes_and_kernels_are_other_questions),
      TEST(KS7_without_a_file_nothing_is_kept),
      TEST(KS7_measuring_memory_times_nothing),
      TEST(KS7_a_forced_kernel_stays),
      TEST(KS7_effects_are_not_tried_out),
      TEST(KS7_a_damaged_file_is_ignored_with_a_warning),
      TEST(KS7_what_cannot_be_written_is_a_warning),
      TEST(KS7_a_warning_is_not_repeated_by_every_plan),
      TEST(KS7_the_environment_may_ask_for_it),
      TEST(KS7_packed_weights_are_timed_too),
      TEST(KS7_every_failing_allocation_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
