// What running costs beyond the kernels: a thousand nodes that do nothing, on one thread.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "schedule_support.h"

enum { N_NODES = 1000, N_TRIES = 300 };

static volatile int n_calls;

static void do_nothing(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)args;
  (void)item;
  (void)worker;
  n_calls = n_calls + 1;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return graft_cpu_encode(encoder, &(graft_cpu_task){.run = do_nothing, .n_items = 1}, args->error);
}

static graft_status infer(graft_infer_args *args) {
  args->outputs[0] = *args->inputs[0];
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  return GRAFT_FAIL(args->error, GRAFT_E_UNSUPPORTED, "for show");
}

static const graft_op_def op = {.struct_size = sizeof op,
                                .name = "bench.empty.v1",
                                .min_inputs = 1,
                                .max_inputs = 1,
                                .n_outputs = 1,
                                .traits = GRAFT_OP_PURE,
                                .infer = infer,
                                .reference = reference};
static const graft_kernel_def kernel = {.struct_size = sizeof kernel,
                                        .name = "empty__cpu",
                                        .op = "bench.empty.v1",
                                        .backend = "cpu",
                                        .in_place_inputs = 1,
                                        .encode = encode};
static const graft_extension bench = {.struct_size = sizeof bench,
                                      .abi_version = GRAFT_ABI_VERSION,
                                      .name = "tests.bench",
                                      .vendor = "tests",
                                      .ops = &op,
                                      .n_ops = 1,
                                      .kernels = &kernel,
                                      .n_kernels = 1};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double least_run(graft_plan *plan) {
  double least = 1;
  for (int i = 0; i < N_TRIES; ++i) {
    double begin = seconds();
    schedule_run(plan);
    double took = seconds() - begin;
    if (took < least) least = took;
  }
  return least;
}

static double least_calls(void) {
  double least = 1;
  const graft_cpu_worker worker = {0};
  for (int i = 0; i < N_TRIES; ++i) {
    double begin = seconds();
    for (int n = 0; n < N_NODES; ++n) do_nothing(NULL, 0, &worker);
    double took = seconds() - begin;
    if (took < least) least = took;
  }
  return least;
}

static void SC3_a_thousand_empty_nodes_cost_little(void **state) {
  (void)state;
  schedule *s = schedule_open(1, NULL);
  assert_int_equal(graft_context_register(s->context, &bench), GRAFT_OK);
  graft_tensor *x = plan_input(s->graph, "x", 1, 1);
  for (int i = 0; i < N_NODES; ++i) {
    graft_tensor *out[GRAFT_MAX_OUTPUTS];
    graft_graph_apply(s->graph, "bench.empty.v1", NULL, 0, &x, 1, out);
    x = out[0];
  }
  graft_graph_output(s->graph, x, "y");
  double begin = seconds();
  graft_plan *plan = plan_make(s->graph, s->cpu, 0);
  double planned = seconds() - begin;
  schedule_put(plan, 0, (const float[]){1}, 1);
  double calls = least_calls(), run = least_run(plan);
  double overhead = (run - calls) / N_NODES;
  printf("1000 empty nodes: planned in %.2f ms, %.0f ns a node beyond the kernels\n", planned * 1e3, overhead * 1e9);
  assert_true(overhead <= 0.2e-6);
  graft_plan_destroy(plan);
  schedule_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(SC3_a_thousand_empty_nodes_cost_little)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
