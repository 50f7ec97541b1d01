// Moving steps apart and together before anything is matched.
#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/plan/fuse.h"

static void fill_node(const graft_node *node, uint32_t n_readers, graft_fusion_node *out_node) {
  graft_fusion_node told = {.struct_size = sizeof told};
  if (node != NULL) {
    told = (graft_fusion_node){.op = node->op,
                               .attrs = node->attrs,
                               .n_inputs = node->n_inputs,
                               .inputs = node->inputs,
                               .n_readers = n_readers};
  }
  graft_versioned_fill(out_node, &told, sizeof told);
}

bool graft_fusion_maker(graft_tensor *tensor, graft_fusion_node *out_node) {
  const graft_tensor *value = graft_fuse_resolve(tensor);
  fill_node(value->node, graft_plan_root(value)->n_uses, out_node);
  return value->node != NULL;
}

uint32_t graft_fusion_n_steps(const graft_fusion_editor *editor) {
  return editor->plan->steps.n;
}

void graft_fusion_step(const graft_fusion_editor *editor, uint32_t index, graft_fusion_node *out_node) {
  const bool exists = index < editor->plan->steps.n;
  const graft_node *node = exists ? graft_plan_step_at(editor->plan, index)->node : NULL;
  fill_node(node, exists ? node->outputs[0]->n_uses : 0, out_node);
}

static bool is_movable(const graft_node *node, graft_reason *why) {
  if ((node->op->traits & GRAFT_OP_PURE) && !(node->op->traits & GRAFT_OP_OPAQUE_EFFECT)) return true;
  return graft_refuse(why, "%.60s is not pure, so what it touches is unknown", node->label);
}

// The steps from |first| to |after|, and which of them move behind the others.
typedef struct move {
  graft_plan *plan;
  uint32_t first, n;
  bool *is_moving;
} move;

static graft_planned_step *step_at(const move *m, uint32_t index) {
  return graft_plan_step_at(m->plan, m->first + index);
}

static bool may_cross(const move *m, uint32_t index, graft_reason *why) {
  const graft_node *node = step_at(m, index)->node;
  for (uint32_t i = 0; i < index; ++i) {
    if (!m->is_moving[i]) continue;
    const graft_node *moved = step_at(m, i)->node;
    if (graft_plan_steps_conflict(step_at(m, i), step_at(m, index))) {
      return graft_refuse(why, "%.50s uses what %.50s makes or writes over, or the reverse", node->label, moved->label);
    }
  }
  return true;
}

// Whether step |index| works in place on what a moving step made: then it goes along.
static bool follows(const move *m, uint32_t index) {
  const graft_tensor *output = step_at(m, index)->node->outputs[0];
  if (output->view_of == NULL) return false;
  for (uint32_t i = 0; i < index; ++i) {
    if (m->is_moving[i] && output->view_of->node == step_at(m, i)->node) return true;
  }
  return false;
}

static bool plan_move(move *m, uint32_t n_asked, graft_reason *why) {
  for (uint32_t i = 0; i < m->n; ++i) {
    if (!is_movable(step_at(m, i)->node, why)) return false;
    m->is_moving[i] = i < n_asked || follows(m, i);
    if (!m->is_moving[i] && !may_cross(m, i, why)) return false;
  }
  return true;
}

static void carry_out(const move *m, void **room) {
  void **steps = m->plan->steps.items + m->first;
  uint32_t n_room = 0, n_kept = 0;
  for (uint32_t i = 0; i < m->n; ++i) {
    if (m->is_moving[i]) {
      room[n_room++] = steps[i];
    } else {
      steps[n_kept++] = steps[i];
    }
  }
  memcpy(steps + n_kept, room, n_room * sizeof *room);
}

bool graft_fusion_delay(graft_fusion_editor *editor, uint32_t first, uint32_t n, uint32_t after, graft_reason *why) {
  graft_plan *plan = editor->plan;
  if (n == 0 || first >= plan->steps.n || n > plan->steps.n - first || after >= plan->steps.n ||
      after < first + n - 1) {
    return graft_refuse(why, "there are no such steps");
  }
  move m = {.plan = plan, .first = first, .n = after - first + 1};
  void **room = calloc(m.n, sizeof *room);
  m.is_moving = calloc(m.n, sizeof *m.is_moving);
  bool is_done = room != NULL && m.is_moving != NULL;
  if (!is_done) graft_refuse(why, "there is no memory for it");
  is_done = is_done && plan_move(&m, n, why);
  if (is_done) carry_out(&m, room);
  free(m.is_moving);
  free(room);
  return is_done;
}
