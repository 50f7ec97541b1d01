// When a group of steps may be replaced by one: the clauses of docs/fusion.md, each a function.
#include <string.h>

#include "src/plan/fuse.h"

typedef struct group {
  const graft_fuse_pass *pass;
  const graft_pattern *pattern;
  const graft_pattern_match *match;
  const graft_tensor *result;  // the one value that stays
} group;

static const graft_tensor *owner_of(const graft_node *node) {
  return graft_plan_root(node->outputs[0]);
}

static bool is_view(const graft_node *node) {
  return (node->op->traits & GRAFT_OP_VIEW) != 0;
}

static bool is_member(const group *g, const graft_node *node) {
  for (uint32_t i = 0; i < g->pattern->graph->n_nodes; ++i) {
    if (g->match->nodes[i] == node) return true;
  }
  return false;
}

// The value was made by a step of the group, so that its storage goes with it.
static bool is_own(const group *g, const graft_tensor *tensor) {
  const graft_tensor *root = graft_plan_root(tensor);
  return root->node != NULL && is_member(g, root->node);
}

// Marked for computing: what is dead has no step, what belongs to another group has lost it.
static const graft_planned_step *step_of(const group *g, const graft_node *node) {
  const int32_t index = g->pass->step_of[node->outputs[0]->id];
  const graft_planned_step *step = index == GRAFT_PLAN_NONE ? NULL : g->pass->plan->steps.items[index];
  return step != NULL && step->node == node ? step : NULL;
}

static bool is_pure(const graft_op_def *op) {
  return (op->traits & GRAFT_OP_PURE) != 0 && !(op->traits & GRAFT_OP_OPAQUE_EFFECT);
}

static bool check_step(const group *g, const graft_node *node, graft_reason *why) {
  const graft_planned_step *step = step_of(g, node), *last = step_of(g, g->result->node);
  if (step == NULL || last == NULL) return graft_refuse(why, "%.60s is no step of its own", node->label);
  if (!is_pure(node->op)) return graft_refuse(why, "%.60s is not pure", node->label);
  if (step->info.device != last->info.device) return graft_refuse(why, "%.60s runs on another device", node->label);
  const char *forced = g->pass->plan->force_kernel;
  if (forced != NULL && step->kernel != NULL && strcmp(step->kernel->name, forced) == 0) {
    return graft_refuse(why, "the kernel of %.50s was asked for by name", node->label);
  }
  return true;
}

static bool check_view(const group *g, const graft_node *node, graft_reason *why) {
  return is_own(g, node->outputs[0]) || graft_refuse(why, "%.60s shows storage outside the group", node->label);
}

// The last of the group's steps before |step| that wrote what |owner| stores.
static const graft_node *last_writer(const group *g, const graft_tensor *owner, int32_t step) {
  const graft_node *writer = NULL;
  int32_t newest = GRAFT_PLAN_NONE;
  for (uint32_t i = 0; i < g->pattern->graph->n_nodes; ++i) {
    const graft_node *node = g->match->nodes[i];
    const int32_t at = g->pass->step_of[node->outputs[0]->id];
    if (is_view(node) || owner_of(node) != owner || at >= step || at <= newest) continue;
    newest = at;
    writer = node;
  }
  return writer;
}

// What |node| reads of the group's own storage is what the edge says, and not what was written over it since.
static bool check_versions(const group *g, const graft_node *node, graft_reason *why) {
  const int32_t step = g->pass->step_of[node->outputs[0]->id];
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    graft_tensor *input = node->inputs[i];
    if (input == NULL || !is_own(g, input)) continue;
    if (graft_fuse_maker(input) != last_writer(g, graft_plan_root(input), step)) {
      return graft_refuse(why, "%.60s reads what was written over %.40s since", node->label, input->name);
    }
  }
  return true;
}

// A copy to a destination that was given: it is written where it was written before, and nothing of the group reads it.
static bool check_destination(const group *g, const graft_node *node, graft_reason *why) {
  if (node != g->result->node) return graft_refuse(why, "%.60s writes over storage outside the group", node->label);
  for (uint32_t i = 0; i < g->pattern->n_inputs; ++i) {
    const graft_tensor *input = g->pattern->inputs[i];
    if (input == NULL || g->match->values[input->id] == NULL) continue;
    if (graft_plan_root(g->match->values[input->id]) == owner_of(node)) {
      return graft_refuse(why, "%.60s works in place on storage outside the group", node->label);
    }
  }
  return true;
}

// The result takes the place of an earlier member's: all of it, as it is laid out.
static bool check_write_back(const group *g, const graft_node *node, graft_reason *why) {
  const graft_tensor *owner = owner_of(node);
  if (node != g->result->node) return true;
  return (g->result->view_offset == 0 && graft_tensor_desc_same_layout(&g->result->desc, &owner->desc)) ||
         graft_refuse(why, "%.60s writes over a part of %.40s", node->label, owner->name);
}

