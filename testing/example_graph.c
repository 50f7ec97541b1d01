#include "testing/example_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/helper_ops.h"

static bool is_constant(const graft_testing_graph_setup *setup, uint32_t i) {
  bool is_strided = setup->layout != GRAFT_LAYOUT_CONTIGUOUS && setup->strided_input == i;
  return !is_strided && (setup->example->constants >> i & 1u) != 0;
}

static graft_tensor *add_input(graft_testing_graph *graph, uint32_t i, const graft_tensor_desc *desc,
                               const void *source) {
  char name[16];
  snprintf(name, sizeof name, "x%u", i);
  graph->sources[graph->n_writes] = source;
  graph->sizes[graph->n_writes] = graft_tensor_desc_bytes(desc);
  ++graph->n_writes;
  return graft_graph_input(graph->graph, name, desc);
}

static graft_tensor *add_constant(graft_testing_graph *graph, uint32_t i, const graft_testing_example *example) {
  char name[16];
  snprintf(name, sizeof name, "w%u", i);
  graft_constant constant = {.struct_size = sizeof constant,
                             .data = example->values[i],
                             .bytes = graft_tensor_desc_bytes(&example->inputs[i])};
  return graft_graph_constant(graph->graph, name, &example->inputs[i], &constant);
}

static graft_tensor *add_strided(graft_testing_graph *graph, uint32_t i, const graft_testing_graph_setup *setup) {
  const graft_testing_example *example = setup->example;
  graft_tensor_desc desc, storage;
  size_t offset = 0;
  if (!graft_testing_layout_apply(setup->layout, example->form.repeated[i], &example->inputs[i], &desc, &offset)) {
    return GRAFT_GRAPH_FAIL(graph->graph, GRAFT_E_UNSUPPORTED, "the layout does not apply");
  }
  size_t bytes = offset + graft_tensor_desc_bytes(&desc);
  int64_t n = (int64_t)(bytes / desc.dtype->block_bytes) * desc.dtype->block_elements;
  if (graft_tensor_desc_init(desc.dtype, 1, &n, NULL, &storage) != GRAFT_OK) {
    return GRAFT_GRAPH_FAIL(graph->graph, GRAFT_E_UNSUPPORTED, "no storage of %lld elements", (long long)n);
  }
  graph->storage = malloc(bytes + 1);
  if (graph->storage == NULL) return GRAFT_GRAPH_FAIL(graph->graph, GRAFT_E_NO_MEMORY, "no memory for a strided input");
  memset(graph->storage, 0xff, bytes);
  graft_testing_scatter(&desc, example->values[i], (char *)graph->storage + offset);
  graft_tensor *whole = add_input(graph, i, &storage, graph->storage);
  return graft_testing_strided_view(graph->graph, whole, &desc, offset);
}

static graft_tensor *add_operand(graft_testing_graph *graph, uint32_t i, const graft_testing_graph_setup *setup) {
  const graft_testing_example *example = setup->example;
  if ((example->present >> i & 1u) == 0) return graft_graph_none();
  if (is_constant(setup, i)) return add_constant(graph, i, example);
  if (setup->layout != GRAFT_LAYOUT_CONTIGUOUS && setup->strided_input == i) return add_strided(graph, i, setup);
  graft_tensor *input = add_input(graph, i, &example->inputs[i], example->values[i]);
  return setup->has_intermediates ? graft_testing_identity(graph->graph, input) : input;
}

static void add_nodes(graft_testing_graph *graph, const graft_testing_graph_setup *setup) {
  const graft_testing_example *example = setup->example;
  const uint32_t *shared = example->form.shared;
  graft_tensor *inputs[GRAFT_CASE_MAX_INPUTS], *outputs[GRAFT_MAX_OUTPUTS] = {NULL};
  char name[16];
  for (uint32_t i = 0; i < example->n_inputs; ++i) {
    bool is_second = shared[0] != shared[1] && i == shared[1];
    inputs[i] = is_second ? inputs[shared[0]] : add_operand(graph, i, setup);
  }
  const uint32_t n_outputs = example->op->n_outputs, n_nodes = setup->n_nodes > 0 ? setup->n_nodes : 1;
  for (uint32_t i = 0; i < n_nodes * n_outputs; ++i) {
    if (i % n_outputs == 0) {
      graft_graph_apply(graph->graph, example->op->name, example->attrs, example->op->attrs_bytes, inputs,
                        example->n_inputs, outputs);
    }
    snprintf(name, sizeof name, "y%u", i);
    graft_graph_output(graph->graph, outputs[i % n_outputs], name);
  }
}

graft_status graft_testing_graph_create(const graft_testing_graph_setup *setup, graft_testing_graph *out_graph) {
  graft_testing_graph graph = {0};
  GRAFT_TRY(graft_graph_create(setup->context, &graph.graph));
  add_nodes(&graph, setup);
  graft_status status = graft_graph_status(graph.graph);
  if (status != GRAFT_OK) {
    graft_testing_graph_destroy(&graph);
    return status;
  }
  *out_graph = graph;
  return GRAFT_OK;
}

void graft_testing_graph_destroy(graft_testing_graph *graph) {
  graft_graph_destroy(graph->graph);
  free(graph->storage);
  *graph = (graft_testing_graph){0};
}

graft_status graft_testing_graph_write(const graft_testing_graph *graph, graft_plan *plan) {
  for (uint32_t i = 0; i < graph->n_writes; ++i) {
    GRAFT_TRY(graft_plan_write(plan, i, graph->sources[i], graph->sizes[i]));
  }
  return GRAFT_OK;
}

int64_t graft_testing_find_step(const graft_plan *plan, const graft_op_def *op, const graft_kernel_def *kernel) {
  for (uint32_t i = 0; i < graft_plan_n_steps(plan); ++i) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, i, &info);
    if (strcmp(info.op->name, op->name) != 0) continue;
    if (kernel == NULL || (info.kernel != NULL && strcmp(info.kernel->name, kernel->name) == 0)) return i;
  }
  return -1;
}
