// The private device: its memory faults for everyone else, it lacks what it is told to lack; and services by name.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "schedule_support.h"

// Whether touching |address| ends a process.
static bool is_fatal(volatile char *address, bool is_write) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    if (is_write) *address = 1;
    (void)*address;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void SC9_memory_is_closed_to_everyone_else(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  const graft_backend_def *backend = graft_device_backend(s->first);
  void *device = graft_device_state(s->first), *memory = NULL;
  assert_int_equal(backend->allocate(device, 5000, NULL, &memory), GRAFT_OK);
  char *bytes = memory, out[8] = {0};
  assert_true(is_fatal(bytes, false));
  assert_true(is_fatal(bytes + 4999, true));
  assert_int_equal(backend->upload(device, bytes + 100, "private", 8, NULL), GRAFT_OK);
  assert_true(is_fatal(bytes + 100, false));
  assert_int_equal(backend->download(device, out, bytes + 100, 8, NULL), GRAFT_OK);
  assert_string_equal(out, "private");
  assert_true(is_fatal(bytes - 1, false));  // pages around it stay closed
  backend->release(device, memory, 5000);
  schedule_close(s);
}

// The other device's pages are closed while this one runs: a kernel that is given a foreign address ends the process.
static void SC9_foreign_address_in_a_kernel_is_fatal(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_graph_output(s->graph, schedule_scale(s->graph, x, 1), "y");
  const graft_backend_def *backend = graft_device_backend(s->first);
  void *foreign = NULL;
  assert_int_equal(backend->allocate(graft_device_state(s->second), 64, NULL, &foreign), GRAFT_OK);
  const graft_kernel_def *kernel = graft_context_find_kernel(s->context, "scale_f32__mock");
  const graft_tensor_desc *desc = graft_tensor_describe(x);
  plan_attrs attrs = {.factor = 1};
  graft_node_info node = {.struct_size = sizeof node,
                          .op = graft_context_find_op(s->context, "plan.scale.v1"),
                          .attrs = &attrs,
                          .n_inputs = 1,
                          .n_outputs = 1,
                          .inputs = &desc,
                          .outputs = &desc,
                          .device = s->first};
  graft_recording *recording = NULL;
  assert_int_equal(backend->record_begin(graft_device_state(s->first), 1, NULL, &recording), GRAFT_OK);
  const graft_encode_args args = {.struct_size = sizeof args, .node = &node, .inputs = &foreign, .outputs = &foreign};
  assert_int_equal(kernel->encode(backend->step_begin(recording, 0), &args), GRAFT_OK);
  assert_int_equal(backend->record_end(recording, NULL), GRAFT_OK);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    (void)!backend->run(recording, 0, 1, NULL, NULL);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  backend->record_destroy(recording);
  backend->release(graft_device_state(s->second), foreign, 64);
  schedule_close(s);
}

static void SC9_devices_lack_what_they_are_told(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private:1 lacks=plan.add.v1+plan.scale.v1");
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  const graft_tensor_desc *descs[] = {graft_tensor_describe(x), graft_tensor_describe(x)};
  graft_node_info node = {.struct_size = sizeof node,
                          .op = graft_context_find_op(s->context, "plan.scale.v1"),
                          .n_inputs = 1,
                          .n_outputs = 1,
                          .inputs = descs,
                          .outputs = descs};
  graft_reason why = {{0}};
  assert_true(graft_device_supports(s->first, &node, false, &why));
  assert_false(graft_device_supports(s->second, &node, false, &why));
  assert_string_equal(why.text, "private:1 was told to lack it");
  node.op = graft_context_find_op(s->context, "plan.copy.v1");
  assert_true(graft_device_supports(s->second, &node, false, &why));
  schedule_close(s);
  graft_context *context = NULL;
  const graft_context_options options = {.struct_size = sizeof options,
                                         .without_builtins = true,
                                         .ignore_environment = true,
                                         .devices = "private:0 wants x"};
  graft_device *device = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_context_register(context, &graft_extension_private_backend), GRAFT_OK);
  assert_int_equal(graft_device_open(context, "private", &device), GRAFT_E_INVALID);
  assert_non_null(
      strstr(graft_context_error(context)->message, "private:0 does not understand \"wants\"; it takes lacks="));
  graft_context_destroy(context);
}

