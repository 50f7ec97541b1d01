// Values of inputs: written by the caller, for this run or for coming ones.
#include <string.h>

#include "src/base/text.h"
#include "src/plan/plan_internal.h"

static char *slot_address(const graft_plan *plan, uint32_t input, uint32_t slot) {
  const graft_plan_storage *storage = &plan->storages[plan->slots[input * plan->n_slots + slot]];
  return (char *)plan->devices[storage->device].memory.address + storage->offset;
}

static graft_status upload(const graft_plan *plan, uint32_t input, void *target, const void *source, size_t bytes,
                           graft_error *error) {
  const graft_plan_device *device = &plan->devices[plan->inputs[input]->device];
  return device->backend->upload(graft_device_state(device->device), target, source, bytes, error);
}

// Writes to the next slot that is free. Nobody else looks at it until it is counted.
static graft_status write_slot(graft_plan *plan, uint32_t input, const void *source, size_t bytes, graft_error *error) {
  pthread_mutex_lock(&plan->inputs_lock);
  uint32_t n_full = plan->n_full[input], slot = (plan->first_slot[input] + n_full) % plan->n_slots;
  pthread_mutex_unlock(&plan->inputs_lock);
  if (n_full == plan->n_slots) {
    return GRAFT_FAIL(error, GRAFT_E_BUSY, "%u value%s of input \"%s\" wait%s for runs already; run the plan first",
                      (unsigned)n_full, graft_text_s(n_full), plan->inputs[input]->name, n_full == 1 ? "s" : "");
  }
  return upload(plan, input, slot_address(plan, input, slot), source, bytes, error);
}

static graft_status write_input(graft_plan *plan, uint32_t input, const void *source, size_t bytes,
                                graft_error *error) {
  if (input >= plan->n_inputs) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "there is no input %u; the plan has %u", (unsigned)input,
                      (unsigned)plan->n_inputs);
  }
  const graft_tensor *tensor = plan->inputs[input];
  GRAFT_TRY(graft_plan_check_runnable(plan, error));
  GRAFT_TRY(graft_plan_check_size(tensor, "input", tensor->name, bytes, error));
  bool is_stored = bytes > 0 && plan->values[tensor->id].storage != GRAFT_PLAN_NONE;
  if (is_stored && plan->n_slots > 0) {
    GRAFT_TRY(write_slot(plan, input, source, bytes, error));
  } else if (is_stored) {
    GRAFT_TRY(upload(plan, input, graft_plan_address(plan, tensor), source, bytes, error));
  }
  pthread_mutex_lock(&plan->inputs_lock);
  if (is_stored && plan->n_slots > 0) ++plan->n_full[input];
  if (!plan->is_written[input]) --plan->n_unwritten;
  plan->is_written[input] = true;
  pthread_mutex_unlock(&plan->inputs_lock);
  return GRAFT_OK;
}

graft_status graft_plan_write(graft_plan *plan, uint32_t input, const void *source, size_t bytes) {
  graft_error error = {0};
  return graft_plan_report_error(plan, write_input(plan, input, source, bytes, &error), &error);
}

static graft_status check_written(const graft_plan *plan, graft_error *error) {
  for (uint32_t i = 0; i < plan->n_inputs && plan->n_unwritten > 0; ++i) {
    if (plan->is_written[i] || plan->values[plan->inputs[i]->id].storage == GRAFT_PLAN_NONE) continue;
    return GRAFT_FAIL(error, GRAFT_E_INVALID,
                      "input \"%s\" was never written; call graft_plan_write before the first run",
                      plan->inputs[i]->name);
  }
  return GRAFT_OK;
}

static graft_status move(const graft_plan *plan, uint32_t input, uint32_t slot, graft_error *error) {
  const graft_tensor *tensor = plan->inputs[input];
  const graft_plan_device *device = &plan->devices[tensor->device];
  void *target = graft_plan_address(plan, tensor), *source = slot_address(plan, input, slot);
  size_t bytes = graft_tensor_desc_bytes(&tensor->desc);
  if (graft_plan_is_host(plan, tensor->device)) {
    memcpy(target, source, bytes);
    return GRAFT_OK;
  }
  GRAFT_TRY(device->backend->download(graft_device_state(device->device), plan->staging, source, bytes, error));
  return device->backend->upload(graft_device_state(device->device), target, plan->staging, bytes, error);
}

static graft_status take(graft_plan *plan, uint32_t input, graft_error *error) {
  pthread_mutex_lock(&plan->inputs_lock);
  bool is_waiting = plan->n_full[input] > 0;
  uint32_t slot = plan->first_slot[input];
  pthread_mutex_unlock(&plan->inputs_lock);
  if (!is_waiting) return GRAFT_OK;
  GRAFT_TRY(move(plan, input, slot, error));
  pthread_mutex_lock(&plan->inputs_lock);
  plan->first_slot[input] = (slot + 1) % plan->n_slots;
  --plan->n_full[input];
  pthread_mutex_unlock(&plan->inputs_lock);
  return GRAFT_OK;
}

graft_status graft_plan_take_inputs(graft_plan *plan, graft_error *error) {
  pthread_mutex_lock(&plan->inputs_lock);
  graft_status status = check_written(plan, error);
  pthread_mutex_unlock(&plan->inputs_lock);
  for (uint32_t i = 0; i < plan->n_inputs && plan->n_slots > 0 && status == GRAFT_OK; ++i)
    status = take(plan, i, error);
  return status;
}
