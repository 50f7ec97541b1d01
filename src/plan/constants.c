// Which constants kernels read where they lie, which need a copy, and which are packed. Reads no data.
#include <string.h>

#include "src/plan/plan_internal.h"

static graft_plan_constant *constant_of(graft_plan *plan, const graft_tensor *tensor) {
  const graft_tensor *root = graft_plan_root(tensor);
  if (root->kind != GRAFT_TENSOR_CONSTANT) return NULL;
  graft_plan_value *value = &plan->values[root->id];
  if (value->constant == GRAFT_PLAN_NONE) {
    value->constant = (int32_t)plan->n_constants++;
    plan->constants[value->constant].tensor = root;
    plan->constants[value->constant].device = root->device;
    plan->constants[value->constant].bytes = graft_tensor_desc_bytes(&root->desc);
  }
  return &plan->constants[value->constant];
}

static int32_t find_packed(const graft_planned_step *step, uint32_t input) {
  for (uint32_t i = 0; i < step->prepared.n_packed; ++i) {
    if (step->prepared.packed[i].input == input) return (int32_t)i;
  }
  return GRAFT_PLAN_NONE;
}

static graft_status acquire(graft_plan *plan, uint32_t device, const graft_constant_key *key,
                            graft_constant_entry **out_entry) {
  graft_plan_device *where = &plan->devices[device];
  size_t allocated;
  GRAFT_TRY(graft_memory_block_size(key->bytes, key->alignment, plan->error, &allocated));
  GRAFT_TRY(graft_constant_cache_acquire(where->device, key, plan->error, out_entry));
  graft_constant_entry *entry = *out_entry;
  if (entry->last_user != plan && key->pack != NULL) where->report.packed_bytes += key->bytes;
  if (entry->last_user != plan) where->report.allocated_bytes += allocated;
  if (entry->last_user != plan && entry->memory.allocation == NULL) where->kept_bytes += allocated;
  entry->last_user = plan;
  return GRAFT_OK;
}

static bool is_brought(const graft_plan *plan, const graft_tensor *root, uint32_t device) {
  return plan->memory_budget > 0 || (root->is_brought && !graft_plan_is_host(plan, device));
}

static graft_status add_packed(graft_plan *plan, graft_planned_step *step, uint32_t index) {
  const graft_packed_input *packed = &step->prepared.packed[index];
  const graft_tensor *tensor = step->node->inputs[packed->input];
  const graft_tensor *root = graft_plan_root(tensor);
  graft_constant_key key = {.source = (const char *)root->constant.data + (tensor == root ? 0 : tensor->view_offset),
                            .desc = tensor->desc,
                            .pack = step->kernel->pack,
                            .bytes = packed->bytes,
                            .alignment = packed->alignment};
  memcpy(key.layout, packed->layout, sizeof key.layout);
  if (is_brought(plan, root, step->node->device)) {
    const graft_plan_resident wanted = {
        .entry.key = key, .step = step, .tensor = tensor, .input = packed->input, .device = step->node->device};
    return graft_plan_acquire_resident(plan, &wanted, &step->packed[index]);
  }
  return acquire(plan, step->node->device, &key, &step->packed[index]);
}

static bool needs_copy(const graft_plan *plan, const graft_plan_constant *constant) {
  if (constant->bytes == 0) return false;
  if (!graft_plan_is_host(plan, constant->device)) return true;
  return (uintptr_t)constant->tensor->constant.data % constant->tensor->desc.dtype->alignment != 0;
}

static graft_status add_copy(graft_plan *plan, graft_plan_constant *constant) {
  if (!constant->is_read) return GRAFT_OK;
  constant->is_brought = is_brought(plan, constant->tensor, constant->device);
  if (!constant->is_brought) plan->devices[constant->device].report.constant_bytes += constant->bytes;
  if (!needs_copy(plan, constant)) return GRAFT_OK;
  const graft_constant_key key = {.source = constant->tensor->constant.data,
                                  .desc = constant->tensor->desc,
                                  .bytes = constant->bytes,
                                  .alignment = GRAFT_DEVICE_ALIGNMENT};
  if (constant->is_brought) {
    const graft_plan_resident wanted = {.entry.key = key, .tensor = constant->tensor, .device = constant->device};
    return graft_plan_acquire_resident(plan, &wanted, &constant->copy);
  }
  return acquire(plan, constant->device, &key, &constant->copy);
}

