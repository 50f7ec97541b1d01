// Running a graph, or a range of its nodes, at once: a plan that lives for one run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/versioned.h"
#include "src/graph/builder.h"
#include "src/plan/plan_internal.h"

typedef struct direct {
  const graft_graph *graph;
  graft_execution options;
  graft_binding *bindings;
  uint32_t end;
  graft_error *error;
  graft_graph *part;   // the range as a graph of its own
  graft_tensor **map;  // from |graph| to |part|
  uint32_t *n_inside;  // by tensor: uses within the range
  bool *is_kept;       // by tensor: somebody outside of the range wants it
} direct;

static const graft_binding *find_binding(const direct *d, const graft_tensor *tensor) {
  for (uint32_t i = 0; i < d->options.n_bindings; ++i) {
    if (d->bindings[i].tensor == tensor) return &d->bindings[i];
  }
  return NULL;
}

static bool is_inside(const direct *d, const graft_tensor *tensor) {
  return tensor->node != NULL && tensor->node->id >= d->options.first && tensor->node->id < d->end;
}

static graft_status import_storage(direct *d, const graft_tensor *tensor) {
  if (find_binding(d, tensor) == NULL) {
    return GRAFT_FAIL(d->error, GRAFT_E_INVALID, "%s comes from outside of the nodes that are run, and is not bound",
                      tensor->name);
  }
  char name[24];
  snprintf(name, sizeof name, "%%%u", (unsigned)tensor->id);
  d->map[tensor->id] = graft_graph_input(d->part, name, &tensor->desc);
  return d->map[tensor->id] != NULL ? GRAFT_OK : graft_graph_status(d->part);
}

// Makes what stands in the part for a value from outside. Views are made anew from what they view.
static graft_status import(direct *d, const graft_tensor *tensor) {
  if (tensor == NULL || is_inside(d, tensor) || d->map[tensor->id] != NULL) return GRAFT_OK;
  if (tensor->kind == GRAFT_TENSOR_CONSTANT) return GRAFT_OK;  // copied where it is used
  if (tensor->view_of == NULL) return import_storage(d, tensor);
  GRAFT_TRY(import(d, tensor->view_of));
  const graft_node *node = tensor->node;
  if (node->op->traits & GRAFT_OP_VIEW) {
    for (uint32_t i = 1; i < node->n_inputs; ++i) GRAFT_TRY(import(d, node->inputs[i]));
    return graft_graph_copy_nodes(d->part, d->graph, node->id, node->id + 1, d->map);
  }
  d->map[tensor->id] = d->map[tensor->view_of->id];
  return GRAFT_OK;
}

static const graft_tensor *owner_of(const graft_tensor *tensor) {
  while (tensor->view_of != NULL) tensor = tensor->view_of;
  return tensor;
}

static graft_status import_all(direct *d) {
  for (uint32_t n = d->options.first; n < d->end; ++n) {
    const graft_node *node = d->graph->nodes[n];
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      if (node->inputs[i] != NULL) ++d->n_inside[node->inputs[i]->id];
      GRAFT_TRY(import(d, node->inputs[i]));
    }
    if (node->into == NULL) continue;
    GRAFT_TRY(import(d, node->into));
    d->is_kept[owner_of(node->into)->id] = true;
  }
  return GRAFT_OK;
}

// What the whole graph still needs behind the range is a result of the part, bound or not, so that it is not fused
// away.
static void find_kept(direct *d) {
  for (uint32_t i = 0; i < d->graph->n_tensors; ++i) {
    const graft_tensor *tensor = d->graph->tensors[i];
    if (!is_inside(d, tensor)) continue;
    if (tensor->n_uses > d->n_inside[i] || tensor->is_output || find_binding(d, tensor) != NULL) d->is_kept[i] = true;
  }
}

static graft_status build_part(direct *d) {
  GRAFT_TRY(graft_graph_create(d->graph->context, &d->part));
  GRAFT_TRY(import_all(d));
  GRAFT_TRY(graft_graph_copy_nodes(d->part, d->graph, d->options.first, d->end, d->map));
  find_kept(d);
  for (uint32_t i = 0; i < d->graph->n_tensors; ++i) {
    if (!d->is_kept[i]) continue;
    char name[24];
    snprintf(name, sizeof name, "%%%u", (unsigned)i);
    graft_graph_output(d->part, d->map[i], name);
  }
  return graft_graph_status(d->part);
}

