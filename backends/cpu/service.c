// What CPU devices offer by name.
#include <string.h>

#include "backends/cpu/device.h"

static const graft_cpu_info *describe(const graft_device *device) {
  const graft_cpu_device *state = graft_device_state(device);
  return &state->info;
}

static int32_t n_threads(const graft_device *device) {
  return describe(device)->n_threads;
}

static void run_item(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const graft_cpu_parallel_work *work = args;
  work->run(work->arg, item, worker->index);
}

static graft_status run(const graft_device *device, const graft_cpu_parallel_work *work, graft_error *error) {
  if (work->struct_size < sizeof *work || work->run == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "graft_cpu_parallel_work needs its struct_size and a function to run");
  }
  graft_cpu_device *state = graft_device_state(device);
  if (work->n <= 0) return GRAFT_OK;
  if (!graft_cpu_device_lock(state)) {
    return GRAFT_FAIL(error, GRAFT_E_BUSY, "this thread is inside a run of the same device");
  }
  const graft_run_control control = {
      .struct_size = sizeof control, .abort = work->abort, .abort_user = work->abort_user};
  const graft_cpu_task task = {.run = run_item, .args = work, .args_bytes = sizeof *work, .n_items = work->n};
  graft_cpu_run pool_run;
  graft_cpu_run_init(&pool_run, &control);
  graft_cpu_pool_run(state->pool, &task, &pool_run);
  graft_cpu_device_unlock(state);
  graft_status status = graft_cpu_run_result(&pool_run, error);
  graft_cpu_run_release(&pool_run);
  return status;
}

static const graft_cpu_parallel_service parallel_service = {
    .struct_size = sizeof parallel_service, .n_threads = n_threads, .run = run};
static const graft_cpu_info_service info_service = {.struct_size = sizeof info_service, .describe = describe};

const void *graft_cpu_service(void *state, const char *name) {
  (void)state;
  if (strcmp(name, GRAFT_CPU_PARALLEL_SERVICE) == 0) return &parallel_service;
  if (strcmp(name, GRAFT_CPU_INFO_SERVICE) == 0) return &info_service;
  return NULL;
}
