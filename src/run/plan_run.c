// Running plans: values in, steps, values out.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/plan/plan_internal.h"
#include "src/run/context_internal.h"

// Keeps |error| as the context's last one. Another plan may fail in another thread at the same moment, so the record is
// written under the lock of what the context tells the outside.
graft_status graft_plan_report_error(const graft_plan *plan, graft_status status, const graft_error *error) {
  if (status == GRAFT_OK) return GRAFT_OK;
  pthread_mutex_lock(&plan->context->log_mutex);
  *plan->error = *error;
  pthread_mutex_unlock(&plan->context->log_mutex);
  return status;
}

graft_status graft_plan_check_runnable(const graft_plan *plan, graft_error *error) {
  if (plan->is_recorded) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID,
                    "the plan was only measured; make one without GRAFT_PLAN_MEASURE_ONLY to run");
}

static size_t value_bytes(const graft_tensor *tensor) {
  const graft_tensor_desc *desc = &tensor->desc;
  return (size_t)(graft_tensor_desc_elements(desc) / desc->dtype->block_elements) * desc->dtype->block_bytes;
}

graft_status graft_plan_check_size(const graft_tensor *tensor, const char *what, const char *name, size_t bytes,
                                   graft_error *error) {
  if (bytes == value_bytes(tensor)) return GRAFT_OK;
  char text[128];
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s \"%s\" is %s: %zu bytes, not %zu", what, name,
                    graft_tensor_desc_format(&tensor->desc, text, sizeof text), value_bytes(tensor), bytes);
}

// Copies the elements of |desc|, which lie at |source| with any strides, densely to |target|.
static void gather(const graft_tensor_desc *desc, const char *source, char *target) {
  int32_t dense = desc->rank;
  while (dense > 0 && graft_tensor_desc_is_dense_from(desc, dense - 1)) --dense;
  graft_tensor_desc run = {.dtype = desc->dtype, .rank = desc->rank - dense};
  for (int32_t d = dense; d < desc->rank; ++d) {
    run.shape[d - dense] = desc->shape[d];
    run.strides[d - dense] = desc->strides[d];
  }
  graft_tensor_desc outer = *desc;
  outer.rank = dense;
  size_t run_bytes = graft_tensor_desc_bytes(&run);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    int64_t offset = 0;
    for (int32_t d = 0; d < dense; ++d) offset += index[d] * desc->strides[d];
    memcpy(target, source + offset, run_bytes);
    target += run_bytes;
  } while (graft_index_next(&outer, index));
}

static graft_status read_device(graft_plan *plan, const graft_tensor *tensor, void *target, graft_error *error) {
  const graft_tensor_desc *desc = &tensor->desc;
  const graft_plan_device *device = &plan->devices[graft_plan_root(tensor)->device];
  void *state = graft_device_state(device->device), *source = graft_plan_address(plan, tensor);
  size_t span = graft_tensor_desc_bytes(desc);
  if (graft_tensor_desc_is_contiguous(desc)) return device->backend->download(state, target, source, span, error);
  if (device->info.flags & GRAFT_DEVICE_HOST_MEMORY) {
    gather(desc, source, target);
    return GRAFT_OK;
  }
  void *staging = malloc(span);
  if (staging == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to read %s", tensor->name);
  graft_status status = device->backend->download(state, staging, source, span, error);
  if (status == GRAFT_OK) gather(desc, staging, target);
  free(staging);
  return status;
}

static graft_status read_output(graft_plan *plan, uint32_t output, void *target, size_t bytes, graft_error *error) {
  if (output >= plan->n_outputs) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "there is no output %u; the plan has %u", (unsigned)output,
                      (unsigned)plan->n_outputs);
  }
  const graft_plan_output *out = &plan->outputs[output];
  GRAFT_TRY(graft_plan_check_runnable(plan, error));
  GRAFT_TRY(graft_plan_check_size(out->tensor, "output", out->name, bytes, error));
  if (!plan->has_result) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "output \"%s\" has no value: the plan has not been run to its end",
                      out->name);
  }
  if (bytes == 0) return GRAFT_OK;
  const graft_tensor *root = graft_plan_root(out->tensor);
  if (root->kind != GRAFT_TENSOR_CONSTANT) return read_device(plan, out->tensor, target, error);
  int64_t offset = out->tensor == root ? 0 : out->tensor->view_offset;
  gather(&out->tensor->desc, (const char *)root->constant.data + offset, target);
  return GRAFT_OK;
}

