// From when to when the bytes of every value must stay, and which values share one storage.
#include "src/base/checked.h"
#include "src/plan/plan_internal.h"

static uint32_t time_of(uint32_t step) {
  return step + 1;
}

static graft_plan_value *value_of(graft_plan *plan, const graft_tensor *tensor) {
  return &plan->values[graft_plan_root(tensor)->id];
}

static void find_last_reads(graft_plan *plan) {
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_node *node = graft_plan_step_at(plan, s)->node;
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      if (node->inputs[i] != NULL) value_of(plan, node->inputs[i])->last = time_of(s);
    }
    // Writing over storage needs it, too.
    if (node->outputs[0]->view_of != NULL) value_of(plan, node->outputs[0])->last = time_of(s);
  }
  for (uint32_t i = 0; i < plan->n_outputs; ++i) value_of(plan, plan->outputs[i].tensor)->last = time_of(plan->steps.n);
}

typedef struct storage_need {
  size_t bytes, alignment;
  uint32_t first, last;
  uint32_t device;
} storage_need;

static graft_status count_naive(graft_plan *plan, uint32_t device, size_t bytes) {
  size_t *total = &plan->devices[device].report.naive_bytes;
  if (graft_checked_add(*total, bytes, total)) return GRAFT_OK;
  return GRAFT_FAIL(plan->error, GRAFT_E_NO_MEMORY, "the graph's values together are larger than any memory");
}

static graft_status add_storage(graft_plan *plan, storage_need need, int32_t *out_index) {
  graft_plan_storage *storage = &plan->storages[plan->n_storages];
  *storage = (graft_plan_storage){
      .first = need.first, .last = need.last < need.first ? need.first : need.last, .device = need.device};
  storage->alignment = need.alignment > GRAFT_DEVICE_ALIGNMENT ? need.alignment : GRAFT_DEVICE_ALIGNMENT;
  if (!graft_checked_align(need.bytes, GRAFT_DEVICE_ALIGNMENT, &storage->bytes)) {
    return count_naive(plan, need.device, SIZE_MAX);
  }
  *out_index = (int32_t)plan->n_storages++;
  return count_naive(plan, need.device, storage->bytes);
}

static graft_status add_inputs(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->n_inputs; ++i) {
    const graft_tensor *input = plan->inputs[i];
    graft_plan_value *value = &plan->values[input->id];
    if (value->last == 0) continue;  // nothing reads it
    value->last = time_of(plan->steps.n);
    GRAFT_TRY(add_storage(plan,
                          (storage_need){.bytes = graft_tensor_desc_bytes(&input->desc),
                                         .alignment = input->desc.dtype->alignment,
                                         .first = 0,
                                         .last = value->last,
                                         .device = input->device},
                          &value->storage));
    for (uint32_t k = 0; k < plan->n_slots; ++k) {
      const graft_plan_storage slot = plan->storages[value->storage];
      GRAFT_TRY(graft_plan_add_storage(plan, &slot, &plan->slots[i * plan->n_slots + k]));
    }
  }
  return GRAFT_OK;
}

// Storage of what has parts lives from the first of them on.
static graft_status add_part(graft_plan *plan, uint32_t index, const graft_tensor *tensor) {
  size_t offset, bytes;
  const graft_tensor *whole = graft_plan_whole(plan, tensor, &offset);
  graft_plan_value *value = &plan->values[tensor->id], *owner = &plan->values[whole->id];
  if (owner->storage == GRAFT_PLAN_NONE) {
    GRAFT_TRY(add_storage(plan,
                          (storage_need){.bytes = graft_tensor_desc_bytes(&whole->desc),
                                         .alignment = whole->desc.dtype->alignment,
                                         .first = time_of(index),
                                         .last = owner->last,
                                         .device = whole->device},
                          &owner->storage));
  }
  value->storage = owner->storage;
  graft_plan_storage *storage = &plan->storages[value->storage];
  if (value->last > storage->last) storage->last = value->last;
  if (tensor == whole) return GRAFT_OK;
  if (!graft_checked_align(graft_tensor_desc_bytes(&tensor->desc), GRAFT_DEVICE_ALIGNMENT, &bytes)) bytes = SIZE_MAX;
  return count_naive(plan, whole->device, bytes);
}