static bool lacks(const schedule *s, const char *op) {
  const graft_tensor_desc *x = graft_tensor_describe(plan_input(s->graph, op, 2, 1));
  const graft_node_info node = {.struct_size = sizeof node,
                                .op = graft_context_find_op(s->context, op),
                                .n_inputs = 1,
                                .n_outputs = 1,
                                .inputs = &x,
                                .outputs = &x};
  graft_reason why = {{0}};
  return !graft_device_supports(s->first, &node, false, &why) && strcmp(why.text, "private:0 was told to lack it") == 0;
}

static void SC9_what_devices_lack_adds_up(void **state) {
  (void)state;
  schedule *s = schedule_open(1, "private lacks=scale; private:0 lacks=plan.add.v1 lacks=slow+reference");
  static const char *const ops[] = {"plan.scale.v1", "plan.add.v1", "plan.slow.v1", "plan.reference.v1"};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; ++i) assert_true(lacks(s, ops[i]));
  assert_false(lacks(s, "plan.copy.v1"));
  schedule_close(s);
}

// A misspelt name would leave the operator where it was.
static void SC9_devices_cannot_lack_what_nobody_knows(void **state) {
  (void)state;
  static const char *const wrong[][2] = {{"private lacks=plan.add.v2", "cannot lack \"plan.add.v2\""},
                                         {"private lacks=add+scala", "cannot lack \"scala\""},
                                         {"private:0 lacks=add++scale", "cannot lack \"\""},
                                         {"private lacks=add lacks=v1", "cannot lack \"v1\""}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    graft_context *context = NULL;
    const graft_context_options options = {
        .struct_size = sizeof options, .without_builtins = true, .ignore_environment = true, .devices = wrong[i][0]};
    graft_device *device = NULL;
    assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
    assert_int_equal(graft_context_register(context, &plan_extension), GRAFT_OK);
    assert_int_equal(graft_context_register(context, &graft_extension_private_backend), GRAFT_OK);
    assert_int_equal(graft_device_open(context, "private", &device), GRAFT_E_NOT_FOUND);
    assert_non_null(strstr(graft_context_error(context)->message, wrong[i][1]));
    graft_context_destroy(context);
  }
}

// ---- a system that protects no more pages ----

static bool is_mprotect_refused;
int __real_mprotect(void *address, size_t bytes, int protection);
int __wrap_mprotect(void *address, size_t bytes, int protection);
int __wrap_mprotect(void *address, size_t bytes, int protection) {
  return is_mprotect_refused ? -1 : __real_mprotect(address, bytes, protection);
}

static void allocate_without_pages(void *user, uint32_t step, bool is_end) {
  const schedule *s = user;
  const graft_backend_def *backend = graft_device_backend(s->first);
  graft_device_info before = {.struct_size = sizeof before}, after = before;
  void *memory = NULL;
  graft_error error = {0};
  (void)step, (void)is_end;
  graft_device_describe(s->first, &before);
  is_mprotect_refused = true;
  assert_int_equal(backend->allocate(graft_device_state(s->first), 5000, &error, &memory), GRAFT_E_NO_MEMORY);
  is_mprotect_refused = false;
  graft_device_describe(s->first, &after);
  assert_null(memory);
  assert_string_equal(error.message, "no memory for 5000 bytes on private:0");
  assert_int_equal(after.allocated_bytes, before.allocated_bytes);
}

static void SC9_memory_that_cannot_be_opened_is_given_back(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  graft_tensor *x = plan_input(s->graph, "x", 2, 1);
  graft_graph_output(s->graph, schedule_scale(s->graph, x, 1), "y");
  graft_plan *plan = NULL;
  const graft_plan_options options = {.struct_size = sizeof options, .device = s->first};
  assert_int_equal(graft_plan_create(s->graph, &options, &plan), GRAFT_OK);
  const float value[2] = {1, 2};
  assert_int_equal(graft_plan_write(plan, 0, value, sizeof value), GRAFT_OK);
  const graft_run_control control = {
      .struct_size = sizeof control, .on_step = allocate_without_pages, .on_step_user = s};
  assert_int_equal(graft_plan_run(plan, &control), GRAFT_OK);
  graft_plan_destroy(plan);
  schedule_close(s);
}

