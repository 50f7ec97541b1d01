// Looking at a graph from outside, and copying parts of one into another.
#include <stdlib.h>

#include "graft/versioned.h"
#include "src/base/array.h"
#include "src/graph/builder.h"
#include "src/graph/effects.h"

bool graft_graph_node(const graft_graph *graph, uint32_t index, graft_node_view *out_view) {
  graft_node_view view = {.struct_size = sizeof view};
  graft_versioned_fill(out_view, &view, sizeof view);
  if (index >= graph->n_nodes) return false;
  const graft_node *node = graph->nodes[index];
  view = (graft_node_view){.op = node->op,
                           .attrs = node->attrs,
                           .n_inputs = node->n_inputs,
                           .n_outputs = node->n_outputs,
                           .inputs = node->inputs,
                           .outputs = node->outputs,
                           .into = node->into,
                           .n_after = node->n_after,
                           .label = node->label};
  graft_versioned_fill(out_view, &view, sizeof view);
  return true;
}

uint32_t graft_graph_node_after(const graft_graph *graph, uint32_t index, uint32_t i) {
  if (index >= graph->n_nodes || i >= graph->nodes[index]->n_after) return UINT32_MAX;
  return graph->nodes[index]->after[i]->id;
}

uint32_t graft_graph_n_tensors(const graft_graph *graph) {
  return graph->n_tensors;
}

graft_tensor *graft_graph_tensor_at(const graft_graph *graph, uint32_t index) {
  return index < graph->n_tensors ? graph->tensors[index] : NULL;
}

uint32_t graft_graph_n_leaves(const graft_graph *graph) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < graph->n_tensors; ++i) n += graph->tensors[i]->kind != GRAFT_TENSOR_RESULT;
  return n;
}

graft_tensor *graft_graph_leaf_at(const graft_graph *graph, uint32_t index) {
  for (uint32_t i = 0; i < graph->n_tensors; ++i) {
    if (graph->tensors[i]->kind != GRAFT_TENSOR_RESULT && index-- == 0) return graph->tensors[i];
  }
  return NULL;
}

graft_tensor_kind graft_tensor_kind_of(const graft_tensor *tensor) {
  return tensor->kind;
}

uint32_t graft_tensor_index(const graft_tensor *tensor) {
  return tensor->id;
}

uint32_t graft_tensor_n_uses(const graft_tensor *tensor) {
  return tensor->n_uses;
}

uint32_t graft_tensor_maker(const graft_tensor *tensor) {
  return tensor->node != NULL ? tensor->node->id : UINT32_MAX;
}

const graft_constant *graft_tensor_constant(const graft_tensor *tensor) {
  return tensor->kind == GRAFT_TENSOR_CONSTANT ? &tensor->constant : NULL;
}

// ---- copying ----

typedef struct subgraph {
  graft_graph *target;
  const graft_graph *source;
  uint32_t first, end;
  graft_tensor **map;  // by the source's tensors
} subgraph;

static bool is_inside(const subgraph *part, const graft_tensor *tensor) {
  return tensor->node != NULL && tensor->node->id >= part->first && tensor->node->id < part->end;
}

static graft_status check_mapped(const subgraph *part, const graft_tensor *tensor, graft_error *error) {
  const graft_tensor *mapped = part->map[tensor->id];
  GRAFT_TRY(graft_graph_check_tensor(part->target, mapped, "what a tensor map gives", error));
  if (graft_tensor_desc_same_layout(&mapped->desc, &tensor->desc)) return GRAFT_OK;
  char wanted[96], got[96];
  return GRAFT_FAIL(error, GRAFT_E_SHAPE, "the tensor map gives %s for %s, which is %s",
                    graft_tensor_desc_format(&mapped->desc, got, sizeof got), tensor->name,
                    graft_tensor_desc_format(&tensor->desc, wanted, sizeof wanted));
}

// Whether a node of the part may use |tensor|: it is made in the part, mapped, or a leaf that can be copied.
static graft_status check_used(const subgraph *part, const graft_tensor *tensor, graft_error *error) {
  if (tensor == NULL || is_inside(part, tensor) || part->map[tensor->id] != NULL) return GRAFT_OK;
  if (tensor->kind == GRAFT_TENSOR_RESULT)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is used, but made outside of the nodes that are copied; map it",
                      tensor->name);
  if (tensor->kind == GRAFT_TENSOR_INPUT && graft_graph_find_input(part->target, tensor->name) != NULL)
    return GRAFT_FAIL(error, GRAFT_E_EXISTS, "the graph has an input \"%s\" already; map it", tensor->name);
  return GRAFT_OK;
}

