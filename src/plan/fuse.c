// The pass that replaces groups of steps by one: kernels are chosen, nothing has memory yet.
#include "src/plan/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "src/graph/infer.h"

// What a rule proposes: a group that ends in the value that step |step| makes.
typedef struct candidate {
  graft_fusion_rule *rule;
  uint32_t step;
  uint32_t n_inputs;
  graft_tensor *inputs[GRAFT_MAX_INPUTS];  // NULL: omitted
  const graft_tensor_desc *descs[GRAFT_MAX_INPUTS];
  bool is_written_elsewhere;  // the result goes to a destination that was given
  graft_planned_step *fused;  // once it is known to be worth it
} candidate;

static graft_tensor *result_of(const graft_fuse_pass *pass, uint32_t step) {
  return graft_plan_step_at(pass->plan, step)->node->outputs[0];
}

static void count_reads(const graft_node *node, uint32_t by) {
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    graft_tensor *input = node->inputs[i];
    if (input != NULL) (input->view_of != NULL ? input->view_of : input)->n_uses += by;
  }
  // Whoever writes over a value uses it: it cannot go away.
  if (node->outputs[0]->view_of != NULL) node->outputs[0]->view_of->n_uses += by;
}

static bool begin_pass(graft_fuse_pass *pass) {
  graft_plan *plan = pass->plan;
  const size_t n = (size_t)plan->tensors.n + 1;
  pass->step_of = calloc(n, sizeof *pass->step_of);
  pass->is_output = calloc(n, sizeof *pass->is_output);
  if (pass->step_of == NULL || pass->is_output == NULL) return false;
  for (uint32_t i = 0; i < plan->tensors.n; ++i) {
    graft_tensor *tensor = plan->tensors.items[i];
    tensor->n_uses = 0;
    pass->step_of[i] = GRAFT_PLAN_NONE;
  }
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    const graft_node *node = graft_plan_step_at(plan, s)->node;
    count_reads(node, 1);
    for (uint32_t i = 0; i < node->n_outputs; ++i) pass->step_of[node->outputs[i]->id] = (int32_t)s;
  }
  for (uint32_t i = 0; i < plan->n_outputs; ++i) pass->is_output[graft_plan_root(plan->outputs[i].tensor)->id] = true;
  return true;
}

// The fused operator's own inference must describe the value that the group makes.
static bool check_inference(const candidate *c, const graft_fuse_pass *pass, graft_reason *why) {
  graft_inference inference = {.op = c->rule->op, .attrs = pass->attrs, .n_inputs = c->n_inputs};
  graft_error error = {0};
  if (c->n_inputs < c->rule->op->min_inputs || c->n_inputs > c->rule->op->max_inputs) {
    return graft_refuse(why, "the fused operator does not take %u inputs", (unsigned)c->n_inputs);
  }
  for (uint32_t i = 0; i < c->n_inputs; ++i) {
    inference.inputs[i] = c->descs[i];
    if (c->descs[i] == NULL && !(c->rule->op->optional_inputs >> i & 1)) {
      return graft_refuse(why, "input %u of the fused operator cannot be left out", (unsigned)i);
    }
  }
  if (graft_infer_checked(&inference, &error) != GRAFT_OK) return graft_refuse(why, "%.110s", error.message);
  return graft_tensor_desc_same_layout(&inference.outputs[0], &result_of(pass, c->step)->desc) ||
         graft_refuse(why, "the fused operator's result is not what the group makes");
}

