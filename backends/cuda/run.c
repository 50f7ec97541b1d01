// Running a recording: replayed as one graph, dispatched command by command where it may be cancelled in between, or
// step by step where somebody watches.
#include <time.h>

#include "backends/cuda/recording.h"
#include "backends/cuda/replay.h"

// A replay cannot be stopped half-way: one that takes longer is dispatched instead where the caller may cancel.
static const double longest_replay_seconds = 0.04;

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static graft_status issue_launch(graft_cuda_device *device, const graft_cuda_command *command, graft_error *error) {
  // One pointer for each parameter, so that the driver puts a struct where its alignment asks for. There is one; behind
  // it the driver's double finds its size.
  size_t bytes = command->args_bytes;
  void *params[] = {command->args, &bytes};
  const CUresult result = device->driver.cuLaunchKernel(
      command->function, command->grid[0], command->grid[1], command->grid[2], command->block[0], command->block[1],
      command->block[2], command->shared_bytes, device->stream, bytes > 0 ? params : NULL, NULL);
  return graft_cuda_check(device, result, "launching a kernel", error);
}

static graft_status issue_one(graft_cuda_device *device, const graft_cuda_command *command, graft_error *error) {
  if (command->kind == GRAFT_CUDA_LAUNCH) return issue_launch(device, command, error);
  if (command->kind == GRAFT_CUDA_CALL) return command->run(command->args, device->stream, error);
  const graft_cuda_fill *fill = command->args;
  const CUresult result =
      device->driver.cuMemsetD8Async(fill->target, (unsigned char)fill->value, fill->bytes, device->stream);
  return graft_cuda_check(device, result, "filling GPU memory", error);
}

graft_status graft_cuda_issue(graft_recording *recording, uint32_t first_command, uint32_t end_command,
                              graft_error *error) {
  for (uint32_t i = first_command; i < end_command; ++i) {
    GRAFT_TRY(issue_one(recording->device, &recording->commands[i], error));
  }
  return GRAFT_OK;
}

// Who may stop a run, and what the host has to do meanwhile; |beside| may be NULL.
typedef struct watch {
  const graft_run_control *control;
  const graft_beside *beside;
} watch;

static bool should_stop(const graft_run_control *control) {
  return control->abort != NULL && control->abort(control->abort_user);
}

// Whether something was done and there may be more.
static bool work_beside(const watch *w) {
  return w->beside != NULL && w->beside->work(w->beside->user);
}

static graft_status fail_cancelled(graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_CANCELLED, "the run was cancelled");
}

// Waits for |event| and asks meanwhile whether to stop: at once for short work, later only now and then.
static graft_status wait_for(graft_cuda_device *device, CUevent event, const watch *w, graft_error *error) {
  static const double spin_seconds = 2e-4;
  const double begin = seconds_now();
  while (true) {
    const CUresult result = device->driver.cuEventQuery(event);
    if (result == CUDA_SUCCESS) return GRAFT_OK;
    if (result != CUDA_ERROR_NOT_READY) return graft_cuda_check(device, result, "running on the GPU", error);
    if (seconds_now() - begin < spin_seconds) continue;
    if (should_stop(w->control)) return fail_cancelled(error);
    if (work_beside(w)) continue;
    const struct timespec pause = {.tv_nsec = 50000};
    nanosleep(&pause, NULL);
  }
}

// Commands that were put on the stream together.
typedef struct batch {
  uint32_t first, end;
  CUevent is_done;
} batch;

// From |first| on one command while it is not known how long they take, then as many as may be in flight.
static batch next_batch(const graft_recording *recording, uint32_t first, uint32_t end) {
  uint32_t last = first + 1, weight = recording->commands[first].weight;
  if (!recording->is_weighed) return (batch){.first = first, .end = last};
  for (; last < end; ++last) {
    weight += recording->commands[last].weight;
    if (weight > GRAFT_CUDA_MOST_IN_FLIGHT) break;
  }
  return (batch){.first = first, .end = last};
}

