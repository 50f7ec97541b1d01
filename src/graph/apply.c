#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/base/array.h"
#include "src/base/text.h"
#include "src/graph/attrs.h"
#include "src/graph/builder.h"
#include "src/graph/effects.h"
#include "src/graph/infer.h"

// What the caller asked for.
typedef struct application {
  graft_graph *graph;
  const graft_op_def *op;
  const void *attrs;
  size_t attrs_bytes;
  graft_tensor *const *inputs;
  uint32_t n_inputs;
  graft_tensor *into;
} application;

static graft_status check_inputs(const application *call, graft_error *error) {
  const graft_op_def *op = call->op;
  if (op->min_inputs == op->max_inputs && call->n_inputs != op->min_inputs)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s takes %u input%s, not %u", op->name, (unsigned)op->min_inputs,
                      graft_text_s(op->min_inputs), (unsigned)call->n_inputs);
  if (call->n_inputs < op->min_inputs || call->n_inputs > op->max_inputs)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s takes %u to %u inputs, not %u", op->name, (unsigned)op->min_inputs,
                      (unsigned)op->max_inputs, (unsigned)call->n_inputs);
  for (uint32_t i = 0; i < call->n_inputs; ++i) {
    if (call->inputs[i] == graft_graph_none() && (op->optional_inputs >> i & 1)) continue;
    graft_status status = graft_graph_check_tensor(call->graph, call->inputs[i], "an input", error);
    if (status != GRAFT_OK) {
      graft_error_note(error, "input %u of %s", (unsigned)i, op->name);
      return status;
    }
  }
  return GRAFT_OK;
}

static graft_status copy_attrs(const application *call, void **out_attrs, graft_error *error) {
  const graft_op_def *op = call->op;
  if (call->attrs != NULL && call->attrs_bytes != op->attrs_bytes)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s takes attributes of %u bytes, not %zu", op->name,
                      (unsigned)op->attrs_bytes, call->attrs_bytes);
  void *attrs = graft_arena_alloc(&call->graph->arena, op->attrs_bytes);
  if (attrs == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for the attributes of %s", op->name);
  if (call->attrs == NULL) {
    graft_op_default_attrs(op, attrs);
  } else {
    memcpy(attrs, call->attrs, op->attrs_bytes);
  }
  *out_attrs = attrs;
  return graft_attrs_check(op, attrs, error);
}

// The scope of the newest node is reused while it lasts, so that a long block keeps one copy.
static const char *current_scope(graft_graph *graph) {
  if (graph->n_nodes > 0 && strcmp(graph->nodes[graph->n_nodes - 1]->scope, graph->scope) == 0)
    return graph->nodes[graph->n_nodes - 1]->scope;
  return graft_arena_copy_string(&graph->arena, graph->scope);
}

// "scope.rms_norm#7" for graft.rms_norm.v1: the name without vendor and version.
static const char *make_label(graft_graph *graph, const graft_op_def *op, const char *scope) {
  const char *first = strchr(op->name, '.') + 1;
  const char *last = strrchr(op->name, '.');
  return graft_arena_format(&graph->arena, "%s%s%.*s#%u", scope, scope[0] == '\0' ? "" : ".", (int)(last - first),
                            first, (unsigned)graph->n_nodes);
}

static bool make_outputs(graft_graph *graph, graft_node *node, const graft_inference *inference) {
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    graft_tensor *output = graft_arena_alloc(&graph->arena, sizeof *output);
    const char *name = i == 0 ? node->label : graft_arena_format(&graph->arena, "%s:%u", node->label, (unsigned)i);
    if (output == NULL || name == NULL) return false;
    *output = (graft_tensor){.graph = graph,
                             .kind = GRAFT_TENSOR_RESULT,
                             .id = graph->n_tensors + i,
                             .desc = inference->outputs[i],
                             .name = name,
                             .node = node,
                             .output_index = i};
    node->outputs[i] = output;
  }
  if (node->op->traits & GRAFT_OP_VIEW) {
    node->outputs[0]->view_of = node->inputs[0];
    node->outputs[0]->view_offset = inference->view_offset;
  }
  if (node->into != NULL) {
    node->outputs[0]->view_of = node->into;
    node->outputs[0]->desc = node->into->desc;
  }
  return true;
}