// Makes the step that stands for the group. GRAFT_OK with c->fused NULL: no kernel wants it.
static graft_status make_fused(graft_fuse_pass *pass, candidate *c, graft_reason *why) {
  graft_plan *plan = pass->plan;
  const graft_node *last = graft_plan_step_at(plan, c->step)->node;
  const graft_op_def *op = c->rule->op;
  graft_node *node = graft_arena_alloc(&plan->arena, sizeof *node);
  if (node == NULL) return graft_plan_no_memory(plan);
  *node = (graft_node){.op = op,
                       .id = last->id,
                       .n_inputs = c->n_inputs,
                       .n_outputs = 1,
                       .into = c->is_written_elsewhere ? last->into : NULL,
                       .device = last->device,
                       .scope = last->scope,
                       .label = last->label};
  node->attrs = graft_arena_alloc(&plan->arena, op->attrs_bytes);
  node->inputs = graft_arena_alloc_array(&plan->arena, c->n_inputs, sizeof *node->inputs);
  node->outputs = graft_arena_alloc(&plan->arena, sizeof *node->outputs);
  if (node->attrs == NULL || node->inputs == NULL || node->outputs == NULL) return graft_plan_no_memory(plan);
  if (op->attrs_bytes > 0) memcpy(node->attrs, pass->attrs, op->attrs_bytes);
  if (c->n_inputs > 0) memcpy(node->inputs, c->inputs, c->n_inputs * sizeof *node->inputs);
  node->outputs[0] = result_of(pass, c->step);
  graft_planned_step *step = graft_plan_make_step(plan, node);
  if (step == NULL) return graft_plan_no_memory(plan);
  GRAFT_TRY(graft_plan_select_fused(plan, step, why));
  if (step->kernel == NULL) return GRAFT_OK;
  if (c->is_written_elsewhere && !graft_plan_can_write(plan, step, node->outputs[0])) {
    graft_refuse(why, "kernel %.60s cannot write to the given destination", step->kernel->name);
    return GRAFT_OK;
  }
  step->fusion = c->rule->def;
  c->fused = step;
  return GRAFT_OK;
}

// The result was written back over |owner|, which goes away: it has storage of its own now, under every name.
static void take_over(graft_fuse_pass *pass, graft_tensor *result, graft_tensor *owner) {
  graft_plan *plan = pass->plan;
  result->view_of = NULL;
  result->view_offset = 0;
  result->device = owner->device;
  result->n_uses = owner->n_uses;
  pass->is_output[result->id] = pass->is_output[owner->id];
  for (uint32_t i = 0; i < plan->tensors.n; ++i) {
    graft_tensor *tensor = plan->tensors.items[i];
    if (tensor->view_of == owner) tensor->view_of = result;
  }
  for (uint32_t i = 0; i < plan->n_outputs; ++i) {
    if (plan->outputs[i].tensor == owner) plan->outputs[i].tensor = result;
  }
}

// The only place that changes the plan.
static void replace(graft_fuse_pass *pass, const candidate *c, const graft_pattern_match *match) {
  graft_plan *plan = pass->plan;
  graft_tensor *result = result_of(pass, c->step);
  for (uint32_t i = 0; i < match->pattern->graph->n_nodes; ++i) {
    const graft_node *node = match->nodes[i];
    const int32_t step = pass->step_of[node->outputs[0]->id];
    if (step == GRAFT_PLAN_NONE || plan->steps.items[step] == NULL) continue;  // a view, or met before
    count_reads(node, (uint32_t)-1);
    plan->steps.items[step] = NULL;
    ++c->fused->n_fused;
  }
  plan->steps.items[c->step] = c->fused;
  if (result->view_of != NULL && !c->is_written_elsewhere) take_over(pass, result, result->view_of);
  result->node = c->fused->node;
  result->output_index = 0;
  count_reads(c->fused->node, 1);
}

static bool is_written_elsewhere(const graft_pattern_match *match, const graft_tensor *result) {
  if (result->view_of == NULL) return false;
  for (uint32_t i = 0; i < match->pattern->graph->n_nodes; ++i) {
    if (match->nodes[i] == result->view_of->node) return false;
  }
  return true;
}