// What a command weighs that took |seconds|.
static uint32_t weigh(double seconds) {
  static const double unit_seconds = 3e-4;
  const double weight = 1 + seconds / unit_seconds;
  return weight < GRAFT_CUDA_MOST_IN_FLIGHT ? (uint32_t)weight : GRAFT_CUDA_MOST_IN_FLIGHT;
}

static graft_status finish_batch(graft_recording *recording, batch *b, const watch *w, graft_error *error) {
  const double begin = seconds_now();
  if (b->first == b->end) return GRAFT_OK;
  GRAFT_TRY(wait_for(recording->device, b->is_done, w, error));
  if (!recording->is_weighed) recording->commands[b->first].weight = weigh(seconds_now() - begin);
  b->end = b->first;
  return GRAFT_OK;
}

static graft_status dispatch(graft_recording *recording, uint32_t first, uint32_t end, const watch *w,
                             graft_error *error) {
  graft_cuda_device *device = recording->device;
  batch batches[2] = {{0}};
  uint32_t turn = 0;
  for (; first < end; turn = 1 - turn) {
    batch *b = &batches[turn];
    if (should_stop(w->control)) return fail_cancelled(error);
    GRAFT_TRY(finish_batch(recording, b, w, error));
    *b = next_batch(recording, first, end);
    // What takes long is not queued behind other work.
    const bool is_long = recording->commands[first].weight == GRAFT_CUDA_MOST_IN_FLIGHT;
    if (is_long) GRAFT_TRY(finish_batch(recording, &batches[1 - turn], w, error));
    b->is_done = device->progress[turn];
    GRAFT_TRY(graft_cuda_issue(recording, b->first, b->end, error));
    const CUresult result = device->driver.cuEventRecord(b->is_done, device->stream);
    GRAFT_TRY(graft_cuda_check(device, result, "following the GPU's progress", error));
    first = b->end;
  }
  GRAFT_TRY(finish_batch(recording, &batches[turn], w, error));
  return finish_batch(recording, &batches[1 - turn], w, error);
}

static uint32_t step_of(const graft_recording *recording, uint32_t command) {
  uint32_t step = 0;
  while (step + 1 < recording->n_steps && recording->first_command[step + 1] <= command) ++step;
  return step;
}

// Whether a kernel could not work with its data: the first such record, with which the run fails. All are empty then.
static graft_status find_fault(graft_recording *recording, uint32_t *out_step, graft_error *error) {
  graft_status status = GRAFT_OK;
  for (uint32_t i = 0; i < recording->n_faults; ++i) {
    graft_cuda_fault *fault = &recording->faults[i];
    if (fault->code == 0) continue;
    if (status == GRAFT_OK) {
      status = recording->reports[i](fault, error);
      if (out_step != NULL) *out_step = recording->fault_steps[i];
    }
    *fault = (graft_cuda_fault){0};
  }
  return status;
}

// What becomes of a run that ended with |status| once the device is through with it. Of one that failed or was
// cancelled no record may stay: the next run would be blamed for it.
static graft_status hear_faults(graft_recording *recording, graft_status status, const graft_run_control *control,
                                graft_error *error) {
  const bool is_good = status == GRAFT_OK;
  graft_status fault = find_fault(recording, is_good ? control->out_step : NULL, is_good ? error : NULL);
  return is_good ? fault : status;
}

// One step after another, each finished before it is said to be.
static graft_status run_watched(graft_recording *recording, uint32_t first, uint32_t end, const watch *w,
                                graft_error *error) {
  const graft_run_control *control = w->control;
  for (uint32_t step = first; step < end; ++step) {
    if (control->out_step != NULL) *control->out_step = step;
    control->on_step(control->on_step_user, step, false);
    graft_status status =
        dispatch(recording, recording->first_command[step], recording->first_command[step + 1], w, error);
    graft_status waited = graft_cuda_wait(recording->device, status == GRAFT_OK ? error : NULL);
    control->on_step(control->on_step_user, step, true);
    if (status == GRAFT_OK) status = waited;
    GRAFT_TRY(hear_faults(recording, status, control, error));
  }
  return GRAFT_OK;
}