// ---- cpu.parallel.v1 ----

typedef struct parallel_sum {
  atomic_int n_calls, n_bad_workers;
  int32_t n_threads, stop_after;
  const graft_cpu_parallel_service *service;
  const graft_device *device;
  _Atomic int nested;
} parallel_sum;

static void count_call(void *arg, int64_t i, int32_t worker) {
  parallel_sum *sum = arg;
  (void)i;
  ++sum->n_calls;
  if (worker < 0 || worker >= sum->n_threads) ++sum->n_bad_workers;
}

static bool stop_soon(void *user) {
  const parallel_sum *sum = user;
  return sum->n_calls >= sum->stop_after;
}

// On whatever thread: waiting for the pool from within would wait for ever.
static void run_nested(void *arg, int64_t i, int32_t worker) {
  parallel_sum *sum = arg;
  (void)worker;
  (void)i;
  const graft_cpu_parallel_work work = {.struct_size = sizeof work, .run = count_call, .arg = sum, .n = 1};
  if (sum->service->run(sum->device, &work, NULL) == GRAFT_E_BUSY) ++sum->nested;
}

static void SV1_parallel_work_on_the_configured_pool(void **state) {
  (void)state;
  schedule *s = schedule_open(3, NULL);
  const graft_device *const devices[] = {s->cpu, s->first};
  for (int d = 0; d < 2; ++d) {
    const graft_cpu_parallel_service *service = graft_device_service(devices[d], GRAFT_CPU_PARALLEL_SERVICE);
    assert_non_null(service);
    assert_int_equal(service->n_threads(devices[d]), 3);
    parallel_sum sum = {.n_threads = 3, .stop_after = 1 << 30, .service = service, .device = devices[d]};
    graft_cpu_parallel_work work = {.struct_size = sizeof work, .run = count_call, .arg = &sum, .n = 1000};
    assert_int_equal(service->run(devices[d], &work, NULL), GRAFT_OK);
    assert_int_equal(sum.n_calls, 1000);
    assert_int_equal(sum.n_bad_workers, 0);
    // The abort callback ends it; afterwards everything works as before.
    sum.n_calls = 0;
    sum.stop_after = 10;
    work.abort = stop_soon;
    work.abort_user = &sum;
    work.n = 1000000;
    assert_int_equal(service->run(devices[d], &work, NULL), GRAFT_E_CANCELLED);
    assert_in_range(sum.n_calls, 10, 10 + 3);
    work = (graft_cpu_parallel_work){.struct_size = sizeof work, .run = run_nested, .arg = &sum, .n = 300};
    assert_int_equal(service->run(devices[d], &work, NULL), GRAFT_OK);
    assert_int_equal(sum.nested, 300);
    assert_int_equal(service->run(devices[d], &(graft_cpu_parallel_work){.struct_size = 4}, NULL), GRAFT_E_INVALID);
  }
  assert_null(graft_device_service(s->cpu, "cpu.parallel.v2"));
  assert_null(graft_device_service(s->cpu, NULL));
  assert_non_null(graft_cpu_describe(s->first));
  schedule_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(SC9_memory_is_closed_to_everyone_else),
      cmocka_unit_test(SC9_foreign_address_in_a_kernel_is_fatal),
      cmocka_unit_test(SC9_devices_lack_what_they_are_told),
      cmocka_unit_test(SC9_what_devices_lack_adds_up),
      cmocka_unit_test(SC9_devices_cannot_lack_what_nobody_knows),
      cmocka_unit_test(SC9_memory_that_cannot_be_opened_is_given_back),
      cmocka_unit_test(SV1_parallel_work_on_the_configured_pool),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