graft_status graft_plan_read(graft_plan *plan, uint32_t output, void *target, size_t bytes) {
  graft_error error = {0};
  return graft_plan_report_error(plan, read_output(plan, output, target, bytes, &error), &error);
}

graft_status graft_plan_find_input(const graft_plan *plan, const char *name, uint32_t *out_index) {
  for (uint32_t i = 0; i < plan->n_inputs; ++i) {
    if (strcmp(plan->inputs[i]->name, name) != 0) continue;
    *out_index = i;
    return GRAFT_OK;
  }
  graft_error error = {0};
  return graft_plan_report_error(plan, GRAFT_FAIL(&error, GRAFT_E_NOT_FOUND, "the graph has no input \"%s\"", name),
                                 &error);
}

graft_status graft_plan_find_output(const graft_plan *plan, const char *name, uint32_t *out_index) {
  for (uint32_t i = 0; i < plan->n_outputs; ++i) {
    if (strcmp(plan->outputs[i].name, name) != 0) continue;
    *out_index = i;
    return GRAFT_OK;
  }
  graft_error error = {0};
  return graft_plan_report_error(plan, GRAFT_FAIL(&error, GRAFT_E_NOT_FOUND, "the graph has no output \"%s\"", name),
                                 &error);
}

static void name_failing_step(const graft_plan *plan, uint32_t index, graft_error *error) {
  if (error->status == GRAFT_E_CANCELLED || index >= plan->steps.n) return;
  const graft_planned_step *step = graft_plan_step_at(plan, index);
  snprintf(error->op, sizeof error->op, "%s", step->info.op->name);
  snprintf(error->kernel, sizeof error->kernel, "%s", step->kernel->name);
  graft_error_note(error, "in step %u, %s", (unsigned)index, step->node->label);
}

// Backends number the steps of their recordings, callers those of the plan.
typedef struct segment_run {
  const graft_plan *plan;
  const graft_plan_segment *segment;
  const graft_run_control *control;  // the caller's, or zeros
} segment_run;

graft_status graft_plan_check_abort(const graft_run_control *control, graft_error *error) {
  if (control->abort == NULL || !control->abort(control->abort_user)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_CANCELLED, "the run was cancelled");
}

static bool is_watched(const graft_run_control *control) {
  return control->on_step != NULL || control->on_node != NULL;
}

static void tell(const segment_run *run, uint32_t step, bool is_end) {
  const graft_run_control *control = run->control;
  if (control->on_step != NULL) control->on_step(control->on_step_user, step, is_end);
  if (control->on_node == NULL) return;
  graft_step_info info = {.struct_size = sizeof info};
  graft_plan_step(run->plan, step, &info);
  control->on_node(control->on_step_user, step, &info, is_end);
}

static void tell_local(void *user, uint32_t local, bool is_end) {
  const segment_run *run = user;
  tell(run, run->segment->first + local - run->segment->first_local, is_end);
}

// RP3: runs between which the host moves values.
static bool is_dispatched(const graft_plan *plan) {
  return plan->n_segments > 1 || plan->n_slots > 0;
}

