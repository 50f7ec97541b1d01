#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "graft/versioned.h"
#include "src/base/array.h"
#include "src/base/text.h"
#include "src/graph/builder.h"
#include "src/run/context_internal.h"

static const graft_tensor none = {.name = "none", .desc = {.dtype = &graft_dtype_f32}};
static const graft_tensor_desc failed_desc = {.dtype = &graft_dtype_f32};

// The sentinel's address is a name; nothing writes through it.
graft_tensor *graft_graph_none(void) {
  return (graft_tensor *)(uintptr_t)&none;
}

graft_status graft_graph_create(graft_context *context, graft_graph **out_graph) {
  graft_graph *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return GRAFT_FAIL(graft_context_error_slot(context), GRAFT_E_NO_MEMORY, "no memory for a graph");
  graph->context = context;
  graft_context_retain_user(context);
  *out_graph = graph;
  return GRAFT_OK;
}

void graft_graph_destroy(graft_graph *graph) {
  if (graph == NULL) return;
  graft_context_release_user(graph->context);
  free(graph->nodes);
  free(graph->tensors);
  free(graph->inputs);
  free(graph->outputs);
  free(graph->input_names.slots);
  free(graph->output_names.slots);
  graft_arena_release(&graph->arena);
  free(graph);
}

graft_context *graft_graph_context(const graft_graph *graph) {
  return graph->context;
}

graft_tensor *graft_graph_record_failure(graft_graph *graph, const graft_error *error) {
  if (graph->error.status != GRAFT_OK) return NULL;
  graph->error = *error;
  *graft_context_error_slot(graph->context) = *error;
  return NULL;
}

graft_tensor *graft_graph_fail(graft_graph *graph, graft_status status, const char *file, int line, const char *format,
                               ...) {
  if (graph->error.status != GRAFT_OK) return NULL;
  char message[sizeof graph->error.message];
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(message, sizeof message, format, arguments);
  va_end(arguments);
  graft_error error;
  graft_error_set(&error, status == GRAFT_OK ? GRAFT_E_INVALID : status, file, line, "%s", message);
  return graft_graph_record_failure(graph, &error);
}

graft_status graft_graph_status(const graft_graph *graph) {
  return graph->error.status;
}

const graft_error *graft_graph_error(const graft_graph *graph) {
  return &graph->error;
}

graft_status graft_graph_check_tensor(const graft_graph *graph, const graft_tensor *tensor, const char *role,
                                      graft_error *error) {
  if (tensor == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is NULL", role);
  if (tensor == &none)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is left out (graft_graph_none), but it is not optional", role);
  if (tensor->graph != graph)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s (%s) belongs to another graph", role, tensor->name);
  return GRAFT_OK;
}

graft_status graft_graph_reserve_tensors(graft_graph *graph, uint32_t extra, graft_error *error) {
  graft_tensor **tensors =
      graft_array_reserve(graph->tensors, graph->n_tensors, extra, &graph->tensor_capacity, sizeof *graph->tensors);
  if (tensors == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for more than %u values in a graph",
                      (unsigned)graph->n_tensors);
  graph->tensors = tensors;
  return GRAFT_OK;
}

// Checks name and description of an input or constant and makes the tensor, which is not yet in the graph's list.
static graft_status make_leaf(graft_graph *graph, graft_tensor_kind kind, const char *name,
                              const graft_tensor_desc *desc, graft_tensor **out_leaf, graft_error *error) {
  const char *what = kind == GRAFT_TENSOR_INPUT ? "an input" : "a constant";
  if (name == NULL || name[0] == '\0') return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s needs a name", what);
  if (desc == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s \"%s\" has no description", what, name);
  graft_tensor_desc plain;
  graft_status status = graft_tensor_desc_init(desc->dtype, desc->rank, desc->shape, error, &plain);
  if (status != GRAFT_OK) {
    graft_error_note(error, "describing %s \"%s\"", what, name);
    return status;
  }
  if (!graft_tensor_desc_is_contiguous(desc))
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "%s \"%s\" is not contiguous; inputs and constants must be", what, name);
  GRAFT_TRY(graft_graph_reserve_tensors(graph, 1, error));
  graft_tensor *leaf = graft_arena_alloc(&graph->arena, sizeof *leaf);
  char *copy = leaf == NULL ? NULL : graft_arena_copy_string(&graph->arena, name);
  if (copy == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for %s \"%s\"", what, name);
  *leaf = (graft_tensor){.graph = graph, .kind = kind, .desc = plain, .name = copy};
  *out_leaf = leaf;
  return GRAFT_OK;
}

