// Nodes become steps. A view becomes an address within the value that it views; so does the output of a node that is
// replaced by its decomposition, which then takes no step of its own.
#include "src/graph/effects.h"
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

graft_status graft_plan_check_result(graft_plan *plan, const graft_node *node, uint32_t index,
                                     const graft_tensor *result) {
  if (result == NULL) return fail_expansion(plan, node, "left out an output");
  if (result == graft_graph_none() || result->graph != plan->scratch) {
    return fail_expansion(plan, node, "gave a tensor that is not of its graph");
  }
  const graft_tensor *output = node->outputs[index];
  bool is_written = index == 0 && node->into != NULL;
  if (is_written && result->desc.dtype == output->desc.dtype &&
      graft_tensor_desc_same_shape(&output->desc, &result->desc)) {
    return GRAFT_OK;
  }
  if (!graft_tensor_desc_same_layout(&output->desc, &result->desc)) {
    char wanted[96], got[96];
    return GRAFT_FAIL(plan->error, GRAFT_E_INVALID, "the decomposition of %s (%s) gives %s where inference says %s",
                      node->op->name, node->label, graft_tensor_desc_format(&result->desc, got, sizeof got),
                      graft_tensor_desc_format(&output->desc, wanted, sizeof wanted));
  }
  return GRAFT_OK;
}

graft_status graft_plan_adopt_tensors(graft_plan *plan, uint32_t first) {
  for (uint32_t i = first; i < plan->scratch->n_tensors; ++i) {
    GRAFT_TRY(graft_plan_add_tensor(plan, plan->scratch->tensors[i]));
  }
  return GRAFT_OK;
}

graft_status graft_plan_decompose(graft_plan *plan, const graft_node *node, graft_tensor **out_results) {
  graft_graph *scratch = plan->scratch;
  graft_tensor *inputs[GRAFT_MAX_INPUTS];
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    inputs[i] = node->inputs[i] != NULL ? node->inputs[i] : graft_graph_none();
  }
  uint32_t first = scratch->n_nodes;
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
  for (uint32_t i = first; i < scratch->n_nodes; ++i) scratch->nodes[i]->device = node->device;
  return GRAFT_OK;
}

static graft_status expand(graft_plan *plan, const graft_node *node, uint32_t depth) {
  if (depth == MAX_DEPTH) return fail_expansion(plan, node, "leads back to itself, or is nested too deeply");
  graft_tensor *results[GRAFT_MAX_OUTPUTS] = {0};
  uint32_t first = plan->scratch->n_nodes, first_tensor = plan->scratch->n_tensors;
  GRAFT_TRY(graft_plan_decompose(plan, node, results));
  GRAFT_TRY(graft_plan_adopt_tensors(plan, first_tensor));
  uint32_t end = plan->scratch->n_nodes;
  for (uint32_t i = first; i < end; ++i) GRAFT_TRY(emit(plan, plan->scratch->nodes[i], depth + 1));
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    GRAFT_TRY(graft_plan_check_result(plan, node, i, results[i]));
    GRAFT_TRY(show(plan, node->outputs[i], results[i], 0));
  }
  return GRAFT_OK;
}

graft_planned_step *graft_plan_make_step(graft_plan *plan, graft_node *node) {
  graft_planned_step *step = graft_arena_alloc(&plan->arena, sizeof *step);
  const graft_tensor_desc **descs =
      graft_arena_alloc_array(&plan->arena, (size_t)node->n_inputs + node->n_outputs, sizeof *descs);
  if (step == NULL || descs == NULL) return NULL;
  *step = (graft_planned_step){.node = node, .in_place_input = GRAFT_PLAN_NONE, .workspace = GRAFT_PLAN_NONE};
  step->info = (graft_node_info){.struct_size = sizeof step->info,
                                 .op = node->op,
                                 .attrs = node->attrs,
                                 .n_inputs = node->n_inputs,
                                 .n_outputs = node->n_outputs,
                                 .inputs = descs,
                                 .outputs = descs + node->n_inputs,
                                 .device = plan->devices[node->device].device};
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] == NULL) continue;
    descs[i] = &node->inputs[i]->desc;
    if (graft_plan_root(node->inputs[i])->kind == GRAFT_TENSOR_CONSTANT) step->info.constant_inputs |= 1u << i;
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) descs[node->n_inputs + i] = &node->outputs[i]->desc;
  return step;
}

