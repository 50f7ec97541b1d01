// schedule_support.h — what the tests of scheduling share: contexts with devices of private memory, and builders.
#ifndef GRAFT_TESTS_SCHEDULE_SUPPORT_H
#define GRAFT_TESTS_SCHEDULE_SUPPORT_H

#include "plan_mock.h"

typedef struct schedule {
  graft_context *context;
  graft_device *cpu, *first, *second;  // "cpu", "private:0", "private:1"
  graft_graph *graph;
} schedule;

// |words|: graft_context_options.devices, or NULL. Fails the test when something cannot be made.
schedule *schedule_open(int32_t n_threads, const char *words);
// Checks that nothing is left allocated on any device.
void schedule_close(schedule *s);

// Applies |op| to the inputs that are not NULL, over |into|.
graft_tensor *schedule_write(graft_graph *graph, const char *op, plan_attrs attrs, graft_tensor *a, graft_tensor *b,
                             graft_tensor *into);
graft_tensor *schedule_scale(graft_graph *graph, graft_tensor *x, double factor);
graft_tensor *schedule_slice(graft_graph *graph, graft_tensor *x, int64_t first, int64_t n);
graft_tensor *schedule_add(graft_graph *graph, graft_tensor *a, graft_tensor *b);

// A plan for the |n| devices listed, every pass verified.
graft_plan *schedule_plan(const graft_graph *graph, graft_device *const *devices, uint32_t n, uint32_t flags);

void schedule_put(graft_plan *plan, uint32_t input, const float *values, size_t n);
void schedule_run(graft_plan *plan);
void schedule_expect(graft_plan *plan, uint32_t output, const float *expected, size_t n);

// The step whose operator is |op|; fails the test where there is none.
graft_step_info schedule_step(const graft_plan *plan, const char *op);
uint32_t schedule_count(const graft_plan *plan, const char *op);

#endif