// Makes the node without changing what the graph holds, so that a failure leaves it as it was.
static graft_node *make_node(const application *call, void *attrs, const graft_inference *inference) {
  graft_graph *graph = call->graph;
  graft_arena *arena = &graph->arena;
  graft_node *node = graft_arena_alloc(arena, sizeof *node);
  if (node == NULL) return NULL;
  *node = (graft_node){.op = call->op,
                       .attrs = attrs,
                       .id = graph->n_nodes,
                       .n_inputs = call->n_inputs,
                       .n_outputs = call->op->n_outputs,
                       .into = call->into,
                       .inputs = graft_arena_alloc_array(arena, call->n_inputs, sizeof *node->inputs),
                       .outputs = graft_arena_alloc_array(arena, call->op->n_outputs, sizeof *node->outputs),
                       .scope = current_scope(graph)};
  if (node->inputs == NULL || node->outputs == NULL || node->scope == NULL) return NULL;
  node->label = make_label(graph, call->op, node->scope);
  if (node->label == NULL) return NULL;
  for (uint32_t i = 0; i < call->n_inputs; ++i)
    node->inputs[i] = call->inputs[i] == graft_graph_none() ? NULL : call->inputs[i];
  return make_outputs(graph, node, inference) && graft_graph_order(graph, node) ? node : NULL;
}

static graft_status reserve(graft_graph *graph, uint32_t n_outputs, graft_error *error) {
  GRAFT_TRY(graft_graph_reserve_tensors(graph, n_outputs, error));
  graft_node **nodes =
      graft_array_reserve(graph->nodes, graph->n_nodes, 1, &graph->node_capacity, sizeof *graph->nodes);
  if (nodes == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for more than %u nodes in a graph",
                      (unsigned)graph->n_nodes);
  graph->nodes = nodes;
  return GRAFT_OK;
}

static graft_status apply(const application *call, graft_tensor **out_tensors, graft_error *error) {
  graft_graph *graph = call->graph;
  GRAFT_TRY(check_inputs(call, error));
  void *attrs = NULL;
  GRAFT_TRY(copy_attrs(call, &attrs, error));
  graft_inference inference = {.op = call->op, .attrs = attrs, .n_inputs = call->n_inputs};
  for (uint32_t i = 0; i < call->n_inputs; ++i)
    inference.inputs[i] = call->inputs[i] == graft_graph_none() ? NULL : &call->inputs[i]->desc;
  GRAFT_TRY(graft_infer_checked(&inference, error));
  if (call->into != NULL) GRAFT_TRY(graft_graph_check_into(graph, call->op, &inference.outputs[0], call->into, error));
  GRAFT_TRY(reserve(graph, call->op->n_outputs, error));
  graft_node *node = make_node(call, attrs, &inference);
  if (node == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a node of %s", call->op->name);

  graph->nodes[graph->n_nodes++] = node;
  graft_graph_note_write(node);
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] != NULL) node->inputs[i]->n_uses++;
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    graph->tensors[graph->n_tensors++] = node->outputs[i];
    out_tensors[i] = node->outputs[i];
  }
  return GRAFT_OK;
}

// Fills call->op, which is |name|.
static void apply_named(application *call, const char *name, graft_tensor **out_tensors) {
  graft_graph *graph = call->graph;
  out_tensors[0] = NULL;
  call->op = name == NULL ? NULL : graft_context_find_op(graph->context, name);
  if (call->op == NULL) {
    GRAFT_GRAPH_FAIL(graph, GRAFT_E_NOT_FOUND, "no operator named \"%s\" is registered", name == NULL ? "" : name);
    return;
  }
  for (uint32_t i = 0; i < call->op->n_outputs; ++i) out_tensors[i] = NULL;
  if (graph->error.status != GRAFT_OK) return;
  graft_error error = {0};
  if (apply(call, out_tensors, &error) == GRAFT_OK) return;
  size_t length = strlen(call->op->name);
  memcpy(error.op, call->op->name, length < sizeof error.op ? length + 1 : sizeof error.op - 1);
  if (graph->scope[0] != '\0') graft_error_note(&error, "in %s", graph->scope);
  graft_graph_record_failure(graph, &error);
}

void graft_graph_apply(graft_graph *graph, const char *op, const void *attrs, size_t attrs_bytes,
                       graft_tensor *const *inputs, uint32_t n_inputs, graft_tensor **out_tensors) {
  application call = {
      .graph = graph, .attrs = attrs, .attrs_bytes = attrs_bytes, .inputs = inputs, .n_inputs = n_inputs};
  apply_named(&call, op, out_tensors);
}

void graft_graph_apply_into(graft_graph *graph, const graft_application *asked, graft_tensor **out_tensors) {
  graft_application given;
  graft_error error = {0};
  out_tensors[0] = NULL;
  if (graft_versioned_copy(&given, sizeof given, asked, "a graft_application", &error) != GRAFT_OK) {
    graft_graph_record_failure(graph, &error);
    return;
  }
  application call = {.graph = graph,
                      .attrs = given.attrs,
                      .attrs_bytes = given.attrs_bytes,
                      .inputs = given.inputs,
                      .n_inputs = given.n_inputs,
                      .into = given.into};
  apply_named(&call, given.op, out_tensors);
}