static graft_status consider_exact(graft_fuse_pass *pass, candidate *c, const graft_pattern *pattern) {
  graft_pattern_match match = {.pattern = pattern, .is_exact = true, .given = c->inputs};
  const graft_node *last = graft_plan_step_at(pass->plan, c->step)->node;
  graft_reason why = {0};
  const bool is_found = graft_pattern_find(&match, result_of(pass, c->step));
  if (!is_found)
    graft_refuse(&why, "%s", match.why.text[0] != '\0' ? match.why.text : "the nodes are joined otherwise");
  if (is_found && graft_fuse_is_legal(pass, &match, &why) && check_inference(c, pass, &why)) {
    c->is_written_elsewhere = is_written_elsewhere(&match, result_of(pass, c->step));
    GRAFT_TRY(make_fused(pass, c, &why));
  }
  if (c->fused == NULL) return graft_fuse_note(pass, c->rule, last, pattern->n_steps, why.text);
  replace(pass, c, &match);
  return graft_fuse_note(pass, c->rule, last, c->fused->n_fused, NULL);
}

// Builds what the proposal claims and compares it with what is there.
static graft_status consider(graft_fuse_pass *pass, candidate *c) {
  graft_plan *plan = pass->plan;
  graft_reason why = {0};
  graft_pattern pattern;
  for (uint32_t i = 0; i < c->n_inputs; ++i) c->descs[i] = c->inputs[i] != NULL ? &c->inputs[i]->desc : NULL;
  graft_status status = graft_pattern_build(plan, c->rule, pass->attrs, c->descs, c->n_inputs, &pattern, &why);
  if (status == GRAFT_E_INVALID) {
    return graft_fuse_note(pass, c->rule, graft_plan_step_at(plan, c->step)->node, 0, why.text);
  }
  GRAFT_TRY(status);
  status = consider_exact(pass, c, &pattern);
  graft_pattern_release(&pattern);
  return status;
}

static bool capture(graft_fuse_pass *pass, candidate *c, const graft_pattern_match *match, graft_reason *why) {
  const graft_pattern *pattern = match->pattern;
  if (c->rule->op->attrs_bytes > 0) memcpy(pass->attrs, pattern->attrs, c->rule->op->attrs_bytes);
  c->n_inputs = pattern->n_inputs;
  for (uint32_t i = 0; i < pattern->n_inputs; ++i) {
    const graft_tensor *input = pattern->inputs[i];
    c->inputs[i] = input != NULL ? match->values[input->id] : NULL;
    c->descs[i] = c->inputs[i] != NULL ? &c->inputs[i]->desc : NULL;
    if (input != NULL && c->inputs[i] == NULL) return graft_refuse(why, "the pattern does not use all its inputs");
  }
  if (c->rule->def->capture == NULL) return true;
  const void *attrs[GRAFT_FUSION_MAX_NODES];
  for (uint32_t i = 0; i < pattern->graph->n_nodes; ++i) {
    if (match->nodes[i] == NULL) return graft_refuse(why, "the pattern has a node that its result does not need");
    attrs[i] = match->nodes[i]->attrs;
  }
  const graft_fusion_match view = {.struct_size = sizeof view,
                                   .form = (uint32_t)(pattern - c->rule->patterns),
                                   .n_inputs = c->n_inputs,
                                   .inputs = c->descs,
                                   .output = &result_of(pass, c->step)->desc,
                                   .n_nodes = pattern->graph->n_nodes,
                                   .node_attrs = attrs};
  return c->rule->def->capture(&view, pass->attrs, why);
}

static graft_status try_pattern(graft_fuse_pass *pass, const graft_rule_attempt *entry, uint32_t step,
                                bool *out_fused) {
  graft_pattern_match match = {.pattern = entry->pattern};
  if (!graft_pattern_find(&match, result_of(pass, step))) return GRAFT_OK;
  candidate c = {.rule = entry->rule, .step = step};
  graft_reason why = {0};
  if (!capture(pass, &c, &match, &why)) {
    return graft_fuse_note(pass, c.rule, graft_plan_step_at(pass->plan, step)->node, entry->pattern->n_steps,
                           why.text[0] != '\0' ? why.text : "the rule refuses it");
  }
  GRAFT_TRY(consider(pass, &c));
  *out_fused = c.fused != NULL;
  return GRAFT_OK;
}

