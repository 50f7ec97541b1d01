// plan_mock.h — operators with CPU kernels for tests of planning and running, which link no operator of the project.
// All take and give f32 of rank 2.
#ifndef GRAFT_TESTS_PLAN_MOCK_H
#define GRAFT_TESTS_PLAN_MOCK_H

#include "graft/cpu.h"
#include "graft/plan.h"

// plan.scale.v1: y = factor · x + 1. plan.slice.v1: view of |n| rows from |first|. plan.slow.v1: as scale, in |n|
// items.
typedef struct plan_attrs {
  double factor;
  int64_t first, n;
} plan_attrs;

// plan.add.v1 (a, b), plan.scale.v1 (x): kernels in place, any strides
// plan.mix.v1 (a, b, c or none): a·b + c through a workspace, two tasks; y = a·b + a without c
// plan.split.v1 (x): even rows and odd rows, two outputs
// plan.join.v1 (1 to 4): their rows one below the other; plan.join_twice.v1: the same, and the first input once more
// plan.slice.v1, plan.transpose.v1: views; plan.copy.v1: strides to contiguous
// plan.packed.v1 (x, w): x + w, with w packed (reversed) when it is a constant
// plan.twice.v1 (x): decomposes to add(x, x); plan.nested.v1 (x): to twice(scale(x))
// plan.reference.v1 (x): only a reference, y = 3 · x
// plan.opaque.v1 (x): y = x; counts its runs
// plan.slow.v1 (x): waits in every item until it is told to stop, plan_mock_release() or 2 s
// plan.check.v1 (x): y = x, fails when an element is negative
extern const graft_extension plan_extension;
extern const graft_extension graft_extension_cpu_backend;

int plan_mock_n_opaque_runs(void);
int plan_mock_n_packs(void);
int plan_mock_n_states(void);  // prepared states that are alive
int plan_mock_n_slow_items(void);
void plan_mock_reset(void);
void plan_mock_release(void);  // lets slow items finish at once

// A context with the CPU backend of |n_threads| and the operators above. Fails the test when that cannot be made.
graft_context *plan_mock_context(int32_t n_threads);
graft_device *plan_mock_device(graft_context *context, const char *name);

// Builders. |inputs| end with the arguments of the operator.
graft_tensor *plan_input(graft_graph *graph, const char *name, int64_t rows, int64_t columns);
graft_tensor *plan_constant(graft_graph *graph, const char *name, int64_t rows, int64_t columns, const void *data);
graft_tensor *plan_apply1(graft_graph *graph, const char *op, plan_attrs attrs, graft_tensor *a);
graft_tensor *plan_apply2(graft_graph *graph, const char *op, graft_tensor *a, graft_tensor *b);
graft_tensor *plan_mix(graft_graph *graph, graft_tensor *a, graft_tensor *b, graft_tensor *c);
// |op|: plan.join.v1, or plan.join_twice.v1, whose second output nobody reads.
graft_tensor *plan_join(graft_graph *graph, const char *op, graft_tensor *const *inputs, uint32_t n);
void plan_split(graft_graph *graph, graft_tensor *x, graft_tensor **out_halves);

// Makes a plan with every pass verified; fails the test when it cannot be made.
graft_plan *plan_make(const graft_graph *graph, graft_device *device, uint32_t flags);
// Same, from options.
graft_plan *plan_make_with(const graft_graph *graph, graft_plan_options options);

#endif
