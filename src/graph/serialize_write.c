// Graphs as text; serialize_read.c reads it back.
#include "graft/serialize.h"
#include "src/graph/graph_internal.h"
#include "src/graph/printer.h"
#include "src/graph/serialize.h"

void graft_serialize_value(graft_printer *printer, const graft_tensor *tensor) {
  char text[512];
  graft_print_format(printer, "%%%u ", (unsigned)tensor->id);
  graft_print_text(printer, graft_tensor_desc_format(&tensor->desc, text, sizeof text));
}

void graft_serialize_results(graft_printer *printer, const graft_node *node) {
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    graft_print_text(printer, i == 0 ? "" : ", ");
    graft_serialize_value(printer, node->outputs[i]);
  }
}

static void write_leaf(graft_printer *printer, const graft_tensor *leaf) {
  graft_serialize_value(printer, leaf);
  graft_print_text(printer, leaf->kind == GRAFT_TENSOR_INPUT ? " = input " : " = constant ");
  graft_print_quoted(printer, leaf->name);
  graft_print_text(printer, "\n");
}

static void write_node(graft_printer *printer, const graft_node *node) {
  graft_serialize_results(printer, node);
  graft_print_text(printer, " = ");
  graft_print_text(printer, node->op->name);
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    graft_print_text(printer, i == 0 ? "(" : ", ");
    if (node->inputs[i] == NULL) graft_print_text(printer, "none");
    else graft_print_format(printer, "%%%u", (unsigned)node->inputs[i]->id);
  }
  graft_print_text(printer, node->n_inputs == 0 ? "()" : ")");
  if (node->into != NULL) graft_print_format(printer, " -> %%%u", (unsigned)node->into->id);
  if (node->op->n_attrs > 0) {
    graft_print_text(printer, " {");
    graft_print_attrs(printer, node->op, node->attrs);
    graft_print_text(printer, "}");
  }
  if (node->scope[0] != '\0') {
    graft_print_text(printer, " ");
    graft_print_quoted(printer, node->scope);
  }
  graft_print_text(printer, "\n");
}

graft_status graft_graph_save(const graft_graph *graph, graft_writer writer) {
  GRAFT_TRY(graft_graph_status(graph));
  graft_printer printer = {writer, GRAFT_OK};
  graft_print_format(&printer, GRAFT_SERIALIZE_MAGIC " %d\n", GRAFT_GRAPH_FORMAT_VERSION);
  for (uint32_t i = 0; i < graph->n_tensors; ++i) {
    const graft_tensor *tensor = graph->tensors[i];
    if (tensor->kind != GRAFT_TENSOR_RESULT) write_leaf(&printer, tensor);
    else if (tensor->output_index == 0) write_node(&printer, tensor->node);
  }
  for (uint32_t i = 0; i < graph->n_outputs; ++i) {
    graft_print_text(&printer, "output ");
    graft_print_quoted(&printer, graph->outputs[i].name);
    graft_print_format(&printer, " = %%%u\n", (unsigned)graph->outputs[i].tensor->id);
  }
  graft_print_text(&printer, "end\n");
  return printer.status;
}
