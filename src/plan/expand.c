// Nodes become steps. A view becomes an address within the value that it views; so does the output of a node that is
// replaced by its decomposition, which then takes no step of its own.
#include <stdlib.h>

#include "src/plan/plan_internal.h"

enum { MAX_DEPTH = 16 };  // of decompositions within decompositions

static graft_status emit(graft_plan *plan, graft_node *node, uint32_t depth);

// |alias| shows the bytes of |target| from now on.
static graft_status show(graft_plan *plan, graft_tensor *alias, graft_tensor *target, int64_t offset) {
  if (target->view_of != NULL && __builtin_add_overflow(offset, target->view_offset, &offset)) {
    return GRAFT_FAIL(plan->error, GRAFT_E_SHAPE, "the offset of %s overflows", alias->name);
  }
  alias->view_of = target->view_of != NULL ? target->view_of : target;
  alias->view_offset = offset;
  return GRAFT_OK;
}

static graft_status fail_expansion(graft_plan *plan, const graft_node *node, const char *what) {
  return GRAFT_FAIL(plan->error, GRAFT_E_INVALID, "the decomposition of %s (%s) %s", node->op->name, node->label, what);
}

static graft_status take_result(graft_plan *plan, const graft_node *node, uint32_t index, graft_tensor *result) {
  if (result == NULL) return fail_expansion(plan, node, "left out an output");
  if (result == graft_graph_none() || result->graph != plan->scratch) {
    return fail_expansion(plan, node, "gave a tensor that is not of its graph");
  }
  graft_tensor *output = node->outputs[index];
  if (!graft_tensor_desc_same_layout(&output->desc, &result->desc)) {
    char wanted[96], got[96];
    return GRAFT_FAIL(plan->error, GRAFT_E_INVALID, "the decomposition of %s (%s) gives %s where inference says %s",
                      node->op->name, node->label, graft_tensor_desc_format(&result->desc, got, sizeof got),
                      graft_tensor_desc_format(&output->desc, wanted, sizeof wanted));
  }
  return show(plan, output, result, 0);
}

static graft_status decompose(graft_plan *plan, const graft_node *node, graft_tensor **out_results) {
  graft_graph *scratch = plan->scratch;
  graft_tensor *inputs[GRAFT_MAX_INPUTS];
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    inputs[i] = node->inputs[i] != NULL ? node->inputs[i] : graft_graph_none();
  }
  uint32_t n_tensors = scratch->n_tensors;
  graft_graph_scope_push(scratch, "%s", node->label);
  node->op->decompose(scratch, node->attrs, inputs, node->n_inputs, out_results);
  graft_graph_scope_pop(scratch);
  graft_status status = graft_graph_status(scratch);
  if (status != GRAFT_OK) {
    *plan->error = *graft_graph_error(scratch);
    graft_error_note(plan->error, "in the decomposition of %s (%s)", node->op->name, node->label);
    return status;
  }
  if (scratch->n_inputs > 0) return fail_expansion(plan, node, "makes an input");
  for (uint32_t i = n_tensors; i < scratch->n_tensors; ++i) {
    GRAFT_TRY(graft_plan_add_tensor(plan, scratch->tensors[i]));
  }
  return GRAFT_OK;
}

static graft_status expand(graft_plan *plan, const graft_node *node, uint32_t depth) {
  if (depth == MAX_DEPTH) return fail_expansion(plan, node, "leads back to itself, or is nested too deeply");
  graft_tensor *results[GRAFT_MAX_OUTPUTS] = {0};
  uint32_t first = plan->scratch->n_nodes;
  GRAFT_TRY(decompose(plan, node, results));
  uint32_t end = plan->scratch->n_nodes;
  for (uint32_t i = first; i < end; ++i) GRAFT_TRY(emit(plan, plan->scratch->nodes[i], depth + 1));
  for (uint32_t i = 0; i < node->n_outputs; ++i) GRAFT_TRY(take_result(plan, node, i, results[i]));
  return GRAFT_OK;
}

graft_planned_step *graft_plan_make_step(graft_plan *plan, graft_node *node) {
  graft_planned_step *step = graft_arena_alloc(&plan->arena, sizeof *step);
  const graft_tensor_desc **descs =
      graft_arena_alloc_array(&plan->arena, (size_t)node->n_inputs + node->n_outputs, sizeof *descs);
  if (step == NULL || descs == NULL) return NULL;
  *step = (graft_planned_step){.node = node, .in_place_input = GRAFT_PLAN_NONE, .workspace = GRAFT_PLAN_NONE};
  step->info = (graft_node_info){.op = node->op,
                                 .attrs = node->attrs,
                                 .n_inputs = node->n_inputs,
                                 .n_outputs = node->n_outputs,
                                 .inputs = descs,
                                 .outputs = descs + node->n_inputs,
                                 .device = plan->device};
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] == NULL) continue;
    descs[i] = &node->inputs[i]->desc;
    if (graft_plan_root(node->inputs[i])->kind == GRAFT_TENSOR_CONSTANT) step->info.constant_inputs |= 1u << i;
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) descs[node->n_inputs + i] = &node->outputs[i]->desc;
  return step;
}

static graft_status emit(graft_plan *plan, graft_node *node, uint32_t depth) {
  if (node->op->traits & GRAFT_OP_VIEW) {
    return show(plan, node->outputs[0], node->inputs[0], node->outputs[0]->view_offset);
  }
  graft_planned_step *step = graft_plan_make_step(plan, node);
  if (step == NULL) return graft_plan_no_memory(plan);
  bool is_expansion;
  GRAFT_TRY(graft_plan_select(plan, step, &is_expansion));
  return is_expansion ? expand(plan, node, depth) : graft_plan_append(plan, &plan->steps, step);
}

graft_status graft_plan_expand(graft_plan *plan) {
  for (uint32_t i = 0; i < plan->nodes.n; ++i) GRAFT_TRY(emit(plan, plan->nodes.items[i], 0));
  plan->nodes.n = 0;
  return GRAFT_OK;
}
