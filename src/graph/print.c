#include "src/graph/graph_internal.h"
#include "src/graph/printer.h"

enum { DESC_TEXT = 512 };

static void print_desc(graft_printer *printer, const graft_tensor_desc *desc) {
  char text[DESC_TEXT];
  graft_print_text(printer, graft_tensor_desc_format(desc, text, sizeof text));
}

static void print_leaf(graft_printer *printer, const graft_tensor *leaf) {
  graft_print_format(printer, "%%%u ", (unsigned)leaf->id);
  print_desc(printer, &leaf->desc);
  graft_print_text(printer, leaf->kind == GRAFT_TENSOR_INPUT ? " = input " : " = constant ");
  graft_print_quoted(printer, leaf->name);
  graft_print_text(printer, "\n");
}

static void print_node(graft_printer *printer, const graft_node *node) {
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    graft_print_format(printer, "%s%%%u ", i == 0 ? "" : ", ", (unsigned)node->outputs[i]->id);
    print_desc(printer, &node->outputs[i]->desc);
  }
  graft_print_format(printer, " = %s(", node->op->name);
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    graft_print_text(printer, i == 0 ? "" : ", ");
    if (node->inputs[i] == NULL) {
      graft_print_text(printer, "none");
    } else {
      graft_print_format(printer, "%%%u", (unsigned)node->inputs[i]->id);
    }
  }
  graft_print_text(printer, ")");
  if (node->into != NULL) graft_print_format(printer, " -> %%%u", (unsigned)node->into->id);
  if (node->op->n_attrs > 0) {
    graft_print_text(printer, " {");
    graft_print_attrs(printer, node->op, node->attrs);
    graft_print_text(printer, "}");
  }
  for (uint32_t i = 0; i < node->n_after; ++i) {
    graft_print_format(printer, "%s%%%u", i == 0 ? " after " : ", ", (unsigned)node->after[i]->outputs[0]->id);
  }
  if (node->scope[0] != '\0') {
    graft_print_text(printer, " ");
    graft_print_text(printer, node->scope);
  }
  graft_print_text(printer, "\n");
}

graft_status graft_graph_print(const graft_graph *graph, graft_writer writer) {
  graft_printer printer = {writer, GRAFT_OK};
  for (uint32_t i = 0; i < graph->n_tensors; ++i) {
    const graft_tensor *tensor = graph->tensors[i];
    if (tensor->kind != GRAFT_TENSOR_RESULT) {
      print_leaf(&printer, tensor);
    } else if (tensor->output_index == 0) {
      print_node(&printer, tensor->node);
    }
  }
  for (uint32_t i = 0; i < graph->n_outputs; ++i) {
    graft_print_text(&printer, "output ");
    graft_print_quoted(&printer, graph->outputs[i].name);
    graft_print_format(&printer, " = %%%u\n", (unsigned)graph->outputs[i].tensor->id);
  }
  return printer.status;
}

// The vertex that a value comes from: a node, or the input or constant itself.
static void print_vertex(graft_printer *printer, const graft_tensor *tensor) {
  bool is_result = tensor->kind == GRAFT_TENSOR_RESULT;
  graft_print_format(printer, "%s%u", is_result ? "node" : "leaf",
                     (unsigned)(is_result ? tensor->node->id : tensor->id));
}

static void print_edge(graft_printer *printer, const graft_tensor *from, const char *to, uint32_t index) {
  char label[DESC_TEXT];
  graft_print_text(printer, "  ");
  print_vertex(printer, from);
  graft_print_format(printer, " -> %s%u [label=", to, (unsigned)index);
  graft_print_quoted(printer, graft_tensor_desc_format(&from->desc, label, sizeof label));
  graft_print_text(printer, "];\n");
}

static void print_vertices(graft_printer *printer, const graft_graph *graph) {
  for (uint32_t i = 0; i < graph->n_tensors; ++i) {
    const graft_tensor *tensor = graph->tensors[i];
    if (tensor->kind == GRAFT_TENSOR_RESULT) continue;
    graft_print_format(printer, "  leaf%u [shape=%s, label=", (unsigned)i,
                       tensor->kind == GRAFT_TENSOR_INPUT ? "ellipse" : "note");
    graft_print_quoted(printer, tensor->name);
    graft_print_text(printer, "];\n");
  }
  for (uint32_t i = 0; i < graph->n_nodes; ++i) {
    bool is_view = graph->nodes[i]->op->traits & GRAFT_OP_VIEW;
    graft_print_format(printer, "  node%u [shape=box%s, label=", (unsigned)i, is_view ? ", style=dashed" : "");
    graft_print_quoted(printer, graph->nodes[i]->label);
    graft_print_text(printer, "];\n");
  }
}

graft_status graft_graph_print_dot(const graft_graph *graph, graft_writer writer) {
  graft_printer printer = {writer, GRAFT_OK};
  graft_print_text(&printer, "digraph graft {\n");
  print_vertices(&printer, graph);
  for (uint32_t n = 0; n < graph->n_nodes; ++n) {
    const graft_node *node = graph->nodes[n];
    for (uint32_t i = 0; i < node->n_inputs; ++i) {
      if (node->inputs[i] != NULL) print_edge(&printer, node->inputs[i], "node", n);
    }
    if (node->into != NULL) print_edge(&printer, node->into, "node", n);
    for (uint32_t i = 0; i < node->n_after; ++i) {
      graft_print_format(&printer, "  node%u -> node%u [style=dashed];\n", (unsigned)node->after[i]->id, (unsigned)n);
    }
  }
  for (uint32_t i = 0; i < graph->n_outputs; ++i) {
    graft_print_format(&printer, "  output%u [shape=ellipse, label=", (unsigned)i);
    graft_print_quoted(&printer, graph->outputs[i].name);
    graft_print_text(&printer, "];\n");
    print_edge(&printer, graph->outputs[i].tensor, "output", i);
  }
  graft_print_text(&printer, "}\n");
  return printer.status;
}
