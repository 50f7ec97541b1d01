// Tensors that no machine holds are refused while a plan is made, and at once: for every operator, with each size that
// a case has made so large wherever it stands.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "graft/graft.h"

enum { MOST_SECONDS = 2 };  // of the processor's time, for one plan

typedef struct fixture {
  graft_context *context;
  graft_device *device;
  void *zeros;  // as many as any case's constants have
  uint32_t n_refused;
} fixture;

enum { ZEROS_BYTES = 1 << 24 };

static graft_tensor *add_input(const fixture *f, graft_graph *graph, const graft_case_input *input, uint32_t index,
                               int64_t size, int64_t factor) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  graft_error error = {0};
  graft_tensor_desc desc;
  int64_t shape[GRAFT_MAX_RANK];
  if (!input->dtype) return graft_graph_none();
  for (int32_t d = 0; d < input->rank; ++d) {
    shape[d] = input->shape[d] == size && !input->is_constant ? size * factor : input->shape[d];
  }
  if (graft_tensor_desc_init(input->dtype, input->rank, shape, &error, &desc) != GRAFT_OK) return NULL;
  if (!input->is_constant) return graft_graph_input(graph, names[index], &desc);
  const graft_constant constant = {
      .struct_size = sizeof constant, .data = f->zeros, .bytes = graft_tensor_desc_bytes(&desc)};
  return constant.bytes > ZEROS_BYTES ? NULL : graft_graph_constant(graph, names[index], &desc, &constant);
}

// Whether the operator takes |sample| with every |size| of its inputs that are not constants |factor| times as large.
static bool build(const fixture *f, graft_graph *graph, const graft_op_def *op, const graft_op_case *sample,
                  int64_t size, int64_t factor) {
  graft_tensor *inputs[GRAFT_CASE_MAX_INPUTS], *outputs[GRAFT_MAX_OUTPUTS] = {0};
  for (uint32_t i = 0; i < sample->n_inputs; ++i) {
    inputs[i] = add_input(f, graph, &sample->inputs[i], i, size, factor);
    if (!inputs[i]) return false;
  }
  graft_graph_apply(graph, op->name, sample->attrs, sample->attrs ? op->attrs_bytes : 0, inputs, sample->n_inputs,
                    outputs);
  if (graft_graph_status(graph) != GRAFT_OK) return false;
  for (uint32_t i = 0; i < op->n_outputs; ++i) graft_graph_output(graph, outputs[i], i == 0 ? "y" : "z");
  return graft_graph_status(graph) == GRAFT_OK;
}

static void check(fixture *f, const graft_op_def *op, const graft_op_case *sample, int64_t size, int64_t factor) {
  graft_graph *graph = NULL;
  graft_plan *plan = NULL;
  assert_int_equal(graft_graph_create(f->context, &graph), GRAFT_OK);
  if (build(f, graph, op, sample, size, factor)) {
    const graft_plan_options options = {.struct_size = sizeof options, .device = f->device};
    const clock_t begin = clock();
    const graft_status status = graft_plan_create(graph, &options, &plan);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    f->n_refused += status == GRAFT_E_NO_MEMORY;
    if (status == GRAFT_OK || seconds > MOST_SECONDS) {
      fail_msg("%s, case %s, %lld times %lld: status %d after %.1f s", op->name, sample->name, (long long)size,
               (long long)factor, (int)status, seconds);
    }
  }
  graft_plan_destroy(plan);
  graft_graph_destroy(graph);
}

static void check_sizes(fixture *f, const graft_op_def *op, const graft_op_case *sample) {
  const graft_case_input *x = &sample->inputs[0];
  if (sample->flags & GRAFT_CASE_BENCH) return;
  for (int32_t d = 0; d < x->rank; ++d) {
    if (x->shape[d] == 0) return;
  }
  for (int32_t d = 0; x->dtype && !x->is_constant && d < x->rank; ++d) {
    check(f, op, sample, x->shape[d], (INT64_C(1) << 46) / x->shape[d]);
    check(f, op, sample, x->shape[d], (INT64_C(1) << 56) / x->shape[d]);
  }
}

static void plans_of_enormous_tensors_are_refused_at_once(void **state) {
  (void)state;
  fixture f = {.zeros = calloc(1, ZEROS_BYTES)};
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 2};
  assert_non_null(f.zeros);
  assert_int_equal(graft_context_create(&options, NULL, &f.context), GRAFT_OK);
  assert_int_equal(graft_device_open(f.context, "cpu", &f.device), GRAFT_OK);
  for (uint32_t i = 0; i < graft_context_n_ops(f.context); ++i) {
    const graft_op_def *op = graft_context_op(f.context, i);
    for (uint32_t j = 0; j < op->n_cases; ++j) check_sizes(&f, op, &op->cases[j]);
  }
  assert_true(f.n_refused >= 200);
  graft_context_destroy(f.context);
  free(f.zeros);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(plans_of_enormous_tensors_are_refused_at_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