static graft_status add_step(graft_plan *plan, graft_planned_step *step) {
  for (uint32_t i = 0; i < step->info.n_inputs; ++i) {
    graft_plan_constant *constant = step->node->inputs[i] != NULL ? constant_of(plan, step->node->inputs[i]) : NULL;
    if (constant == NULL) continue;
    int32_t packed = find_packed(step, i);
    if (packed == GRAFT_PLAN_NONE) {
      constant->is_read = true;
    } else {
      GRAFT_TRY(add_packed(plan, step, (uint32_t)packed));
    }
  }
  return GRAFT_OK;
}

graft_status graft_plan_find_constants(graft_plan *plan) {
  size_t n = 0;
  for (uint32_t i = 0; i < plan->tensors.n; ++i) {
    const graft_tensor *tensor = plan->tensors.items[i];
    if (tensor->kind == GRAFT_TENSOR_CONSTANT) ++n;
  }
  plan->constants = graft_arena_alloc_array(&plan->arena, n, sizeof *plan->constants);
  if (plan->constants == NULL) return graft_plan_no_memory(plan);
  for (uint32_t s = 0; s < plan->steps.n; ++s) GRAFT_TRY(add_step(plan, graft_plan_step_at(plan, s)));
  for (uint32_t i = 0; i < plan->n_outputs; ++i) {
    graft_plan_constant *constant = constant_of(plan, plan->outputs[i].tensor);
    if (constant != NULL) constant->is_output = true;
  }
  for (uint32_t i = 0; i < plan->n_constants; ++i) GRAFT_TRY(add_copy(plan, &plan->constants[i]));
  return GRAFT_OK;
}

graft_plan_constant *graft_plan_constant_use(const graft_plan *plan, const graft_planned_step *step, uint32_t input,
                                             graft_constant_entry **out_entry) {
  const graft_tensor *tensor = step->node->inputs[input];
  int32_t constant = tensor != NULL ? plan->values[graft_plan_root(tensor)->id].constant : GRAFT_PLAN_NONE;
  if (constant == GRAFT_PLAN_NONE) return NULL;
  int32_t packed = find_packed(step, input);
  *out_entry = packed != GRAFT_PLAN_NONE ? step->packed[packed] : plan->constants[constant].copy;
  return &plan->constants[constant];
}

static bool is_read_before(const graft_plan *plan, const graft_plan_segment *segment, uint32_t step, uint32_t input,
                           const graft_plan_constant *constant) {
  for (uint32_t s = segment->first; s <= step; ++s) {
    const graft_planned_step *earlier = graft_plan_step_at(plan, s);
    for (uint32_t i = 0; i < earlier->node->n_inputs && (s < step || i < input); ++i) {
      graft_constant_entry *entry = NULL;
      if (graft_plan_constant_use(plan, earlier, i, &entry) == constant && entry == NULL) return true;
    }
  }
  return false;
}

size_t graft_plan_segment_constants(const graft_plan *plan, const graft_plan_segment *segment) {
  size_t bytes = 0;
  for (uint32_t s = segment->first; s < segment->end; ++s) {
    const graft_planned_step *step = graft_plan_step_at(plan, s);
    for (uint32_t i = 0; i < step->node->n_inputs; ++i) {
      graft_constant_entry *entry = NULL;
      const graft_plan_constant *constant = graft_plan_constant_use(plan, step, i, &entry);
      if (constant == NULL || entry != NULL || is_read_before(plan, segment, s, i, constant)) continue;
      bytes += constant->bytes;
    }
  }
  return bytes;
}
