// Patterns as small graphs, and where a plan has the same operators and edges.
#include <string.h>

#include "src/graph/attrs.h"
#include "src/graph/builder.h"
#include "src/plan/fuse.h"

enum { MAX_COMMUTATIVE = 6 };

static graft_status add_placeholder(graft_pattern *pattern, uint32_t index, const graft_tensor_desc *desc,
                                    graft_error *error) {
  graft_graph *graph = pattern->graph;
  GRAFT_TRY(graft_graph_reserve_tensors(graph, 1, error));
  graft_tensor *tensor = graft_arena_alloc(&graph->arena, sizeof *tensor);
  if (tensor == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a pattern");
  *tensor = (graft_tensor){
      .graph = graph, .kind = GRAFT_TENSOR_INPUT, .id = graph->n_tensors, .desc = *desc, .name = "an input"};
  graph->tensors[graph->n_tensors++] = tensor;
  pattern->inputs[index] = tensor;
  return GRAFT_OK;
}

static bool is_swappable(const graft_node *node) {
  return (node->op->traits & GRAFT_OP_COMMUTATIVE) != 0;
}

// What a pattern may look like at all.
static bool check_pattern(graft_pattern *pattern, graft_tensor *result, graft_reason *why) {
  const graft_graph *graph = pattern->graph;
  if (result == NULL || result->graph != graph) return graft_refuse(why, "the pattern has no result");
  uint32_t n_placeholders = 0;
  for (uint32_t i = 0; i < pattern->n_inputs; ++i) n_placeholders += pattern->inputs[i] != NULL;
  for (uint32_t i = n_placeholders; i < graph->n_tensors; ++i) {
    if (graph->tensors[i]->kind != GRAFT_TENSOR_RESULT) {
      return graft_refuse(why, "the pattern makes an input or a constant");
    }
  }
  if (graph->n_nodes > GRAFT_FUSION_MAX_NODES) {
    return graft_refuse(why, "the pattern has %u nodes; %d is the limit", (unsigned)graph->n_nodes,
                        GRAFT_FUSION_MAX_NODES);
  }
  for (uint32_t i = 0; i < graph->n_nodes; ++i) {
    pattern->n_steps += (graph->nodes[i]->op->traits & GRAFT_OP_VIEW) == 0;
    pattern->n_commutative += is_swappable(graph->nodes[i]);
  }
  if (pattern->n_commutative > MAX_COMMUTATIVE) {
    return graft_refuse(why, "the pattern has %u commutative nodes; %d is the limit", (unsigned)pattern->n_commutative,
                        MAX_COMMUTATIVE);
  }
  if (result->kind != GRAFT_TENSOR_RESULT || result->view_of != NULL) {
    return graft_refuse(why, "the pattern's result is an input or a view");
  }
  pattern->result = result;
  return true;
}

static graft_status build(graft_pattern *pattern, const graft_fusion_rule *rule, const graft_tensor_desc *const *inputs,
                          graft_error *error) {
  graft_tensor *given[GRAFT_MAX_INPUTS] = {0};
  for (uint32_t i = 0; i < pattern->n_inputs; ++i) {
    if (inputs[i] != NULL) GRAFT_TRY(add_placeholder(pattern, i, inputs[i], error));
    given[i] = inputs[i] != NULL ? pattern->inputs[i] : graft_graph_none();
  }
  graft_tensor *results[GRAFT_MAX_OUTPUTS] = {0};
  if (rule->def->pattern != NULL) {
    rule->def->pattern(pattern->graph, pattern->attrs, given, pattern->n_inputs, results);
  } else {
    rule->op->decompose(pattern->graph, pattern->attrs, given, pattern->n_inputs, results);
  }
  graft_status status = graft_graph_status(pattern->graph);
  if (status != GRAFT_OK) {
    *error = *graft_graph_error(pattern->graph);
    return status;
  }
  graft_reason why = {0};
  if (check_pattern(pattern, results[0], &why)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s", why.text);
}

graft_status graft_pattern_build(graft_plan *plan, const graft_fusion_rule *rule, const void *attrs,
                                 const graft_tensor_desc *const *inputs, uint32_t n_inputs, graft_pattern *out_pattern,
                                 graft_reason *why) {
  graft_pattern pattern = {.attrs = attrs, .n_inputs = n_inputs};
  GRAFT_TRY(graft_graph_create(plan->context, &pattern.graph));
  graft_error error = {0};
  graft_status status = build(&pattern, rule, inputs, &error);
  // What a graph that fails tells the context is not the plan's failure.
  *plan->error = (graft_error){0};
  if (status == GRAFT_OK) {
    *out_pattern = pattern;
    return GRAFT_OK;
  }
  graft_pattern_release(&pattern);
  if (status == GRAFT_E_NO_MEMORY) return graft_plan_no_memory(plan);
  graft_refuse(why, "%s", error.message);
  return GRAFT_E_INVALID;
}

void graft_pattern_release(graft_pattern *pattern) {
  graft_graph_destroy(pattern->graph);
  *pattern = (graft_pattern){0};
}

graft_tensor *graft_fuse_resolve(graft_tensor *tensor) {
  while (tensor->view_of != NULL && tensor->node != NULL && !(tensor->node->op->traits & GRAFT_OP_VIEW) &&
         tensor->node->into == NULL &&  // what was written over is another value than what was there
         tensor->view_offset == 0 && graft_tensor_desc_same_layout(&tensor->desc, &tensor->view_of->desc)) {
    tensor = tensor->view_of;
  }
  return tensor;
}

const graft_node *graft_fuse_maker(graft_tensor *tensor) {
  tensor = graft_fuse_resolve(tensor);
  while (tensor->node != NULL && (tensor->node->op->traits & GRAFT_OP_VIEW) != 0) {
    tensor = graft_fuse_resolve(tensor->node->inputs[0]);
  }
  return tensor->node;
}

static bool is_same_value(graft_tensor *a, graft_tensor *b) {
  if (a == b) return true;
  if (graft_fuse_maker(a) != graft_fuse_maker(b)) return false;  // one was written over the other
  const int64_t a_offset = a->view_of != NULL ? a->view_offset : 0, b_offset = b->view_of != NULL ? b->view_offset : 0;
  return graft_plan_root(a) == graft_plan_root(b) && a_offset == b_offset &&
         graft_tensor_desc_same_layout(&a->desc, &b->desc);
}

static bool disagree(graft_pattern_match *match, const graft_node *node, const char *what) {
  return graft_refuse(&match->why, "%.60s differs in %s", node->label, what);
}

static bool is_same_node(graft_pattern_match *match, const graft_node *wanted, const graft_node *node) {
  if (wanted->op != node->op || wanted->n_inputs != node->n_inputs) return disagree(match, node, "its operator");
  if (!match->is_exact) return true;
  if (!graft_attrs_equal(node->op, wanted->attrs, node->attrs)) return disagree(match, node, "its attributes");
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!graft_tensor_desc_same_layout(&wanted->outputs[i]->desc, &node->outputs[i]->desc)) {
      return disagree(match, node, "the shape, dtype or layout of its result");
    }
  }
  return true;
}

