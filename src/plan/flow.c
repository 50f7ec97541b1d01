// How values and memory flow through a plan, for those who draw it.
#include "src/plan/plan_internal.h"

static bool makes(const graft_planned_step *step, const graft_tensor *root) {
  for (uint32_t i = 0; i < step->node->n_outputs; ++i) {
    if (graft_plan_root(step->node->outputs[i]) == root) return true;
  }
  return false;
}

// The last step before |index| that wrote the value: what is written over has several.
static int32_t find_maker(const graft_plan *plan, uint32_t index, const graft_tensor *value) {
  if (value == NULL) return GRAFT_PLAN_NONE;
  const graft_tensor *root = graft_plan_root(value);
  for (uint32_t s = index; s-- > 0;) {
    if (makes(graft_plan_step_at(plan, s), root)) return (int32_t)s;
  }
  return GRAFT_PLAN_NONE;
}

void graft_plan_step_sources(const graft_plan *plan, uint32_t index, int32_t *out_steps) {
  if (index >= plan->steps.n) return;
  const graft_node *node = graft_plan_step_at(plan, index)->node;
  for (uint32_t i = 0; i < node->n_inputs; ++i) out_steps[i] = find_maker(plan, index, node->inputs[i]);
}

uint32_t graft_plan_n_devices(const graft_plan *plan) {
  return plan->n_devices;
}

const graft_device *graft_plan_used_device(const graft_plan *plan, uint32_t index) {
  return index < plan->n_devices ? plan->devices[index].device : NULL;
}

size_t graft_plan_live_bytes(const graft_plan *plan, uint32_t device, uint32_t step) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < plan->n_storages; ++i) {
    const graft_plan_storage *storage = &plan->storages[i];
    if (storage->device == device && storage->first <= step + 1 && step + 1 <= storage->last) bytes += storage->bytes;
  }
  return bytes;
}