static graft_status emit_transfer(graft_plan *plan, graft_tensor *source, graft_tensor *target) {
  graft_planned_step *step = graft_plan_make_transfer(plan, source, target);
  return step != NULL ? graft_plan_append(plan, &plan->steps, step) : graft_plan_no_memory(plan);
}

// Whether every input that shows bytes of |written| may be read while they are written.
static bool reads_in_place(graft_planned_step *step, const graft_tensor *written) {
  const graft_extent extent = graft_tensor_extent(written);
  for (uint32_t i = 0; i < step->info.n_inputs; ++i) {
    const graft_tensor *input = step->node->inputs[i];
    if (input == NULL) continue;
    const graft_extent other = graft_tensor_extent(input);
    if (!graft_extents_overlap(&extent, &other)) continue;
    bool is_same = extent.begin == other.begin && graft_tensor_desc_same_layout(&input->desc, &written->desc);
    if (!is_same || !(step->kernel->in_place_inputs >> i & 1)) return false;
    step->in_place_input = (int32_t)i;
  }
  return true;
}

bool graft_plan_can_write(const graft_plan *plan, graft_planned_step *step, const graft_tensor *written) {
  const graft_tensor *root = graft_plan_root(written);
  if (!graft_plan_can_access(plan, step->node->device, root->device)) return false;
  bool is_plain = graft_tensor_desc_is_contiguous(&written->desc) && written->view_offset % GRAFT_DEVICE_ALIGNMENT == 0;
  if (!is_plain && !(step->kernel->traits & GRAFT_KERNEL_ANY_OUTPUT)) return false;
  return reads_in_place(step, written);
}

// A node that writes over storage of others computes a value of its own, which is then copied there, unless its kernel
// can do without.
static graft_status emit_write(graft_plan *plan, graft_node *node, uint32_t depth) {
  graft_tensor *written = node->outputs[0];
  GRAFT_TRY(show(plan, written, node->into, 0));
  graft_tensor *apart = graft_plan_make_tensor(plan, written, node->device);
  if (apart == NULL) return plan->error->status;
  apart->node = node;
  node->outputs[0] = apart;
  graft_planned_step *step = graft_plan_make_step(plan, node);
  if (step == NULL) return graft_plan_no_memory(plan);
  bool is_expansion;
  GRAFT_TRY(graft_plan_select(plan, step, &is_expansion));
  if (!is_expansion && graft_plan_can_write(plan, step, written)) {
    node->outputs[0] = written;
    apart->desc = written->desc;  // which the step's description points at
    return graft_plan_append(plan, &plan->steps, step);
  }
  node->into = NULL;
  GRAFT_TRY(is_expansion ? expand(plan, node, depth) : graft_plan_append(plan, &plan->steps, step));
  return emit_transfer(plan, apart, written);
}

static graft_status emit(graft_plan *plan, graft_node *node, uint32_t depth) {
  if (node->op->traits & GRAFT_OP_VIEW) {
    return show(plan, node->outputs[0], node->inputs[0], node->outputs[0]->view_offset);
  }
  if (node->op == &graft_plan_transfer_op) {
    GRAFT_TRY(show(plan, node->outputs[0], node->into, 0));
    return emit_transfer(plan, node->inputs[0], node->outputs[0]);
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) node->outputs[i]->device = node->device;
  if (node->into != NULL) return emit_write(plan, node, depth);
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
