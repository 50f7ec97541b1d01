// run_graph.h — builds a small graph of operators, runs it and hands back the values.
#ifndef GRAFT_TESTS_OPS_RUN_GRAPH_H
#define GRAFT_TESTS_OPS_RUN_GRAPH_H

#include "graft/graft.h"

// A context with everything that comes with graft and an empty graph. Fails the test when that cannot be made.
typedef struct test_graph {
  graft_context *context;
  graft_graph *graph;
} test_graph;

test_graph test_graph_open(void);
void test_graph_close(test_graph *test);

// A constant of the given shape and values, which stay the caller's.
graft_tensor *test_constant(const test_graph *test, graft_dtype dtype, int32_t rank, const int64_t *shape,
                            const void *values);

// Runs the graph up to |tensor|, by references only or by whatever kernels are chosen, and copies |bytes| of it.
graft_status test_run(const test_graph *test, graft_tensor *tensor, uint32_t plan_flags, void *out, size_t bytes);

// Fails the test unless the graph has failed with |status| and a sentence that holds |text|.
void test_assert_refused(const test_graph *test, graft_status status, const char *text);

#endif
