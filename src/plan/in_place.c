// When a result may take over the bytes of an input.
#include "src/plan/plan_internal.h"

// Whether |tensor| shows its whole storage (and so begins where it begins), in the layout of |output|.
static bool covers(const graft_tensor *tensor, const graft_tensor *output) {
  const graft_tensor *root = graft_plan_root(tensor);
  return graft_tensor_desc_same_layout(&tensor->desc, &output->desc) &&
         graft_tensor_desc_bytes(&tensor->desc) == graft_tensor_desc_bytes(&root->desc);
}

static bool can_take(const graft_plan *plan, uint32_t index, uint32_t input) {
  const graft_node *node = graft_plan_step_at(plan, index)->node;
  const graft_tensor *tensor = node->inputs[input];
  const graft_tensor *root = graft_plan_root(tensor);
  if (root->kind != GRAFT_TENSOR_RESULT || !covers(tensor, node->outputs[0])) return false;
  if (plan->values[root->id].whole != GRAFT_PLAN_NONE) return false;
  // Read again later, also as a view, or an output of the graph.
  int32_t storage = plan->values[root->id].storage;
  if (plan->storages[storage].last != index + 1) return false;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    const graft_tensor *other = node->inputs[i];
    if (other == NULL || plan->values[graft_plan_root(other)->id].storage != storage) continue;
    if (!covers(other, node->outputs[0])) return false;
  }
  return true;
}

int32_t graft_plan_in_place_input(const graft_plan *plan, uint32_t index) {
  if (plan->flags & (GRAFT_PLAN_NO_IN_PLACE | GRAFT_PLAN_NO_REUSE)) return GRAFT_PLAN_NONE;
  const graft_planned_step *step = graft_plan_step_at(plan, index);
  if (graft_plan_is_transfer(step)) return GRAFT_PLAN_NONE;
  for (uint32_t i = 0; i < step->node->n_inputs; ++i) {
    bool is_allowed = (step->kernel->in_place_inputs >> i & 1) != 0;
    if (is_allowed && step->node->inputs[i] != NULL && can_take(plan, index, i)) return (int32_t)i;
  }
  return GRAFT_PLAN_NONE;
}