static bool check_write(const group *g, const graft_node *node, graft_reason *why) {
  if (node->outputs[0]->view_of == NULL) return true;
  return is_own(g, node->outputs[0]) ? check_write_back(g, node, why) : check_destination(g, node, why);
}

// Mentions of the value that |value| stores: by inputs, and by those who write over it.
static uint32_t count_own_uses(const group *g, const graft_tensor *value) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->pattern->graph->n_nodes; ++i) {
    const graft_node *node = g->match->nodes[i];
    bool is_repeated = false;  // one node may stand in two places of a pattern
    for (uint32_t j = 0; j < i; ++j) is_repeated = is_repeated || g->match->nodes[j] == node;
    if (is_repeated || is_view(node)) continue;
    n += node->outputs[0]->view_of == value;
    for (uint32_t k = 0; k < node->n_inputs; ++k) {
      n += node->inputs[k] != NULL && graft_plan_root(node->inputs[k]) == value;
    }
  }
  return n;
}

// Whether everybody outside the group who mentions the storage of |owner| does so by the name of the result.
static bool is_known_as_result(const group *g, const graft_tensor *owner) {
  const graft_plan *plan = g->pass->plan;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_planned_step *step = plan->steps.items[s];
    if (step == NULL || is_member(g, step->node)) continue;
    for (uint32_t i = 0; i < step->node->n_inputs; ++i) {
      graft_tensor *input = step->node->inputs[i];
      if (input != NULL && graft_plan_root(input) == owner && graft_fuse_maker(input) != g->result->node) return false;
    }
    const bool writes = step->node->outputs[0]->view_of == owner;
    if (writes && (step->node->into == NULL || graft_fuse_maker(step->node->into) != g->result->node)) return false;
  }
  return true;
}

// |value| goes away with the group: nobody else may want it, neither directly nor through a view. Where the result is
// written back over it, the result goes on under its own name.
static bool check_value(const group *g, const graft_tensor *value, graft_reason *why) {
  const bool is_written_back = g->result->view_of == value;
  if (g->pass->is_output[value->id] && !is_written_back) {
    return graft_refuse(why, "%.60s is an output of the graph", value->name);
  }
  if (is_written_back ? !is_known_as_result(g, value) : value->n_uses != count_own_uses(g, value)) {
    return graft_refuse(why, "%.60s is read outside the group", value->name);
  }
  return true;
}

static bool check_values(const group *g, const graft_node *node, graft_reason *why) {
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    const graft_tensor *output = node->outputs[i];
    if (output != g->result && output->view_of == NULL && !check_value(g, output, why)) return false;
  }
  return true;
}

// The group will read |value| where its last step is: nobody may write over it between the first step and that.
static bool check_stays(const group *g, const graft_tensor *value, graft_reason *why) {
  const graft_plan *plan = g->pass->plan;
  const int32_t last = g->pass->step_of[g->result->id];
  int32_t first = last;
  for (uint32_t i = 0; i < g->pattern->graph->n_nodes; ++i) {
    const int32_t step = g->pass->step_of[g->match->nodes[i]->outputs[0]->id];
    if (step != GRAFT_PLAN_NONE && step < first) first = step;
  }
  for (int32_t s = first; s < last; ++s) {
    const graft_planned_step *step = plan->steps.items[s];
    if (step == NULL || !graft_plan_writes_over(step)) continue;
    if (graft_plan_root(step->node->outputs[0]) != graft_plan_root(value)) continue;
    return graft_refuse(why, "%.50s writes over the input %.50s meanwhile", step->node->label, value->name);
  }
  return true;
}

static bool check_inputs(const group *g, graft_reason *why) {
  for (uint32_t i = 0; i < g->pattern->n_inputs; ++i) {
    const graft_tensor *input = g->pattern->inputs[i];
    if (input == NULL || g->match->values[input->id] == NULL) continue;
    const graft_tensor *value = g->match->values[input->id];
    if (is_own(g, value)) return graft_refuse(why, "the group computes its own input %.60s", value->name);
    if (!check_stays(g, value, why)) return false;
  }
  return true;
}

bool graft_fuse_is_legal(const graft_fuse_pass *pass, const graft_pattern_match *match, graft_reason *why) {
  const graft_pattern *pattern = match->pattern;
  const group g = {pass, pattern, match, match->values[pattern->result->id]};
  for (uint32_t i = 0; i < pattern->graph->n_nodes; ++i) {
    const graft_node *node = match->nodes[i];
    if (node == NULL) return graft_refuse(why, "the pattern has a node that its result does not need");
    if (is_view(node)) {
      if (!check_view(&g, node, why)) return false;
    } else if (!check_step(&g, node, why) || !check_write(&g, node, why) || !check_values(&g, node, why)) {
      return false;
    }
  }
  for (uint32_t i = 0; i < pattern->graph->n_nodes; ++i) {
    if (!is_view(match->nodes[i]) && !check_versions(&g, match->nodes[i], why)) return false;
  }
  return check_inputs(&g, why);
}
