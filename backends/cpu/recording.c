#include <stdlib.h>
#include <string.h>

#include "backends/cpu/device.h"
#include "src/base/arena.h"

struct graft_encoder {
  graft_recording *recording;
};

struct graft_recording {
  graft_cpu_device *device;
  graft_encoder encoder;
  graft_arena arena;  // arguments of tasks
  graft_cpu_task *tasks;
  uint32_t n_tasks, task_capacity;
  uint32_t n_steps, n_begun;
  uint32_t first_task[];  // of each step, and one past the last
};

graft_status graft_cpu_record_begin(void *state, uint32_t n_steps, graft_error *error,
                                    graft_recording **out_recording) {
  graft_recording *recording = calloc(1, sizeof *recording + ((size_t)n_steps + 1) * sizeof(uint32_t));
  if (recording == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to record %u steps", n_steps);
  recording->device = state;
  recording->encoder.recording = recording;
  recording->n_steps = n_steps;
  *out_recording = recording;
  return GRAFT_OK;
}

static void begin_steps_to(graft_recording *recording, uint32_t end) {
  while (recording->n_begun < end) recording->first_task[recording->n_begun++] = recording->n_tasks;
}

graft_encoder *graft_cpu_step_begin(graft_recording *recording, uint32_t step) {
  begin_steps_to(recording, step + 1);
  return &recording->encoder;
}

graft_status graft_cpu_record_end(graft_recording *recording, graft_error *error) {
  (void)error;
  begin_steps_to(recording, recording->n_steps);
  recording->first_task[recording->n_steps] = recording->n_tasks;
  return GRAFT_OK;
}

graft_cpu_device *graft_cpu_recording_device(const graft_recording *recording) {
  return recording->device;
}

void graft_cpu_record_destroy(graft_recording *recording) {
  if (recording == NULL) return;
  graft_arena_release(&recording->arena);
  free(recording->tasks);
  free(recording);
}

static bool reserve_task(graft_recording *recording) {
  if (recording->n_tasks < recording->task_capacity) return true;
  if (recording->task_capacity > UINT32_MAX / 2) return false;
  uint32_t capacity = recording->task_capacity == 0 ? 64 : 2 * recording->task_capacity;
  graft_cpu_task *tasks = realloc(recording->tasks, (size_t)capacity * sizeof *tasks);
  if (tasks == NULL) return false;
  recording->tasks = tasks;
  recording->task_capacity = capacity;
  return true;
}

graft_status graft_cpu_encode(graft_encoder *encoder, const graft_cpu_task *task, graft_error *error) {
  graft_recording *recording = encoder->recording;
  if (task->n_items <= 0) return GRAFT_OK;
  void *args = graft_arena_alloc(&recording->arena, task->args_bytes);
  if (args == NULL || !reserve_task(recording))
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to record a task");
  if (task->args_bytes > 0) memcpy(args, task->args, task->args_bytes);
  graft_cpu_task *copy = &recording->tasks[recording->n_tasks++];
  *copy = *task;
  copy->args = args;
  return GRAFT_OK;
}

static void run_step(const graft_recording *recording, uint32_t step, graft_cpu_run *run) {
  const graft_run_control *control = run->control;
  bool is_observed = control != NULL && control->on_step != NULL;
  if (is_observed) control->on_step(control->on_step_user, step, false);
  for (uint32_t t = recording->first_task[step]; t < recording->first_task[step + 1]; ++t) {
    graft_cpu_pool_run(recording->device->pool, &recording->tasks[t], run);
    if (atomic_load_explicit(&run->is_stopped, memory_order_relaxed)) break;
  }
  if (is_observed) control->on_step(control->on_step_user, step, true);
}

graft_status graft_cpu_record_run(graft_recording *recording, uint32_t first, uint32_t end,
                                  const graft_run_control *control, graft_error *error) {
  if (!graft_cpu_device_lock(recording->device)) {
    return GRAFT_FAIL(error, GRAFT_E_BUSY, "this thread is inside a run of the same device");
  }
  graft_cpu_run run;
  graft_cpu_run_init(&run, control);
  for (uint32_t step = first; step < end && !graft_cpu_run_should_stop(&run); ++step) {
    if (control != NULL && control->out_step != NULL) *control->out_step = step;
    run_step(recording, step, &run);
  }
  graft_cpu_device_unlock(recording->device);
  graft_status status = graft_cpu_run_result(&run, error);
  graft_cpu_run_release(&run);
  return status;
}