static graft_status write_inputs(const direct *d, graft_plan *plan) {
  for (uint32_t i = 0; i < d->options.n_bindings; ++i) {
    const graft_binding *binding = &d->bindings[i];
    const graft_tensor *mapped = d->map[binding->tensor->id];
    if (is_inside(d, binding->tensor) || mapped == NULL || mapped->kind != GRAFT_TENSOR_INPUT) continue;
    uint32_t index;
    GRAFT_TRY(graft_plan_find_input(plan, mapped->name, &index));
    GRAFT_TRY(graft_plan_write(plan, index, binding->data, binding->bytes));
  }
  return GRAFT_OK;
}

static graft_status read_results(const direct *d, graft_plan *plan) {
  for (uint32_t i = 0; i < d->options.n_bindings; ++i) {
    const graft_binding *binding = &d->bindings[i];
    if (!d->is_kept[binding->tensor->id]) continue;
    char name[24];
    uint32_t index;
    snprintf(name, sizeof name, "%%%u", (unsigned)binding->tensor->id);
    GRAFT_TRY(graft_plan_find_output(plan, name, &index));
    GRAFT_TRY(graft_plan_read(plan, index, binding->data, binding->bytes));
  }
  return GRAFT_OK;
}

// Of a plan that lives for one run nothing is replayed.
static graft_status run_once(const direct *d, graft_plan *plan) {
  graft_run_control control = {.struct_size = sizeof control};
  if (d->options.control != NULL) {
    GRAFT_TRY(graft_versioned_copy(&control, sizeof control, d->options.control, "a graft_run_control", d->error));
  }
  control.flags |= GRAFT_RUN_DISPATCH;
  return graft_plan_run(plan, &control);
}

static graft_status execute(direct *d) {
  if (d->map == NULL || d->n_inside == NULL || d->is_kept == NULL) {
    return GRAFT_FAIL(d->error, GRAFT_E_NO_MEMORY, "no memory to run a graph");
  }
  GRAFT_TRY(build_part(d));
  const graft_plan_options options = {
      .struct_size = sizeof options, .device = d->options.device, .flags = d->options.flags};
  graft_plan *plan = NULL;
  GRAFT_TRY(graft_plan_create(d->part, &options, &plan));
  graft_status status = write_inputs(d, plan);
  if (status == GRAFT_OK) status = run_once(d, plan);
  if (status == GRAFT_OK) status = read_results(d, plan);
  graft_plan_destroy(plan);
  return status;
}

static graft_status check_execution(direct *d) {
  const graft_graph *graph = d->graph;
  if (graph->error.status != GRAFT_OK) {
    *d->error = graph->error;
    return graph->error.status;
  }
  if (d->options.n_bindings > 0 && d->options.bindings == NULL) {
    return GRAFT_FAIL(d->error, GRAFT_E_INVALID, "bindings is NULL");
  }
  if (d->options.first > graph->n_nodes || d->options.n_nodes > graph->n_nodes - d->options.first) {
    return GRAFT_FAIL(d->error, GRAFT_E_INVALID, "there are no %u nodes from %u on; the graph has %u",
                      (unsigned)d->options.n_nodes, (unsigned)d->options.first, (unsigned)graph->n_nodes);
  }
  void *bindings = NULL;
  GRAFT_TRY(graft_versioned_array(d->options.bindings, d->options.n_bindings, sizeof *d->bindings, "a graft_binding",
                                  d->error, &bindings));
  d->bindings = bindings;
  for (uint32_t i = 0; i < d->options.n_bindings; ++i) {
    GRAFT_TRY(graft_graph_check_tensor(graph, d->bindings[i].tensor, "a bound tensor", d->error));
  }
  return GRAFT_OK;
}

graft_status graft_graph_execute(const graft_graph *graph, const graft_execution *execution) {
  direct d = {.graph = graph, .error = graft_context_error_slot(graph->context)};
  GRAFT_TRY(graft_versioned_copy(&d.options, sizeof d.options, execution, "a graft_execution", d.error));
  graft_status status = check_execution(&d);
  d.end = d.options.n_nodes > 0 ? d.options.first + d.options.n_nodes : graph->n_nodes;
  const size_t n = graph->n_tensors;
  d.map = calloc(n + 1, sizeof(graft_tensor *));
  d.n_inside = calloc(n + 1, sizeof *d.n_inside);
  d.is_kept = calloc(n + 1, sizeof *d.is_kept);
  if (status == GRAFT_OK) status = execute(&d);
  free(d.bindings);
  graft_graph_destroy(d.part);
  free(d.map);
  free(d.n_inside);
  free(d.is_kept);
  return status;
}
