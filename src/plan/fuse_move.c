// Moving steps apart and together before anything is matched.
#include <string.h>

#include "src/plan/fuse.h"

bool graft_fusion_maker(graft_tensor *tensor, graft_fusion_node *out_node) {
  const graft_tensor *value = graft_fuse_resolve(tensor);
  const graft_node *node = value->node;
  *out_node = (graft_fusion_node){0};
  if (node == NULL) return false;
  *out_node = (graft_fusion_node){node->op, node->attrs, node->n_inputs, node->inputs, graft_plan_root(value)->n_uses};
  return true;
}

uint32_t graft_fusion_n_steps(const graft_fusion_editor *editor) {
  return editor->plan->steps.n;
}

void graft_fusion_step(const graft_fusion_editor *editor, uint32_t index, graft_fusion_node *out_node) {
  *out_node = (graft_fusion_node){0};
  if (index >= editor->plan->steps.n) return;
  const graft_node *node = graft_plan_step_at(editor->plan, index)->node;
  *out_node = (graft_fusion_node){node->op, node->attrs, node->n_inputs, node->inputs, node->outputs[0]->n_uses};
}

static bool reads(const graft_node *reader, const graft_node *maker) {
  for (uint32_t i = 0; i < reader->n_inputs; ++i) {
    if (reader->inputs[i] != NULL && graft_plan_root(reader->inputs[i])->node == maker) return true;
  }
  return false;
}

static bool is_movable(const graft_node *node, graft_reason *why) {
  if ((node->op->traits & GRAFT_OP_PURE) && !(node->op->traits & GRAFT_OP_OPAQUE_EFFECT)) return true;
  return graft_refuse(why, "%.60s is not pure, so what it touches is unknown", node->label);
}

static bool may_cross(const graft_plan *plan, uint32_t first, uint32_t n, uint32_t crossed, graft_reason *why) {
  const graft_node *node = graft_plan_step_at(plan, crossed)->node;
  if (!is_movable(node, why)) return false;
  for (uint32_t i = first; i < first + n; ++i) {
    const graft_node *moved = graft_plan_step_at(plan, i)->node;
    if (reads(node, moved)) return graft_refuse(why, "%.50s reads what %.50s makes", node->label, moved->label);
    if (graft_plan_steps_conflict(graft_plan_step_at(plan, i), graft_plan_step_at(plan, crossed))) {
      return graft_refuse(why, "%.50s and %.50s write over what the other uses", node->label, moved->label);
    }
  }
  return true;
}

bool graft_fusion_delay(graft_fusion_editor *editor, uint32_t first, uint32_t n, uint32_t after, graft_reason *why) {
  graft_plan *plan = editor->plan;
  if (n == 0 || first >= plan->steps.n || n > plan->steps.n - first || after >= plan->steps.n ||
      after < first + n - 1) {
    return graft_refuse(why, "there are no such steps");
  }
  for (uint32_t i = first; i < first + n; ++i) {
    if (!is_movable(graft_plan_step_at(plan, i)->node, why)) return false;
  }
  for (uint32_t i = first + n; i <= after; ++i) {
    if (!may_cross(plan, first, n, i, why)) return false;
  }
  void *moved[GRAFT_FUSION_MAX_NODES];
  for (uint32_t done = 0; done < n;) {
    // From the end of the range on, a part at a time, so that no memory is needed.
    const uint32_t part = n - done < GRAFT_FUSION_MAX_NODES ? n - done : GRAFT_FUSION_MAX_NODES;
    void **from = plan->steps.items + first + n - done - part, **end = plan->steps.items + after + 1 - done;
    memcpy(moved, from, part * sizeof *moved);
    memmove(from, from + part, (size_t)(end - (from + part)) * sizeof *from);
    memcpy(end - part, moved, part * sizeof *moved);
    done += part;
  }
  return true;
}