// Whether inputs 0 and 1 of |node| are exchanged in this attempt. Where that changes the dtype of its result, an exact
// match sees it.
static bool is_swapped(graft_pattern_match *match, const graft_node *node) {
  return is_swappable(node) && (match->swaps >> match->n_swaps_seen++ & 1) != 0;
}

static bool find(graft_pattern_match *match, const graft_tensor *wanted, graft_tensor *tensor) {
  if (wanted == NULL || tensor == NULL) return wanted == NULL && tensor == NULL;
  tensor = graft_fuse_resolve(tensor);
  if (match->values[wanted->id] != NULL) return is_same_value(match->values[wanted->id], tensor);
  match->values[wanted->id] = tensor;
  const graft_node *pattern_node = wanted->node;
  if (pattern_node == NULL) return true;
  graft_node *node = tensor->node;
  if (node == NULL || wanted->output_index != tensor->output_index) return false;
  if (node->outputs[tensor->output_index] != tensor) return false;  // copied from what the node made
  if (match->nodes[pattern_node->id] != NULL) return match->nodes[pattern_node->id] == node;
  match->nodes[pattern_node->id] = node;
  if (!is_same_node(match, pattern_node, node)) return false;
  const uint32_t swap = is_swapped(match, node) ? 1 : 0;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (!find(match, pattern_node->inputs[i], node->inputs[i < 2 ? i ^ swap : i])) return false;
  }
  return true;
}

bool graft_pattern_find(graft_pattern_match *match, graft_tensor *result) {
  const graft_pattern *pattern = match->pattern;
  for (uint32_t swaps = 0; swaps < 1u << pattern->n_commutative; ++swaps) {
    memset(match->values, 0, pattern->graph->n_tensors * sizeof *match->values);
    memset(match->nodes, 0, sizeof match->nodes);
    for (uint32_t i = 0; match->given != NULL && i < pattern->n_inputs; ++i) {
      if (pattern->inputs[i] != NULL) match->values[pattern->inputs[i]->id] = graft_fuse_resolve(match->given[i]);
    }
    match->swaps = swaps;
    match->n_swaps_seen = 0;
    if (find(match, pattern->result, result)) return true;
  }
  return false;
}
