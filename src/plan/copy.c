// First pass: the plan's own copy of what the caller's graph needs. The caller's graph is only read, and may be gone
// while the plan lives.
#include <stdlib.h>
#include <string.h>

#include "src/plan/plan_internal.h"

typedef struct copy_pass {
  graft_plan *plan;
  const graft_graph *graph;
  graft_tensor **copies;  // by tensor id in the caller's graph
  bool *is_needed;        // the same
  bool *is_live;          // by node
  const graft_pin *pins;
  uint32_t n_pins;
} copy_pass;

// 1 + the device that the caller pins |tensor| to, or 0.
static uint32_t find_pin(const copy_pass *pass, const graft_tensor *tensor) {
  for (uint32_t i = 0; i < pass->n_pins; ++i) {
    if (pass->pins[i].tensor != tensor) continue;
    for (uint32_t d = 0; d < pass->plan->n_devices; ++d) {
      if (pass->plan->devices[d].device == pass->pins[i].device) return d + 1;
    }
  }
  return 0;
}

static graft_status copy_tensor(copy_pass *pass, const graft_tensor *source) {
  if (pass->copies[source->id] != NULL) return GRAFT_OK;
  graft_plan *plan = pass->plan;
  graft_tensor *copy = graft_arena_alloc(&plan->arena, sizeof *copy);
  if (copy == NULL) return graft_plan_no_memory(plan);
  *copy = *source;
  copy->last_write = NULL;
  copy->pin = find_pin(pass, source);
  copy->graph = plan->scratch;
  copy->name = graft_arena_copy_string(&plan->arena, source->name);
  if (copy->name == NULL) return graft_plan_no_memory(plan);
  GRAFT_TRY(graft_plan_add_tensor(plan, copy));
  if (source->view_of != NULL) copy->view_of = pass->copies[source->view_of->id];
  pass->copies[source->id] = copy;
  return GRAFT_OK;
}

static graft_status copy_strings(graft_arena *arena, graft_node *copy, const graft_node *source) {
  copy->label = graft_arena_copy_string(arena, source->label);
  copy->scope = graft_arena_copy_string(arena, source->scope);
  return copy->label == NULL || copy->scope == NULL ? GRAFT_E_NO_MEMORY : GRAFT_OK;
}

static graft_status copy_node(copy_pass *pass, const graft_node *source) {
  graft_plan *plan = pass->plan;
  graft_arena *arena = &plan->arena;
  graft_node *copy = graft_arena_alloc(arena, sizeof *copy);
  if (copy == NULL) return graft_plan_no_memory(plan);
  *copy = *source;
  copy->earlier_write = NULL;
  copy->after = NULL;  // the order of nodes, and later of steps, says the same
  copy->n_after = 0;
  copy->attrs = graft_arena_alloc(arena, source->op->attrs_bytes);
  copy->inputs = graft_arena_alloc_array(arena, source->n_inputs, sizeof(graft_tensor *));
  copy->outputs = graft_arena_alloc_array(arena, source->n_outputs, sizeof(graft_tensor *));
  if (copy->attrs == NULL || copy->inputs == NULL || copy->outputs == NULL ||
      copy_strings(arena, copy, source) != GRAFT_OK) {
    return graft_plan_no_memory(plan);
  }
  if (source->op->attrs_bytes > 0) memcpy(copy->attrs, source->attrs, source->op->attrs_bytes);
  for (uint32_t i = 0; i < source->n_inputs; ++i) {
    if (source->inputs[i] == NULL) continue;
    GRAFT_TRY(copy_tensor(pass, source->inputs[i]));
    copy->inputs[i] = pass->copies[source->inputs[i]->id];
  }
  if (source->into != NULL) {
    GRAFT_TRY(copy_tensor(pass, source->into));
    copy->into = pass->copies[source->into->id];
  }
  for (uint32_t i = 0; i < source->n_outputs; ++i) {
    GRAFT_TRY(copy_tensor(pass, source->outputs[i]));
    copy->outputs[i] = pass->copies[source->outputs[i]->id];
    copy->outputs[i]->node = copy;
  }
  return graft_plan_append(plan, &plan->nodes, copy);
}

