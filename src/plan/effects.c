// Steps that write over storage of others, and what may not change places with them.
#include "src/graph/effects.h"

#include "src/plan/plan_internal.h"

static bool reads(const graft_node *node, const graft_extent *extent) {
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] == NULL) continue;
    graft_extent other = graft_tensor_extent(node->inputs[i]);
    if (graft_extents_overlap(&other, extent)) return true;
  }
  return false;
}

static bool makes(const graft_node *node, const graft_extent *extent) {
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    graft_extent other = graft_tensor_extent(node->outputs[i]);
    if (graft_extents_overlap(&other, extent)) return true;
  }
  return false;
}

static bool feeds(const graft_node *maker, const graft_node *user) {
  for (uint32_t i = 0; i < maker->n_outputs; ++i) {
    graft_extent extent = graft_tensor_extent(maker->outputs[i]);
    if (reads(user, &extent) || makes(user, &extent)) return true;
  }
  return false;
}

bool graft_plan_steps_conflict(const graft_planned_step *earlier, const graft_planned_step *later) {
  if ((earlier->node->op->traits | later->node->op->traits) & GRAFT_OP_OPAQUE_EFFECT) return true;
  return feeds(earlier->node, later->node) || feeds(later->node, earlier->node);
}
