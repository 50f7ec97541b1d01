// example_graph.h — an example as a graph with one node of interest, for checks and benchmarks that go through the
// planner.
#ifndef GRAFT_TESTING_EXAMPLE_GRAPH_H
#define GRAFT_TESTING_EXAMPLE_GRAPH_H

#include "testing/example.h"
#include "testing/layout.h"

// Zero-initialise; `context` and `example` are required.
typedef struct graft_testing_graph_setup {
  graft_context *context;
  const graft_testing_example *example;
  bool has_intermediates;       // inputs that are no constants pass an identity first
  uint32_t strided_input;       // this input is a strided view of a larger one …
  graft_testing_layout layout;  // … laid out so; contiguous: none is
  uint32_t n_nodes;             // of the same operands, each with outputs of its own; 0: one
} graft_testing_graph_setup;

typedef struct graft_testing_graph {
  graft_graph *graph;
  uint32_t n_writes;  // graph inputs, in order, and what to write into them
  const void *sources[GRAFT_CASE_MAX_INPUTS];
  size_t sizes[GRAFT_CASE_MAX_INPUTS];
  void *storage;
} graft_testing_graph;

// Builds the graph; outputs are called "y0", "y1", …, those of further nodes follow. Errors: what the graph reports
// (details in the context), GRAFT_E_UNSUPPORTED when the layout does not apply.
GRAFT_NODISCARD graft_status graft_testing_graph_create(const graft_testing_graph_setup *setup,
                                                        graft_testing_graph *out_graph);
void graft_testing_graph_destroy(graft_testing_graph *graph);

// Writes the example's values into |plan|.
GRAFT_NODISCARD graft_status graft_testing_graph_write(const graft_testing_graph *graph, graft_plan *plan);

// Number of the step of |plan| that computes |op|, by |kernel| unless that is NULL; -1 when there is none.
int64_t graft_testing_find_step(const graft_plan *plan, const graft_op_def *op, const graft_kernel_def *kernel);

#endif
