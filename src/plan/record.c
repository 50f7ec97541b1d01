// The plan's memory, and the recording of its steps with the addresses in it.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

void *graft_plan_address(const graft_plan *plan, const graft_tensor *tensor) {
  const graft_tensor *root = graft_plan_root(tensor);
  const graft_plan_value *value = &plan->values[root->id];
  char *base = plan->devices[root->device].memory.address;  // somewhere for empty constants
  if (value->storage != GRAFT_PLAN_NONE) {
    size_t offset;
    (void)graft_plan_whole(plan, root, &offset);
    base += plan->storages[value->storage].offset + offset;
  } else if (value->constant != GRAFT_PLAN_NONE && root->constant.data != NULL) {
    const graft_constant_entry *copy = plan->constants[value->constant].copy;
    // Kernels take addresses of inputs and outputs alike and do not write to inputs.
    base = copy != NULL ? copy->memory.address : (char *)(uintptr_t)root->constant.data;
  }
  return tensor == root ? base : base + tensor->view_offset;
}

// |local|: the step's number in the recording of its device.
static graft_status encode_step(graft_plan *plan, const graft_planned_step *step, uint32_t local) {
  void *inputs[GRAFT_MAX_INPUTS] = {0}, *outputs[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < step->info.n_inputs; ++i) {
    if (step->node->inputs[i] != NULL) inputs[i] = graft_plan_address(plan, step->node->inputs[i]);
  }
  for (uint32_t i = 0; i < step->prepared.n_packed; ++i) {
    inputs[step->prepared.packed[i].input] = step->packed[i]->memory.address;
  }
  for (uint32_t i = 0; i < step->info.n_outputs; ++i) outputs[i] = graft_plan_address(plan, step->node->outputs[i]);
  const graft_plan_device *device = &plan->devices[step->node->device];
  char *memory = device->memory.address;
  const graft_encode_args args = {
      .struct_size = sizeof args,
      .node = &step->info,
      .state = step->prepared.state,
      .inputs = inputs,
      .outputs = outputs,
      .workspace = step->workspace != GRAFT_PLAN_NONE ? memory + plan->storages[step->workspace].offset : NULL,
      .error = plan->error,
  };
  graft_status status = step->kernel->encode(device->backend->step_begin(device->recording, local), &args);
  if (status != GRAFT_OK) {
    if (plan->error->status == GRAFT_OK) (void)GRAFT_FAIL(plan->error, status, "the kernel gave no reason");
    graft_error_note(plan->error, "encoding kernel %s for %s", step->kernel->name, step->node->label);
  }
  return status;
}

static size_t arena_alignment(const graft_plan *plan, uint32_t device) {
  size_t alignment = GRAFT_DEVICE_ALIGNMENT;
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    const graft_plan_storage *storage = &plan->storages[i];
    if (storage->device == device && storage->alignment > alignment) alignment = storage->alignment;
  }
  return alignment;
}

graft_status graft_plan_measure_arena(graft_plan *plan, uint32_t index) {
  graft_plan_device *device = &plan->devices[index];
  if (device->n_steps == 0 && device->report.arena_bytes == 0) return GRAFT_OK;
  size_t bytes;
  GRAFT_TRY(graft_memory_block_size(device->report.arena_bytes, arena_alignment(plan, index), plan->error, &bytes));
  device->report.allocated_bytes += bytes;
  return GRAFT_OK;
}

static graft_status allocate_memory(graft_plan *plan, uint32_t index) {
  graft_plan_device *device = &plan->devices[index];
  if (device->n_steps == 0 && device->report.arena_bytes == 0) return GRAFT_OK;
  return graft_memory_block_allocate(device->device, device->report.arena_bytes, arena_alignment(plan, index),
                                     plan->error, &device->memory);
}

// Between devices bytes go through the host, a value at a time.
static graft_status allocate_staging(graft_plan *plan) {
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    if (!graft_plan_is_transfer(step)) continue;
    size_t bytes = graft_plan_transfer_staging(plan, step);
    if (bytes > plan->staging_bytes) plan->staging_bytes = bytes;
  }
  for (uint32_t i = 0; i < plan->n_inputs && plan->n_slots > 0; ++i) {
    size_t bytes = graft_tensor_desc_bytes(&plan->inputs[i]->desc);
    if (bytes > plan->staging_bytes) plan->staging_bytes = bytes;
  }
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    const graft_plan_resident *resident = plan->residents.items[i];
    size_t bytes = graft_tensor_desc_bytes(&resident->tensor->desc) + resident->entry.key.bytes + 4096;
    if (resident->step != NULL && bytes > plan->staging_bytes) plan->staging_bytes = bytes;
  }
  if (plan->staging_bytes == 0) return GRAFT_OK;
  if (plan->staging_bytes > SIZE_MAX - 4096) return graft_plan_no_memory(plan);
  plan->staging = aligned_alloc(4096, (plan->staging_bytes + 4095) / 4096 * 4096);
  return plan->staging != NULL ? GRAFT_OK : graft_plan_no_memory(plan);
}

static void place_residents(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->residents.n; ++i) {
    graft_plan_resident *resident = plan->residents.items[i];
    char *base = plan->devices[resident->device].memory.address;
    resident->entry.memory.address = base + plan->storages[resident->storage].offset;
  }
}

graft_status graft_plan_record(graft_plan *plan) {
  *plan->error = (graft_error){0};
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    graft_plan_device *device = &plan->devices[d];
    GRAFT_TRY(allocate_memory(plan, d));
    void *state = graft_device_state(device->device);
    GRAFT_TRY(device->backend->record_begin(state, device->n_steps, plan->error, &device->recording));
  }
  place_residents(plan);
  for (uint32_t g = 0; g < plan->n_segments; ++g) {
    const graft_plan_segment *segment = &plan->segments[g];
    for (uint32_t s = segment->first; s < segment->end && !segment->is_transfer; ++s) {
      GRAFT_TRY(encode_step(plan, graft_plan_step_at(plan, s), segment->first_local + s - segment->first));
    }
  }
  for (uint32_t d = 0; d < plan->n_devices; ++d) {
    GRAFT_TRY(plan->devices[d].backend->record_end(plan->devices[d].recording, plan->error));
  }
  GRAFT_TRY(allocate_staging(plan));
  for (uint32_t d = 0; d < plan->n_devices; ++d) GRAFT_TRY(graft_prefetch_open(plan, d));
  plan->is_recorded = true;
  return GRAFT_OK;
}