static graft_status try_proposal(graft_fuse_pass *pass, graft_fusion_rule *rule, uint32_t step, bool *out_fused) {
  graft_fusion_proposal proposal = {.struct_size = sizeof proposal, .attrs = pass->attrs};
  graft_reason why = {0};
  graft_op_default_attrs(rule->op, pass->attrs);
  if (!rule->def->propose(result_of(pass, step), &proposal, &why)) {
    if (why.text[0] == '\0') return GRAFT_OK;
    return graft_fuse_note(pass, rule, graft_plan_step_at(pass->plan, step)->node, 0, why.text);
  }
  candidate c = {.rule = rule, .step = step, .n_inputs = proposal.n_inputs};
  if (proposal.n_inputs > GRAFT_MAX_INPUTS) return GRAFT_OK;
  memcpy(c.inputs, proposal.inputs, sizeof c.inputs);
  GRAFT_TRY(consider(pass, &c));
  *out_fused = c.fused != NULL;
  return GRAFT_OK;
}

static graft_status fuse_step(graft_fuse_pass *pass, uint32_t step, bool is_native) {
  const graft_op_def *op = graft_plan_step_at(pass->plan, step)->node->op;
  bool is_fused = false;
  for (uint32_t i = 0; i < pass->n_attempts && !is_fused; ++i) {
    const graft_rule_attempt *attempt = &pass->attempts[i];
    if (attempt->rule->is_native != is_native) continue;
    if (attempt->pattern == NULL) {
      GRAFT_TRY(try_proposal(pass, attempt->rule, step, &is_fused));
    } else if (attempt->pattern->result->node->op == op) {
      GRAFT_TRY(try_pattern(pass, attempt, step, &is_fused));
    }
  }
  return GRAFT_OK;
}

// From the end, so that the outermost group is met first.
static graft_status fuse_steps(graft_fuse_pass *pass, bool is_native) {
  for (uint32_t s = pass->plan->steps.n; s-- > 0;) {
    if (pass->plan->steps.items[s] != NULL) GRAFT_TRY(fuse_step(pass, s, is_native));
  }
  return GRAFT_OK;
}

static graft_status optimise(graft_fuse_pass *pass) {
  graft_fusion_editor editor = {pass->plan};
  for (uint32_t i = 0; i < pass->n_rules; ++i) {
    const graft_fusion_rule *rule = &pass->rules[i];
    if (!rule->is_usable || rule->def->optimise == NULL) continue;
    graft_status status = rule->def->optimise(&editor, pass->plan->error);
    if (status == GRAFT_OK) continue;
    pass->plan->error->status = status;
    graft_error_note(pass->plan->error, "in the fusion rule %s", rule->def->name);
    return status;
  }
  return GRAFT_OK;
}

static void close_gaps(graft_plan *plan) {
  uint32_t n = 0;
  for (uint32_t s = 0; s < plan->steps.n; ++s) {
    if (plan->steps.items[s] != NULL) plan->steps.items[n++] = plan->steps.items[s];
  }
  plan->steps.n = n;
}

graft_status graft_plan_fuse(graft_plan *plan) {
  graft_fuse_pass pass = {.plan = plan};
  graft_status status = graft_fuse_load_rules(&pass, plan->fusion);
  if (status == GRAFT_OK) status = optimise(&pass);
  if (status == GRAFT_OK && !begin_pass(&pass)) status = graft_plan_no_memory(plan);
  // What an application added goes first: the backend's own rules never take nodes that it wants.
  if (status == GRAFT_OK) status = fuse_steps(&pass, false);
  if (status == GRAFT_OK) status = fuse_steps(&pass, true);
  close_gaps(plan);
  graft_fuse_release_rules(&pass);
  free(pass.step_of);
  free(pass.is_output);
  return status;
}