static graft_tensor *add_leaf(graft_graph *graph, graft_tensor *leaf) {
  leaf->id = graph->n_tensors;
  graph->tensors[graph->n_tensors++] = leaf;
  return leaf;
}

static const char *input_name_at(const graft_graph *graph, uint32_t index) {
  return index < graph->n_inputs ? graph->inputs[index]->name : NULL;
}

static const char *output_name_at(const graft_graph *graph, uint32_t index) {
  return index < graph->n_outputs ? graph->outputs[index].name : NULL;
}

static graft_status make_input(graft_graph *graph, const char *name, const graft_tensor_desc *desc,
                               graft_tensor **out_input, graft_error *error) {
  if (name != NULL && graft_graph_find_input(graph, name) != NULL)
    return GRAFT_FAIL(error, GRAFT_E_EXISTS, "the graph has an input \"%s\" already", name);
  graft_tensor **inputs =
      graft_array_reserve(graph->inputs, graph->n_inputs, 1, &graph->input_capacity, sizeof *graph->inputs);
  if (inputs != NULL) graph->inputs = inputs;
  if (inputs == NULL || !graft_graph_names_reserve(&graph->input_names, graph, input_name_at))
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for another input");
  return make_leaf(graph, GRAFT_TENSOR_INPUT, name, desc, out_input, error);
}

graft_tensor *graft_graph_input(graft_graph *graph, const char *name, const graft_tensor_desc *desc) {
  if (graph->error.status != GRAFT_OK) return NULL;
  graft_error error = {0};
  graft_tensor *input = NULL;
  if (make_input(graph, name, desc, &input, &error) != GRAFT_OK) return graft_graph_record_failure(graph, &error);
  graft_graph_names_add(&graph->input_names, input->name, graph->n_inputs);
  graph->inputs[graph->n_inputs++] = input;
  return add_leaf(graph, input);
}

static graft_status make_constant(graft_graph *graph, const char *name, const graft_tensor_desc *desc,
                                  const graft_constant *constant, graft_tensor **out_constant, graft_error *error) {
  graft_tensor *leaf = NULL;
  GRAFT_TRY(make_leaf(graph, GRAFT_TENSOR_CONSTANT, name, desc, &leaf, error));
  if (constant == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "constant \"%s\" has no bytes", name);
  GRAFT_TRY(graft_versioned_copy(&leaf->constant, sizeof leaf->constant, constant, "a graft_constant", error));
  size_t needed = graft_tensor_desc_bytes(&leaf->desc);
  if (leaf->constant.bytes < needed)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "constant \"%s\" has %zu bytes; its description covers %zu", name,
                      leaf->constant.bytes, needed);
  if (leaf->constant.data == NULL && needed > 0)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the data of constant \"%s\" is NULL", name);
  *out_constant = leaf;
  return GRAFT_OK;
}

graft_tensor *graft_graph_constant(graft_graph *graph, const char *name, const graft_tensor_desc *desc,
                                   const graft_constant *constant) {
  if (graph->error.status != GRAFT_OK) return NULL;
  graft_error error = {0};
  graft_tensor *leaf = NULL;
  if (make_constant(graph, name, desc, constant, &leaf, &error) != GRAFT_OK)
    return graft_graph_record_failure(graph, &error);
  return add_leaf(graph, leaf);
}

