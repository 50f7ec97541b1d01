// The plan's memory, and the recording of its steps with the addresses in it.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

void *graft_plan_address(const graft_plan *plan, const graft_tensor *tensor) {
  const graft_tensor *root = graft_plan_root(tensor);
  const graft_plan_value *value = &plan->values[root->id];
  char *base = plan->memory.address;  // somewhere for empty constants
  if (value->storage != GRAFT_PLAN_NONE) {
    base += plan->storages[value->storage].offset;
  } else if (value->constant != GRAFT_PLAN_NONE && root->constant.data != NULL) {
    const graft_constant_entry *copy = plan->constants[value->constant].copy;
    // Kernels take addresses of inputs and outputs alike and do not write to inputs.
    base = copy != NULL ? copy->memory.address : (char *)(uintptr_t)root->constant.data;
  }
  return tensor == root ? base : base + tensor->view_offset;
}

static graft_status encode_step(graft_plan *plan, uint32_t index) {
  const graft_planned_step *step = graft_plan_step_at(plan, index);
  void *inputs[GRAFT_MAX_INPUTS] = {0}, *outputs[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < step->info.n_inputs; ++i) {
    if (step->node->inputs[i] != NULL) inputs[i] = graft_plan_address(plan, step->node->inputs[i]);
  }
  for (uint32_t i = 0; i < step->prepared.n_packed; ++i) {
    inputs[step->prepared.packed[i].input] = step->packed[i]->memory.address;
  }
  for (uint32_t i = 0; i < step->info.n_outputs; ++i) outputs[i] = graft_plan_address(plan, step->node->outputs[i]);
  char *memory = plan->memory.address;
  const graft_encode_args args = {
      .node = &step->info,
      .state = step->prepared.state,
      .inputs = inputs,
      .outputs = outputs,
      .workspace = step->workspace != GRAFT_PLAN_NONE ? memory + plan->storages[step->workspace].offset : NULL,
      .error = plan->error,
  };
  graft_status status = step->kernel->encode(plan->backend->step_begin(plan->recording, index), &args);
  if (status != GRAFT_OK) {
    if (plan->error->status == GRAFT_OK) (void)GRAFT_FAIL(plan->error, status, "the kernel gave no reason");
    graft_error_note(plan->error, "encoding kernel %s for %s", step->kernel->name, step->node->label);
  }
  return status;
}

static graft_status allocate_memory(graft_plan *plan) {
  if (plan->steps.n == 0 && plan->report.arena_bytes == 0) return GRAFT_OK;
  size_t alignment = GRAFT_DEVICE_ALIGNMENT;
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    if (plan->storages[i].alignment > alignment) alignment = plan->storages[i].alignment;
  }
  return graft_memory_block_allocate(plan->device, plan->report.arena_bytes, alignment, plan->error, &plan->memory);
}

graft_status graft_plan_record(graft_plan *plan) {
  *plan->error = (graft_error){0};
  GRAFT_TRY(allocate_memory(plan));
  void *state = graft_device_state(plan->device);
  GRAFT_TRY(plan->backend->record_begin(state, plan->steps.n, plan->error, &plan->recording));
  for (uint32_t s = 0; s < plan->steps.n; ++s) GRAFT_TRY(encode_step(plan, s));
  return plan->backend->record_end(plan->recording, plan->error);
}