static graft_status add_output(graft_plan *plan, uint32_t index, uint32_t output) {
  graft_planned_step *step = graft_plan_step_at(plan, index);
  const graft_tensor *tensor = step->node->outputs[output];
  graft_plan_value *value = &plan->values[tensor->id];
  size_t bytes = graft_tensor_desc_bytes(&tensor->desc);
  if (tensor->view_of != NULL) return GRAFT_OK;  // written over what is there
  const bool has_parts = value->storage != GRAFT_PLAN_NONE;
  if (value->whole != GRAFT_PLAN_NONE || has_parts) {
    if (output == 0) step->in_place_input = GRAFT_PLAN_NONE;
    return add_part(plan, index, tensor);
  }
  if (output == 0) step->in_place_input = graft_plan_in_place_input(plan, index);
  if (output == 0 && step->in_place_input != GRAFT_PLAN_NONE) {
    value->storage = value_of(plan, step->node->inputs[step->in_place_input])->storage;
    graft_plan_storage *storage = &plan->storages[value->storage];
    if (value->last > storage->last) storage->last = value->last;
    return count_naive(plan, storage->device, storage->bytes);
  }
  return add_storage(plan,
                     (storage_need){.bytes = bytes,
                                    .alignment = tensor->desc.dtype->alignment,
                                    .first = time_of(index),
                                    .last = value->last,
                                    .device = tensor->device},
                     &value->storage);
}

static graft_status add_step(graft_plan *plan, uint32_t index) {
  graft_planned_step *step = graft_plan_step_at(plan, index);
  for (uint32_t i = 0; i < step->node->n_outputs; ++i) GRAFT_TRY(add_output(plan, index, i));
  size_t workspace = step->prepared.workspace_bytes;
  if (workspace == 0) return GRAFT_OK;
  graft_memory_report *report = &plan->devices[step->node->device].report;
  if (workspace > report->workspace_bytes) report->workspace_bytes = workspace;
  return add_storage(plan,
                     (storage_need){.bytes = workspace,
                                    .alignment = step->prepared.workspace_alignment,
                                    .first = time_of(index),
                                    .last = time_of(index),
                                    .device = step->node->device},
                     &step->workspace);
}

static graft_status begin_lifetimes(graft_plan *plan) {
  size_t n_storages = (size_t)plan->n_inputs * (1 + plan->n_slots);
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    n_storages += (size_t)step->node->n_outputs + 1;
    // Constants that are brought lie in the arena, too.
    n_storages += (size_t)step->prepared.n_packed + step->node->n_inputs;
  }
  plan->storages = graft_arena_alloc_array(&plan->arena, n_storages, sizeof *plan->storages);
  plan->values = graft_arena_alloc_array(&plan->arena, plan->tensors.n, sizeof *plan->values);
  if (plan->storages == NULL || plan->values == NULL) return graft_plan_no_memory(plan);
  for (uint32_t i = 0; i < plan->tensors.n; ++i) {
    plan->values[i] =
        (graft_plan_value){.storage = GRAFT_PLAN_NONE, .constant = GRAFT_PLAN_NONE, .whole = GRAFT_PLAN_NONE};
  }
  return GRAFT_OK;
}

// Forgets all but which values are parts.
static void forget_lifetimes(graft_plan *plan) {
  plan->n_storages = 0;
  for (uint32_t d = 0; d < plan->n_devices; ++d) plan->devices[d].report.naive_bytes = 0;
  for (uint32_t i = 0; i < plan->tensors.n; ++i) {
    plan->values[i].storage = GRAFT_PLAN_NONE;
    plan->values[i].last = 0;
  }
}

graft_status graft_plan_find_storages(graft_plan *plan) {
  forget_lifetimes(plan);
  find_last_reads(plan);
  GRAFT_TRY(add_inputs(plan));
  for (uint32_t s = 0; s < plan->steps.n; ++s) GRAFT_TRY(add_step(plan, s));
  return GRAFT_OK;
}

graft_status graft_plan_find_lifetimes(graft_plan *plan) {
  GRAFT_TRY(begin_lifetimes(plan));
  GRAFT_TRY(graft_plan_find_storages(plan));
  return graft_plan_place_parts(plan);
}

graft_status graft_plan_add_storage(graft_plan *plan, const graft_plan_storage *storage, int32_t *out_index) {
  return add_storage(plan,
                     (storage_need){.bytes = storage->bytes,
                                    .alignment = storage->alignment,
                                    .first = storage->first,
                                    .last = storage->last,
                                    .device = storage->device},
                     out_index);
}