static graft_status check_part(const subgraph *part, graft_error *error) {
  const graft_graph *source = part->source;
  GRAFT_TRY(part->target->error.status);
  if (part->target == source) return GRAFT_FAIL(error, GRAFT_E_INVALID, "a graph cannot be copied into itself");
  if (source->error.status != GRAFT_OK)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the graph that is copied has failed: %.300s", source->error.message);
  if (part->first > part->end || part->end > source->n_nodes)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "there are no nodes %u to %u; the graph has %u", (unsigned)part->first,
                      (unsigned)part->end, (unsigned)source->n_nodes);
  if (part->target->context != source->context)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the graphs belong to different contexts");
  for (uint32_t i = 0; i < source->n_tensors; ++i) {
    const graft_tensor *tensor = source->tensors[i];
    if (part->map[i] == NULL) continue;
    if (is_inside(part, tensor))
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is mapped, but its node is copied, too", tensor->name);
    GRAFT_TRY(check_mapped(part, tensor, error));
  }
  for (uint32_t n = part->first; n < part->end; ++n) {
    const graft_node *node = source->nodes[n];
    for (uint32_t i = 0; i < node->n_inputs; ++i) GRAFT_TRY(check_used(part, node->inputs[i], error));
    GRAFT_TRY(check_used(part, node->into, error));
  }
  return GRAFT_OK;
}

static graft_tensor *copy_used(const subgraph *part, const graft_tensor *tensor) {
  if (tensor == NULL) return graft_graph_none();
  graft_tensor **mapped = &part->map[tensor->id];
  if (*mapped == NULL && tensor->kind == GRAFT_TENSOR_INPUT) {
    *mapped = graft_graph_input(part->target, tensor->name, &tensor->desc);
  } else if (*mapped == NULL) {
    *mapped = graft_graph_constant(part->target, tensor->name, &tensor->desc, &tensor->constant);
  }
  return *mapped;
}

static void copy_node(const subgraph *part, const graft_node *node) {
  graft_tensor *inputs[GRAFT_MAX_INPUTS], *outputs[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < node->n_inputs; ++i) inputs[i] = copy_used(part, node->inputs[i]);
  const graft_application application = {.struct_size = sizeof application,
                                         .op = node->op->name,
                                         .attrs = node->attrs,
                                         .attrs_bytes = node->op->attrs_bytes,
                                         .inputs = inputs,
                                         .n_inputs = node->n_inputs,
                                         .into = node->into != NULL ? copy_used(part, node->into) : NULL};
  bool is_scoped = node->scope[0] != '\0';
  if (is_scoped) graft_graph_scope_push(part->target, "%s", node->scope);
  graft_graph_apply_into(part->target, &application, outputs);
  if (is_scoped) graft_graph_scope_pop(part->target);
  for (uint32_t i = 0; i < node->n_outputs; ++i) part->map[node->outputs[i]->id] = outputs[i];
}

// Takes the nodes from |n_nodes| on, and what came with them, out of the graph again.
static void take_back(graft_graph *graph, const graft_graph *before) {
  for (uint32_t n = graph->n_nodes; n-- > before->n_nodes;) {
    const graft_node *node = graph->nodes[n];
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      if (node->inputs[i] != NULL) --node->inputs[i]->n_uses;
    }
    graft_graph_forget_write(node);
  }
  graph->n_nodes = before->n_nodes;
  graph->n_tensors = before->n_tensors;
  graph->n_inputs = before->n_inputs;
  graph->error = before->error;
}

graft_status graft_graph_copy_nodes(graft_graph *target, const graft_graph *source, uint32_t first, uint32_t end,
                                    graft_tensor **map) {
  graft_error *error = graft_context_error_slot(target->context);
  const size_t n = source->n_tensors;
  graft_tensor **copy = calloc(n + 1, sizeof(graft_tensor *));
  if (copy == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to copy a graph");
  for (size_t i = 0; i < n; ++i) copy[i] = map[i];
  const subgraph part = {target, source, first, end, copy};
  const graft_graph before = *target;
  graft_status status = check_part(&part, error);
  for (uint32_t i = first; i < end && status == GRAFT_OK; ++i) {
    copy_node(&part, source->nodes[i]);
    status = target->error.status;
    if (status == GRAFT_OK) continue;
    *error = target->error;
    take_back(target, &before);
  }
  for (size_t i = 0; i < n && status == GRAFT_OK; ++i) map[i] = copy[i];
  free(copy);
  return status;
}
