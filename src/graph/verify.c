#include <stdlib.h>
#include <string.h>

#include "src/base/text.h"
#include "src/graph/attrs.h"
#include "src/graph/builder.h"
#include "src/graph/effects.h"
#include "src/graph/infer.h"

#define BROKEN(...) return GRAFT_FAIL(error, GRAFT_E_INVALID, __VA_ARGS__)

static graft_status verify_tensor(const graft_graph *graph, uint32_t id, graft_error *error) {
  const graft_tensor *tensor = graph->tensors[id];
  if (tensor == NULL) BROKEN("value %u is missing", (unsigned)id);
  if (tensor->id != id || tensor->graph != graph) BROKEN("value %u is not in its place", (unsigned)id);
  if (tensor->name == NULL) BROKEN("value %u has no name", (unsigned)id);
  if (tensor->kind != GRAFT_TENSOR_RESULT) {
    if (tensor->node != NULL || tensor->view_of != NULL) BROKEN("%s is no result, but has a maker", tensor->name);
    graft_tensor_desc plain;
    const graft_tensor_desc *desc = &tensor->desc;
    GRAFT_TRY(graft_tensor_desc_init(desc->dtype, desc->rank, desc->shape, error, &plain));
    if (!graft_tensor_desc_is_contiguous(desc)) BROKEN("%s is not contiguous", tensor->name);
    return GRAFT_OK;
  }
  const graft_node *node = tensor->node;
  bool is_listed = node != NULL && node->id < graph->n_nodes && graph->nodes[node->id] == node &&
                   tensor->output_index < node->n_outputs && node->outputs[tensor->output_index] == tensor;
  if (!is_listed) BROKEN("%s is a result of no node of the graph", tensor->name);
  return GRAFT_OK;
}

static graft_status verify_edges(const graft_graph *graph, const graft_node *node, graft_error *error) {
  const graft_op_def *op = node->op;
  if (node->n_inputs < op->min_inputs || node->n_inputs > op->max_inputs || node->n_outputs != op->n_outputs)
    BROKEN("%s has %u input%s and %u output%s, which %s has not", node->label, (unsigned)node->n_inputs,
           graft_text_s(node->n_inputs), (unsigned)node->n_outputs, graft_text_s(node->n_outputs), op->name);
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    const graft_tensor *input = node->inputs[i];
    if (input == NULL) {
      if (!(op->optional_inputs >> i & 1)) BROKEN("input %u of %s is missing", (unsigned)i, node->label);
    } else if (input->id >= graph->n_tensors || graph->tensors[input->id] != input) {
      BROKEN("input %u of %s is no value of the graph", (unsigned)i, node->label);
    } else if (input->id >= node->outputs[0]->id) {
      BROKEN("input %u of %s, %s, is made after it", (unsigned)i, node->label, input->name);
    }
  }
  return GRAFT_OK;
}

static graft_status verify_inference(const graft_node *node, graft_error *error) {
  graft_inference inference = {.op = node->op, .attrs = node->attrs, .n_inputs = node->n_inputs};
  for (uint32_t i = 0; i < node->n_inputs; ++i)
    inference.inputs[i] = node->inputs[i] == NULL ? NULL : &node->inputs[i]->desc;
  GRAFT_TRY(graft_attrs_check(node->op, node->attrs, error));
  GRAFT_TRY(graft_infer_checked(&inference, error));
  if (node->into != NULL) {
    GRAFT_TRY(graft_graph_check_into(node->into->graph, node->op, &inference.outputs[0], node->into, error));
    inference.outputs[0] = node->into->desc;
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!graft_tensor_desc_same_layout(&inference.outputs[i], &node->outputs[i]->desc))
      BROKEN("output %u of %s is not what inference gives", (unsigned)i, node->label);
  }
  bool is_view = node->op->traits & GRAFT_OP_VIEW;
  const graft_tensor *first = node->outputs[0];
  if (first->view_of != (is_view ? node->inputs[0] : node->into) ||
      (is_view && first->view_offset != inference.view_offset))
    BROKEN("%s does not view what its operator says", node->label);
  return GRAFT_OK;
}

