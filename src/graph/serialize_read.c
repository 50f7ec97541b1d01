// Graphs from text that may come from anywhere: everything is checked again by the functions that build graphs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graft/serialize.h"
#include "graft/versioned.h"
#include "src/graph/serialize.h"

typedef struct loader {
  graft_text_reader reader;
  graft_context *context;
  graft_graph *graph;
  graft_graph_source source;
} loader;

// The graph's own failure, with the line.
static graft_status fail_with_graph(loader *l) {
  graft_status status = graft_graph_status(l->graph);
  *l->reader.error = *graft_graph_error(l->graph);
  graft_error_note(l->reader.error, "in line %u", (unsigned)l->reader.line);
  return status;
}

static graft_status read_id(loader *l, graft_tensor **out_tensor) {
  int64_t id;
  GRAFT_TRY(graft_text_expect(&l->reader, "%"));
  GRAFT_TRY(graft_text_i64(&l->reader, &id));
  if (id < 0 || id >= (int64_t)l->graph->n_tensors)
    return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "%%%lld is no value that was made before", (long long)id);
  *out_tensor = l->graph->tensors[id];
  return GRAFT_OK;
}

// "f32[2, 4]", as inputs and constants have it.
static graft_status read_desc(loader *l, graft_tensor_desc *out_desc) {
  graft_dtype dtype;
  int64_t shape[GRAFT_MAX_RANK];
  int32_t rank = 0;
  GRAFT_TRY(graft_text_dtype(&l->reader, l->context, &dtype));
  GRAFT_TRY(graft_text_expect(&l->reader, "["));
  while (!graft_text_take(&l->reader, "]")) {
    if (rank > 0) GRAFT_TRY(graft_text_expect(&l->reader, ","));
    if (rank == GRAFT_MAX_RANK)
      return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "a shape has more than %d dimensions", GRAFT_MAX_RANK);
    GRAFT_TRY(graft_text_i64(&l->reader, &shape[rank++]));
  }
  graft_status status = graft_tensor_desc_init(dtype, rank, shape, l->reader.error, out_desc);
  if (status != GRAFT_OK) graft_error_note(l->reader.error, "in line %u", (unsigned)l->reader.line);
  return status;
}

static graft_status find_constant(loader *l, const char *name, const graft_tensor_desc *desc,
                                  graft_constant *out_constant) {
  *out_constant = (graft_constant){.struct_size = sizeof *out_constant};
  if (l->source.find_constant == NULL)
    return graft_text_fail(&l->reader, GRAFT_E_NOT_FOUND,
                           "constant \"%.100s\" is asked for, and nobody knows its bytes", name);
  graft_error *error = l->reader.error;
  *error = (graft_error){0};
  graft_status status = l->source.find_constant(l->source.user, name, desc, error, out_constant);
  if (status != GRAFT_OK && error->status == GRAFT_OK)
    return graft_text_fail(&l->reader, status, "constant \"%.100s\" could not be found", name);
  return status;
}

static graft_status read_leaf(loader *l, const graft_tensor_desc *desc, bool is_input) {
  char *name = NULL;
  GRAFT_TRY(graft_text_quoted(&l->reader, &name));
  if (is_input) {
    graft_graph_input(l->graph, name, desc);
  } else {
    graft_constant constant;
    GRAFT_TRY(find_constant(l, name, desc, &constant));
    graft_graph_constant(l->graph, name, desc, &constant);
  }
  return graft_graph_status(l->graph) == GRAFT_OK ? GRAFT_OK : fail_with_graph(l);
}

// Says which other version there is, if any.
static graft_status fail_unknown_op(loader *l, const char *name) {
  const char *version = strrchr(name, '.');
  size_t n = version == NULL ? 0 : (size_t)(version - name) + 1;
  for (uint32_t i = 0; n > 0 && i < graft_context_n_ops(l->context); ++i) {
    const char *other = graft_context_op(l->context, i)->name;
    if (strncmp(other, name, n) == 0)
      return graft_text_fail(&l->reader, GRAFT_E_NOT_FOUND, "there is no operator %s here, only %s", name, other);
  }
  return graft_text_fail(&l->reader, GRAFT_E_NOT_FOUND,
                         "there is no operator %.100s here; load the plug-in or register the extension that brings it",
                         name);
}

static graft_status read_op(loader *l, const graft_op_def **out_op) {
  const char *word;
  char name[128];
  size_t n = graft_text_word(&l->reader, &word);
  if (n == 0 || n >= sizeof name)
    return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "expected input, constant or the name of an operator");
  memcpy(name, word, n);
  name[n] = '\0';
  *out_op = graft_context_find_op(l->context, name);
  return *out_op != NULL ? GRAFT_OK : fail_unknown_op(l, name);
}