static graft_status add_output(graft_graph *graph, graft_tensor *tensor, const char *name, graft_error *error) {
  if (name == NULL || name[0] == '\0') return GRAFT_FAIL(error, GRAFT_E_INVALID, "an output needs a name");
  GRAFT_TRY(graft_graph_check_tensor(graph, tensor, "the output", error));
  if (graft_graph_find_output(graph, name) != NULL)
    return GRAFT_FAIL(error, GRAFT_E_EXISTS, "the graph has an output \"%s\" already", name);
  graft_graph_output_entry *outputs =
      graft_array_reserve(graph->outputs, graph->n_outputs, 1, &graph->output_capacity, sizeof *graph->outputs);
  if (outputs != NULL) graph->outputs = outputs;
  const bool has_room = outputs != NULL && graft_graph_names_reserve(&graph->output_names, graph, output_name_at);
  const char *copy = has_room ? graft_arena_copy_string(&graph->arena, name) : NULL;
  if (copy == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for output \"%s\"", name);
  graft_graph_names_add(&graph->output_names, copy, graph->n_outputs);
  outputs[graph->n_outputs++] = (graft_graph_output_entry){tensor, copy};
  tensor->is_output = true;
  return GRAFT_OK;
}

void graft_graph_output(graft_graph *graph, graft_tensor *tensor, const char *name) {
  if (graph->error.status != GRAFT_OK) return;
  graft_error error = {0};
  if (add_output(graph, tensor, name, &error) != GRAFT_OK) graft_graph_record_failure(graph, &error);
}

enum { MAX_SCOPES = sizeof((graft_graph *)0)->scope_lengths / sizeof(uint32_t) };

void graft_graph_scope_push(graft_graph *graph, const char *format, ...) {
  uint32_t depth = graph->scope_depth++;
  if (depth >= MAX_SCOPES) return;
  size_t length = strlen(graph->scope);
  graph->scope_lengths[depth] = (uint32_t)length;
  if (length > 0 && length < sizeof graph->scope - 1) graph->scope[length++] = '.';
  va_list arguments;
  va_start(arguments, format);
  graft_text_format(graph->scope + length, sizeof graph->scope - length, format, arguments);
  va_end(arguments);
}

void graft_graph_scope_pop(graft_graph *graph) {
  if (graph->scope_depth == 0) {
    GRAFT_GRAPH_FAIL(graph, GRAFT_E_INVALID, "graft_graph_scope_pop without a graft_graph_scope_push");
    return;
  }
  uint32_t depth = --graph->scope_depth;
  if (depth < MAX_SCOPES) graph->scope[graph->scope_lengths[depth]] = '\0';
}

const graft_tensor_desc *graft_tensor_describe(const graft_tensor *tensor) {
  return tensor == NULL ? &failed_desc : &tensor->desc;
}

const char *graft_tensor_name(const graft_tensor *tensor) {
  return tensor == NULL ? "" : tensor->name;
}

uint32_t graft_graph_n_nodes(const graft_graph *graph) {
  return graph->n_nodes;
}
uint32_t graft_graph_n_inputs(const graft_graph *graph) {
  return graph->n_inputs;
}
uint32_t graft_graph_n_outputs(const graft_graph *graph) {
  return graph->n_outputs;
}

graft_tensor *graft_graph_input_at(const graft_graph *graph, uint32_t index) {
  return index < graph->n_inputs ? graph->inputs[index] : NULL;
}

graft_tensor *graft_graph_output_at(const graft_graph *graph, uint32_t index, const char **out_name) {
  if (index >= graph->n_outputs) return NULL;
  if (out_name != NULL) *out_name = graph->outputs[index].name;
  return graph->outputs[index].tensor;
}

graft_tensor *graft_graph_find_input(const graft_graph *graph, const char *name) {
  return graft_graph_input_at(graph, graft_graph_names_find(&graph->input_names, graph, input_name_at, name));
}

graft_tensor *graft_graph_find_output(const graft_graph *graph, const char *name) {
  const uint32_t index = graft_graph_names_find(&graph->output_names, graph, output_name_at, name);
  return graft_graph_output_at(graph, index, NULL);
}