// Every node that uses what another one writes over is an input's maker or behind it by an edge of its own.
static graft_status verify_order(const graft_graph *graph, const graft_node *node, graft_error *error) {
  for (uint32_t i = 0; i < node->n_after; ++i) {
    const graft_node *earlier = node->after[i];
    if (earlier == NULL || earlier->id >= node->id || graph->nodes[earlier->id] != earlier)
      BROKEN("%s comes after a node that is not before it", node->label);
  }
  if (node->into == NULL) return GRAFT_OK;
  const graft_tensor *into = node->into;
  if (into->id >= node->outputs[0]->id || graph->tensors[into->id] != into)
    BROKEN("%s writes over %s, which is made after it", node->label, into->name);
  for (uint32_t i = 0; i < node->id; ++i) {
    if (!graft_graph_is_ordered(node, graph->nodes[i]))
      BROKEN("%s writes over what %s uses, but no edge orders them", node->label, graph->nodes[i]->label);
  }
  return GRAFT_OK;
}

static graft_status verify_node(const graft_graph *graph, uint32_t id, graft_error *error) {
  const graft_node *node = graph->nodes[id];
  if (node == NULL || node->id != id) BROKEN("node %u is not in its place", (unsigned)id);
  if (graft_context_find_op(graph->context, node->op->name) != node->op)
    BROKEN("%s uses an operator that is not registered", node->label);
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    const graft_tensor *output = node->outputs[i];
    if (output->id >= graph->n_tensors || graph->tensors[output->id] != output)
      BROKEN("output %u of %s is no value of the graph", (unsigned)i, node->label);
  }
  graft_status status = verify_edges(graph, node, error);
  if (status == GRAFT_OK) status = verify_inference(node, error);
  if (status == GRAFT_OK) status = verify_order(graph, node, error);
  if (status != GRAFT_OK) graft_error_note(error, "verifying %s", node->label);
  return status;
}

static graft_status verify_names(const graft_graph *graph, graft_error *error) {
  for (uint32_t i = 0; i < graph->n_inputs; ++i) {
    const graft_tensor *input = graph->inputs[i];
    if (input->kind != GRAFT_TENSOR_INPUT) BROKEN("input %u is no input", (unsigned)i);
    if (graft_graph_find_input(graph, input->name) != input) BROKEN("two inputs are called \"%s\"", input->name);
  }
  for (uint32_t i = 0; i < graph->n_outputs; ++i) {
    const graft_graph_output_entry *output = &graph->outputs[i];
    if (graft_graph_find_output(graph, output->name) != output->tensor)
      BROKEN("two outputs are called \"%s\"", output->name);
    if (!output->tensor->is_output) BROKEN("output \"%s\" is not marked as one", output->name);
  }
  return GRAFT_OK;
}

static graft_status verify_uses(const graft_graph *graph, graft_error *error) {
  uint32_t *n_uses = calloc((size_t)graph->n_tensors + 1, sizeof *n_uses);
  if (n_uses == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to verify a graph");
  for (uint32_t n = 0; n < graph->n_nodes; ++n) {
    const graft_node *node = graph->nodes[n];
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      if (node->inputs[i] != NULL) ++n_uses[node->inputs[i]->id];
    }
  }
  graft_status status = GRAFT_OK;
  for (uint32_t i = 0; i < graph->n_tensors && status == GRAFT_OK; ++i) {
    const graft_tensor *tensor = graph->tensors[i];
    if (tensor->n_uses != n_uses[i])
      status = GRAFT_FAIL(error, GRAFT_E_INVALID, "%s counts %u uses and has %u", tensor->name,
                          (unsigned)tensor->n_uses, (unsigned)n_uses[i]);
  }
  free(n_uses);
  return status;
}

graft_status graft_graph_verify(const graft_graph *graph, graft_error *error) {
  if (graph->error.status != GRAFT_OK) {
    if (error != NULL) *error = graph->error;
    return graph->error.status;
  }
  for (uint32_t i = 0; i < graph->n_tensors; ++i) GRAFT_TRY(verify_tensor(graph, i, error));
  for (uint32_t i = 0; i < graph->n_nodes; ++i) GRAFT_TRY(verify_node(graph, i, error));
  GRAFT_TRY(verify_names(graph, error));
  return verify_uses(graph, error);
}