// What stands right of "=".
typedef struct application {
  const graft_op_def *op;
  graft_tensor *inputs[GRAFT_MAX_INPUTS];
  uint32_t n_inputs;
  graft_tensor *into;
  void *attrs;
  const char *scope;
} application;

static graft_status read_inputs(loader *l, application *call) {
  GRAFT_TRY(graft_text_expect(&l->reader, "("));
  while (!graft_text_take(&l->reader, ")")) {
    if (call->n_inputs > 0) GRAFT_TRY(graft_text_expect(&l->reader, ","));
    if (call->n_inputs == GRAFT_MAX_INPUTS)
      return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "more than %d inputs", GRAFT_MAX_INPUTS);
    graft_tensor **input = &call->inputs[call->n_inputs++];
    if (graft_text_take(&l->reader, "none")) *input = graft_graph_none();
    else GRAFT_TRY(read_id(l, input));
  }
  return graft_text_take(&l->reader, "->") ? read_id(l, &call->into) : GRAFT_OK;
}

static graft_status read_rest(loader *l, application *call) {
  const graft_op_def *op = call->op;
  call->attrs = calloc(1, (size_t)op->attrs_bytes + 1);
  if (call->attrs == NULL) return graft_text_fail(&l->reader, GRAFT_E_NO_MEMORY, "no memory for attributes");
  graft_op_default_attrs(op, call->attrs);
  graft_text_skip_spaces(&l->reader);
  if (*l->reader.at == '{') GRAFT_TRY(graft_text_attrs(&l->reader, l->context, op, call->attrs));
  graft_text_skip_spaces(&l->reader);
  call->scope = "";
  char *scope = NULL;
  if (*l->reader.at != '"') return GRAFT_OK;
  GRAFT_TRY(graft_text_quoted(&l->reader, &scope));
  call->scope = scope;
  return GRAFT_OK;
}

// A writer that compares with what stands in a text.
typedef struct comparison {
  const char *at;
  size_t n;
  bool is_different;
} comparison;

static graft_status compare(void *user, const char *text, size_t size) {
  comparison *c = user;
  c->is_different = c->is_different || size > c->n || memcmp(c->at, text, size) != 0;
  if (c->is_different) return GRAFT_OK;
  c->at += size;
  c->n -= size;
  return GRAFT_OK;
}

// The text says what the results look like; inference has the last word.
static graft_status check_results(loader *l, const graft_node *node, const char *results, size_t n) {
  comparison c = {results, n, false};
  graft_printer printer = {{compare, &c}, GRAFT_OK};
  graft_serialize_results(&printer, node);
  if (!c.is_different && c.n == 0) return GRAFT_OK;
  char text[128];
  graft_tensor_desc_format(&node->outputs[0]->desc, text, sizeof text);
  return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "\"%.*s\" is not what %s gives: %%%u %s", (int)(n < 120 ? n : 120),
                         results, node->op->name, (unsigned)node->outputs[0]->id, text);
}

static graft_status apply(loader *l, const application *call) {
  graft_tensor *outputs[GRAFT_MAX_OUTPUTS] = {NULL};
  const graft_application asked = {.struct_size = sizeof asked,
                                   .op = call->op->name,
                                   .attrs = call->attrs,
                                   .attrs_bytes = call->op->attrs_bytes,
                                   .inputs = call->inputs,
                                   .n_inputs = call->n_inputs,
                                   .into = call->into};
  if (call->scope[0] != '\0') graft_graph_scope_push(l->graph, "%s", call->scope);
  graft_graph_apply_into(l->graph, &asked, outputs);
  if (call->scope[0] != '\0') graft_graph_scope_pop(l->graph);
  return graft_graph_status(l->graph) == GRAFT_OK ? GRAFT_OK : fail_with_graph(l);
}

static graft_status read_node(loader *l, const char *results, size_t n) {
  application call = {0};
  graft_status status = read_op(l, &call.op);
  if (status == GRAFT_OK) status = read_inputs(l, &call);
  if (status == GRAFT_OK) status = read_rest(l, &call);
  if (status == GRAFT_OK) status = apply(l, &call);
  free(call.attrs);
  return status == GRAFT_OK ? check_results(l, l->graph->nodes[l->graph->n_nodes - 1], results, n) : status;
}

