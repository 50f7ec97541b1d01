// What nothing needs is not computed.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

void graft_plan_need(const graft_tensor *tensor, bool *needed) {
  for (; tensor != NULL; tensor = tensor->view_of) needed[tensor->id] = true;
}

// Whether what |node| writes over is looked at later: by a node behind it, by the caller, or by the next run.
static bool is_write_needed(const graft_node *node, const bool *needed) {
  const graft_tensor *owner = node->into;
  if (owner == NULL) return false;
  while (owner->view_of != NULL) owner = owner->view_of;
  return owner->kind == GRAFT_TENSOR_INPUT || needed[owner->id];
}

void graft_plan_mark_live(graft_node *const *nodes, uint32_t n_nodes, bool *needed, bool *live) {
  for (uint32_t n = n_nodes; n-- > 0;) {
    const graft_node *node = nodes[n];
    live[n] = (node->op->traits & GRAFT_OP_OPAQUE_EFFECT) != 0 || is_write_needed(node, needed);
    for (uint32_t i = 0; i < node->n_outputs; ++i) live[n] = live[n] || needed[node->outputs[i]->id];
    if (!live[n]) continue;
    for (uint32_t i = 0; i < node->n_inputs; ++i) graft_plan_need(node->inputs[i], needed);
    graft_plan_need(node->into, needed);
  }
}

graft_status graft_plan_drop_dead_steps(graft_plan *plan) {
  uint32_t n = plan->steps.n;
  bool *needed = calloc((size_t)plan->tensors.n + 1, sizeof *needed);
  bool *live = calloc((size_t)n + 1, sizeof *live);
  graft_node **nodes = calloc((size_t)n + 1, sizeof *nodes);
  if (needed != NULL && live != NULL && nodes != NULL) {
    for (uint32_t i = 0; i < n; ++i) nodes[i] = graft_plan_step_at(plan, i)->node;
    for (uint32_t i = 0; i < plan->n_outputs; ++i) graft_plan_need(plan->outputs[i].tensor, needed);
    graft_plan_mark_live(nodes, n, needed, live);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; ++i) {
      if (live[i]) plan->steps.items[n_kept++] = plan->steps.items[i];
    }
    plan->steps.n = n_kept;
  }
  graft_status status = needed == NULL || live == NULL || nodes == NULL ? graft_plan_no_memory(plan) : GRAFT_OK;
  free(needed);
  free(live);
  free(nodes);
  return status;
}