static graft_status run_on_device(const graft_plan *plan, const segment_run *run, uint32_t *out_step,
                                  graft_error *error) {
  const graft_plan_segment *segment = run->segment;
  const graft_plan_device *device = &plan->devices[segment->device];
  graft_run_control watched = *run->control;
  uint32_t n = segment->end - segment->first, stopped_at = segment->first_local;
  watched.out_step = &stopped_at;
  watched.on_step_user = (void *)(uintptr_t)run;
  watched.on_step = is_watched(run->control) ? tell_local : NULL;
  watched.on_node = NULL;
  if (is_dispatched(plan)) watched.flags |= GRAFT_RUN_DISPATCH;
  const uint32_t first = segment->first_local, end = first + n;
  const graft_beside beside = {graft_prefetch_work, device->prefetch};
  const bool is_prefetching = graft_prefetch_next(plan, segment) != NULL;
  graft_status status = is_prefetching
                            ? device->backend->run_beside(device->recording, first, end, &watched, &beside, error)
                            : device->backend->run(device->recording, first, end, &watched, error);
  // Transfers that come next may use the plan's staging memory.
  while (is_prefetching && status == GRAFT_OK && graft_prefetch_work(device->prefetch)) {
    status = graft_plan_check_abort(run->control, error);
  }
  *out_step = segment->first + stopped_at - segment->first_local;
  return status;
}

static graft_status run_transfers(const graft_plan *plan, const segment_run *run, uint32_t *out_step,
                                  graft_error *error) {
  const graft_run_control *control = run->control;
  for (uint32_t s = run->segment->first; s < run->segment->end; ++s) {
    *out_step = s;
    GRAFT_TRY(graft_plan_check_abort(control, error));
    if (is_watched(control)) tell(run, s, false);
    graft_status status = graft_plan_transfer(plan, graft_plan_step_at(plan, s), error);
    if (is_watched(control)) tell(run, s, true);
    if (status != GRAFT_OK) return status;
  }
  return GRAFT_OK;
}

static graft_status run_segments(graft_plan *plan, const graft_run_control *control, uint32_t *out_step,
                                 graft_error *error) {
  for (uint32_t g = 0; g < plan->n_segments; ++g) {
    const segment_run run = {plan, &plan->segments[g], control};
    *out_step = run.segment->first;
    GRAFT_TRY(graft_plan_bring(plan, run.segment, control, error));
    const graft_plan_segment *next = graft_prefetch_next(plan, run.segment);
    if (next != NULL) graft_prefetch_begin(plan, next);
    GRAFT_TRY((run.segment->is_transfer ? run_transfers : run_on_device)(plan, &run, out_step, error));
    graft_plan_give_back(plan, g);
  }
  return GRAFT_OK;
}

static graft_status read_control(const graft_run_control *given, graft_run_control *out_control, graft_error *error) {
  if (given == NULL) return GRAFT_OK;
  GRAFT_TRY(graft_versioned_copy(out_control, sizeof *out_control, given, "a graft_run_control", error));
  const uint32_t unknown = out_control->flags & ~(uint32_t)GRAFT_RUN_DISPATCH;
  return unknown == 0 ? GRAFT_OK : GRAFT_FAIL(error, GRAFT_E_INVALID, "run flags 0x%x are unknown", (unsigned)unknown);
}

graft_status graft_plan_run(graft_plan *plan, const graft_run_control *control) {
  graft_run_control watcher = {.struct_size = sizeof watcher};
  graft_error error = {0};
  graft_status status = graft_plan_check_runnable(plan, &error);
  if (status == GRAFT_OK) status = read_control(control, &watcher, &error);
  if (status == GRAFT_OK) status = graft_plan_take_inputs(plan, &error);
  if (status == GRAFT_OK) {
    uint32_t stopped_at = UINT32_MAX;
    plan->has_result = false;
    status = run_segments(plan, &watcher, &stopped_at, &error);
    plan->has_result = status == GRAFT_OK;
    if (status != GRAFT_OK) graft_prefetch_stop(plan);
    if (watcher.out_step != NULL) *watcher.out_step = stopped_at;
    if (status != GRAFT_OK) name_failing_step(plan, stopped_at, &error);
  }
  return graft_plan_report_error(plan, status, &error);
}