static graft_status copy_inputs(copy_pass *pass) {
  graft_plan *plan = pass->plan;
  plan->n_inputs = plan->n_unwritten = pass->graph->n_inputs;
  plan->inputs = graft_arena_alloc_array(&plan->arena, plan->n_inputs, sizeof *plan->inputs);
  plan->is_written = graft_arena_alloc_array(&plan->arena, plan->n_inputs, sizeof *plan->is_written);
  plan->slots = graft_arena_alloc_array(&plan->arena, (size_t)plan->n_inputs * plan->n_slots, sizeof *plan->slots);
  plan->first_slot = graft_arena_alloc_array(&plan->arena, plan->n_inputs, sizeof *plan->first_slot);
  plan->n_full = graft_arena_alloc_array(&plan->arena, plan->n_inputs, sizeof *plan->n_full);
  if (plan->inputs == NULL || plan->is_written == NULL || plan->slots == NULL || plan->first_slot == NULL ||
      plan->n_full == NULL) {
    return graft_plan_no_memory(plan);
  }
  for (uint32_t i = 0; i < plan->n_inputs; ++i) {
    GRAFT_TRY(copy_tensor(pass, pass->graph->inputs[i]));
    plan->inputs[i] = pass->copies[pass->graph->inputs[i]->id];
  }
  return GRAFT_OK;
}

static graft_status copy_outputs(copy_pass *pass) {
  graft_plan *plan = pass->plan;
  plan->n_outputs = pass->graph->n_outputs;
  plan->outputs = graft_arena_alloc_array(&plan->arena, plan->n_outputs, sizeof *plan->outputs);
  if (plan->outputs == NULL) return graft_plan_no_memory(plan);
  for (uint32_t i = 0; i < plan->n_outputs; ++i) {
    const graft_graph_output_entry *source = &pass->graph->outputs[i];
    GRAFT_TRY(copy_tensor(pass, source->tensor));
    plan->outputs[i].tensor = pass->copies[source->tensor->id];
    plan->outputs[i].name = graft_arena_copy_string(&plan->arena, source->name);
    if (plan->outputs[i].name == NULL) return graft_plan_no_memory(plan);
  }
  return GRAFT_OK;
}

static graft_status copy_live(copy_pass *pass) {
  const graft_graph *graph = pass->graph;
  if (pass->copies == NULL || pass->is_needed == NULL || pass->is_live == NULL) return graft_plan_no_memory(pass->plan);
  for (uint32_t i = 0; i < graph->n_outputs; ++i) graft_plan_need(graph->outputs[i].tensor, pass->is_needed);
  graft_plan_mark_live(graph->nodes, graph->n_nodes, pass->is_needed, pass->is_live);
  GRAFT_TRY(copy_inputs(pass));
  for (uint32_t i = 0; i < graph->n_nodes; ++i) {
    if (pass->is_live[i]) GRAFT_TRY(copy_node(pass, graph->nodes[i]));
  }
  return copy_outputs(pass);
}

graft_status graft_plan_copy_graph(graft_plan *plan, const graft_graph *graph, const graft_plan_options *options) {
  copy_pass pass = {
      .plan = plan,
      .graph = graph,
      .pins = options->pins,
      .n_pins = options->n_pins,
      .copies = calloc((size_t)graph->n_tensors + 1, sizeof *pass.copies),
      .is_needed = calloc((size_t)graph->n_tensors + 1, sizeof *pass.is_needed),
      .is_live = calloc((size_t)graph->n_nodes + 1, sizeof *pass.is_live),
  };
  graft_status status = copy_live(&pass);
  free(pass.copies);
  free(pass.is_needed);
  free(pass.is_live);
  return status;
}