static bool should_replay(const graft_recording *recording, bool is_whole, const graft_run_control *control) {
  if (!is_whole || (control->flags & GRAFT_RUN_DISPATCH) != 0 || !graft_cuda_can_replay(recording)) return false;
  return control->abort == NULL || recording->seconds < longest_replay_seconds;
}

static graft_status run_at_once(graft_recording *recording, uint32_t first, uint32_t end, const watch *w,
                                graft_error *error) {
  graft_cuda_device *device = recording->device;
  const graft_run_control *control = w->control;
  const uint32_t first_command = recording->first_command[first], end_command = recording->first_command[end];
  const bool is_whole = first == 0 && end == recording->n_steps;
  const bool is_replay = should_replay(recording, is_whole, control);
  const double begin = seconds_now();
  graft_status status = GRAFT_OK;
  if (is_replay) {
    status = should_stop(control) ? fail_cancelled(error) : graft_cuda_replay(recording, error);
  } else if (control->abort != NULL) {
    status = dispatch(recording, first_command, end_command, w, error);
    if (status == GRAFT_OK && is_whole) recording->is_weighed = true;
  } else {
    status = graft_cuda_issue(recording, first_command, end_command, error);
  }
  while (status == GRAFT_OK && work_beside(w)) {
    if (should_stop(control)) status = fail_cancelled(error);
  }
  // Memory is in use until the stream is empty, also after a failure.
  const double issued = seconds_now();
  graft_status waited = graft_cuda_wait(device, status == GRAFT_OK ? error : NULL);
  if (status == GRAFT_OK) status = waited;
  if (is_whole) {
    ++*(is_replay && recording->graph != NULL ? &device->runs.n_replayed : &device->runs.n_dispatched);
    device->runs.wait_seconds += seconds_now() - issued;
  }
  if (status == GRAFT_OK && is_whole) {
    recording->is_warm = true;
    recording->seconds = seconds_now() - begin;
  }
  return hear_faults(recording, status, control, error);
}

// Into the graph of somebody who captures the stream goes only what each launch of it repeats.
static graft_status issue_outside(graft_recording *recording, uint32_t first, uint32_t end,
                                  const graft_run_control *control, graft_error *error) {
  if (control->on_step != NULL) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "steps cannot be watched while the device's stream is captured: they run when the graph does");
  }
  if (recording->n_faults > 0) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "the plan has a kernel that may find values it cannot work with, and nobody would hear of it "
                      "when a graph is launched; run it outside of the capture");
  }
  if (!recording->is_capture_safe) {
    return GRAFT_FAIL(
        error, GRAFT_E_UNSUPPORTED,
        "the plan has a library call that cannot be captured into a graph; run it outside of the capture");
  }
  if (first > 0 || end < recording->n_steps) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                      "the plan runs in parts, and what is brought between them no graph brings again; run it outside "
                      "of the capture, or on one device without a memory budget");
  }
  if (should_stop(control)) return fail_cancelled(error);
  return graft_cuda_issue(recording, recording->first_command[first], recording->first_command[end], error);
}

graft_status graft_cuda_run_beside(graft_recording *recording, uint32_t first, uint32_t end,
                                   const graft_run_control *control, const graft_beside *beside, graft_error *error) {
  static const graft_run_control nobody = {0};
  const watch w = {.control = control != NULL ? control : &nobody, .beside = beside};
  graft_cuda_device *device = recording->device;
  if (first >= end) return GRAFT_OK;
  GRAFT_TRY(graft_cuda_begin_turn(device, error));
  if (w.control->out_step != NULL) *w.control->out_step = step_of(recording, recording->first_command[first]);
  graft_status status = GRAFT_OK;
  if (graft_cuda_is_captured(device)) {
    status = issue_outside(recording, first, end, w.control, error);
  } else if (w.control->on_step != NULL) {
    status = run_watched(recording, first, end, &w, error);
  } else {
    status = run_at_once(recording, first, end, &w, error);
  }
  graft_cuda_end_turn(device);
  return status;
}

graft_status graft_cuda_record_run(graft_recording *recording, uint32_t first, uint32_t end,
                                   const graft_run_control *control, graft_error *error) {
  return graft_cuda_run_beside(recording, first, end, control, NULL, error);
}