// A line that begins with "%".
static graft_status read_value(loader *l) {
  const char *line = l->reader.at;
  size_t n = strcspn(line, "=\n");
  size_t n_results = n;
  while (n_results > 0 && line[n_results - 1] == ' ') --n_results;
  graft_text_reader ahead = l->reader;
  ahead.at += n;
  GRAFT_TRY(graft_text_expect(&ahead, "="));
  bool is_input = graft_text_take(&ahead, "input \""),
       is_constant = !is_input && graft_text_take(&ahead, "constant \"");
  if (!is_input && !is_constant) {
    l->reader = ahead;
    return read_node(l, line, n_results);
  }
  int64_t id;
  graft_tensor_desc desc;
  GRAFT_TRY(graft_text_expect(&l->reader, "%"));
  GRAFT_TRY(graft_text_i64(&l->reader, &id));
  if (id != (int64_t)l->graph->n_tensors)
    return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "the next value is %%%u, not %%%lld",
                           (unsigned)l->graph->n_tensors, (long long)id);
  GRAFT_TRY(read_desc(l, &desc));
  GRAFT_TRY(graft_text_expect(&l->reader, "="));
  GRAFT_TRY(graft_text_expect(&l->reader, is_input ? "input" : "constant"));
  return read_leaf(l, &desc, is_input);
}

static graft_status read_output(loader *l) {
  char *name = NULL;
  graft_tensor *tensor = NULL;
  GRAFT_TRY(graft_text_quoted(&l->reader, &name));
  GRAFT_TRY(graft_text_expect(&l->reader, "="));
  GRAFT_TRY(read_id(l, &tensor));
  graft_graph_output(l->graph, tensor, name);
  return graft_graph_status(l->graph) == GRAFT_OK ? GRAFT_OK : fail_with_graph(l);
}

// Nothing but spaces up to the end of the line, which is stepped over.
static graft_status end_line(loader *l) {
  graft_text_skip_spaces(&l->reader);
  if (*l->reader.at != '\0') GRAFT_TRY(graft_text_expect(&l->reader, "\n"));
  ++l->reader.line;
  return GRAFT_OK;
}

static graft_status read_header(loader *l) {
  int64_t version;
  if (!graft_text_take(&l->reader, GRAFT_SERIALIZE_MAGIC " "))
    return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "no graph: it must begin with \"" GRAFT_SERIALIZE_MAGIC " 1\"");
  GRAFT_TRY(graft_text_i64(&l->reader, &version));
  if (version > GRAFT_GRAPH_FORMAT_VERSION)
    return graft_text_fail(&l->reader, GRAFT_E_UNSUPPORTED,
                           "format %lld is newer than this graft knows (%d); update graft", (long long)version,
                           GRAFT_GRAPH_FORMAT_VERSION);
  if (version != GRAFT_GRAPH_FORMAT_VERSION)
    return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "there is no format %lld", (long long)version);
  return end_line(l);
}

static graft_status read_lines(loader *l) {
  GRAFT_TRY(read_header(l));
  while (*l->reader.at != '\0') {
    graft_text_skip_spaces(&l->reader);
    if (graft_text_take(&l->reader, "end")) {
      GRAFT_TRY(end_line(l));
      if (*l->reader.at == '\0') return GRAFT_OK;
      return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "there is more behind the end");
    }
    if (*l->reader.at == '%') GRAFT_TRY(read_value(l));
    else if (graft_text_take(&l->reader, "output ")) GRAFT_TRY(read_output(l));
    else if (*l->reader.at == '#') l->reader.at += strcspn(l->reader.at, "\n");
    GRAFT_TRY(end_line(l));
  }
  return graft_text_fail(&l->reader, GRAFT_E_FORMAT, "the text is cut: there is no line \"end\"");
}

graft_status graft_graph_load(graft_context *context, const char *text, size_t bytes, const graft_graph_source *source,
                              graft_graph **out_graph) {
  graft_error *error = graft_context_error_slot(context);
  loader l = {.reader = {.line = 1, .error = error}, .context = context};
  if (source != NULL)
    GRAFT_TRY(graft_versioned_copy(&l.source, sizeof l.source, source, "a graft_graph_source", error));
  if (bytes > 0 && memchr(text, 0, bytes) != NULL)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "the text of a graph has a zero byte in it");
  char *copy = bytes == SIZE_MAX ? NULL : malloc(bytes + 1);
  if (copy == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for a text of %zu bytes", bytes);
  if (bytes > 0) memcpy(copy, text, bytes);
  copy[bytes] = '\0';
  l.reader.at = copy;
  graft_status status = graft_graph_create(context, &l.graph);
  if (status == GRAFT_OK) status = read_lines(&l);
  free(copy);
  if (status == GRAFT_OK) *out_graph = l.graph;
  else graft_graph_destroy(l.graph);
  return status;
}
