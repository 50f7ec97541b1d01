#include "src/graph/effects.h"

#include "src/graph/builder.h"

static graft_tensor *owner_of(graft_tensor *tensor) {
  while (tensor->view_of != NULL) tensor = tensor->view_of;
  return tensor;
}

graft_extent graft_tensor_extent(const graft_tensor *tensor) {
  graft_extent extent = {.end = (int64_t)graft_tensor_desc_bytes(&tensor->desc)};
  for (; tensor->view_of != NULL; tensor = tensor->view_of) extent.begin += tensor->view_offset;
  extent.end += extent.begin;
  extent.owner = tensor;
  return extent;
}

bool graft_extents_overlap(const graft_extent *a, const graft_extent *b) {
  return a->owner == b->owner && a->begin < b->end && b->begin < a->end;
}

// Whether no two elements share bytes: every stride steps over all that smaller strides reach.
static bool has_distinct_elements(const graft_tensor_desc *desc) {
  uint32_t left = (1u << desc->rank) - 1;
  int64_t reach = desc->dtype->block_bytes;
  while (left != 0) {
    int32_t next = -1;
    for (int32_t d = 0; d < desc->rank; ++d) {
      if ((left >> d & 1) && (next < 0 || desc->strides[d] < desc->strides[next])) next = d;
    }
    left &= ~(1u << next);
    int64_t size = desc->shape[next];
    if (next == desc->rank - 1) size /= desc->dtype->block_elements;
    if (size <= 1) continue;
    if (desc->strides[next] < reach) return false;
    reach += (size - 1) * desc->strides[next];
  }
  return true;
}

graft_status graft_graph_check_into(const graft_graph *graph, const graft_op_def *op, const graft_tensor_desc *output,
                                    const graft_tensor *into, graft_error *error) {
  GRAFT_TRY(graft_graph_check_tensor(graph, into, "the destination", error));
  if (op->traits & GRAFT_OP_VIEW)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is a view and computes nothing that could be written to %s", op->name,
                      into->name);
  const graft_tensor *owner = graft_tensor_extent(into).owner;
  if (owner->kind == GRAFT_TENSOR_CONSTANT)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s shows the constant %s, which cannot be written over", into->name,
                      owner->name);
  if (into->desc.dtype != output->dtype || !graft_tensor_desc_same_shape(&into->desc, output)) {
    char got[96], wanted[96];
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "%s gives %s; the destination %s is %s", op->name,
                      graft_tensor_desc_format(output, got, sizeof got), into->name,
                      graft_tensor_desc_format(&into->desc, wanted, sizeof wanted));
  }
  if (!has_distinct_elements(&into->desc))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the destination %s shows some bytes more than once", into->name);
  return GRAFT_OK;
}

static bool touches(const graft_tensor *tensor, const graft_extent *extent) {
  if (tensor == NULL) return false;
  graft_extent other = graft_tensor_extent(tensor);
  return graft_extents_overlap(&other, extent);
}

// Whether |earlier| reads or writes bytes of |extent|.
static bool uses(const graft_node *earlier, const graft_extent *extent) {
  if (touches(earlier->into, extent)) return true;
  for (uint32_t i = 0; i < earlier->n_inputs; ++i) {
    if (touches(earlier->inputs[i], extent)) return true;
  }
  return false;
}

static bool is_maker(const graft_node *node, const graft_node *earlier) {
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] != NULL && node->inputs[i]->node == earlier) return true;
  }
  return false;
}

// Whether |node| must come behind |earlier| because one of them writes what the other uses.
static bool must_follow(const graft_node *node, const graft_node *earlier) {
  if (is_maker(node, earlier)) return false;
  if (node->into != NULL) {
    graft_extent written = graft_tensor_extent(node->into);
    if (uses(earlier, &written)) return true;
  }
  if (earlier->into == NULL) return false;
  graft_extent written = graft_tensor_extent(earlier->into);
  return uses(node, &written);
}

static uint32_t collect_writes(const graft_node *node, graft_node **out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    if (node->inputs[i] == NULL) continue;
    graft_node *write = owner_of(node->inputs[i])->last_write;
    for (; write != NULL; write = write->earlier_write) {
      bool is_new = must_follow(node, write);
      for (uint32_t k = 0; k < n && out != NULL && is_new; ++k) is_new = out[k] != write;
      if (!is_new) continue;
      if (out != NULL) out[n] = write;
      ++n;
    }
  }
  return n;
}

static uint32_t collect_all(const graft_graph *graph, const graft_node *node, graft_node **out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < graph->n_nodes; ++i) {
    if (!must_follow(node, graph->nodes[i])) continue;
    if (out != NULL) out[n] = graph->nodes[i];
    ++n;
  }
  return n;
}

bool graft_graph_order(graft_graph *graph, graft_node *node) {
  // Only a node that writes itself has to look at everything before it.
  bool is_write = node->into != NULL;
  uint32_t n = is_write ? collect_all(graph, node, NULL) : collect_writes(node, NULL);
  if (n == 0) return true;
  node->after = graft_arena_alloc_array(&graph->arena, n, sizeof(graft_node *));
  if (node->after == NULL) return false;
  node->n_after = is_write ? collect_all(graph, node, node->after) : collect_writes(node, node->after);
  return true;
}

bool graft_graph_is_ordered(const graft_node *node, const graft_node *earlier) {
  if (!must_follow(node, earlier)) return true;
  for (uint32_t i = 0; i < node->n_after; ++i) {
    if (node->after[i] == earlier) return true;
  }
  return false;
}

void graft_graph_note_write(graft_node *node) {
  if (node->into == NULL) return;
  graft_tensor *owner = owner_of(node->into);
  node->earlier_write = owner->last_write;
  owner->last_write = node;
}

void graft_graph_forget_write(const graft_node *node) {
  if (node->into != NULL) owner_of(node->into)->last_write = node->earlier_write;
}
