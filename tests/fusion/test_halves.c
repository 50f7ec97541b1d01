// Gate and value as halves of one product's rows, in either order, or as products of their own: one kernel takes them
// where they lie, and nothing is copied.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graft/graft.h"
#include "ops/binary/binary.h"
#include "ops/copy/copy.h"
#include "ops/linear/linear.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"

enum { BATCH = 2, ROWS = 7, K = 24, MOST = 2 * 80 * K };

typedef enum arrangement { GATE_FIRST, GATE_LAST, APART } arrangement;

typedef struct sample {
  arrangement order;
  graft_dtype dtype;
  int64_t n;  // of a half
  bool is_quantised;
} sample;

static float weights[MOST];

static graft_tensor *constant(graft_graph *graph, const char *name, int64_t n, const float *values) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, (const int64_t[]){n, K}, NULL, &desc), GRAFT_OK);
  return graft_graph_constant(
      graph, name, &desc,
      &(graft_constant){
          .struct_size = sizeof(graft_constant), .data = values, .bytes = graft_tensor_desc_bytes(&desc)});
}

static void build(graft_graph *graph, const sample *s) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 3, (const int64_t[]){BATCH, ROWS, K}, NULL, &desc), GRAFT_OK);
  graft_tensor *x = graft_cast(graph, graft_graph_input(graph, "x", &desc), s->dtype), *halves[2];
  if (s->order == APART) {
    for (int i = 0; i < 2; ++i) {
      graft_tensor *w = constant(graph, i == 0 ? "first" : "second", s->n, weights + i * s->n * K);
      // As an output of the graph, so that the product stays a step of its own.
      halves[i] = graft_linear(graph, x, w, graft_graph_none());
      graft_graph_output(graph, halves[i], i == 0 ? "gate" : "value");
    }
  } else {
    graft_tensor *both = graft_linear(graph, x, constant(graph, "both", 2 * s->n, weights), graft_graph_none());
    const int gate = s->order == GATE_LAST;
    halves[gate] = graft_slice(graph, both, -1, 0, s->n);
    halves[1 - gate] = graft_slice(graph, both, -1, s->n, 2 * s->n);
  }
  graft_tensor *y = graft_mul(graph, graft_silu(graph, halves[0]), halves[1]);
  const graft_quantize_convrot_i8_attrs attrs = {.group = 16};
  if (s->is_quantised) y = graft_quantize_convrot_i8_packed(graph, y, &attrs);
  graft_graph_output(graph, y, "y");
}

static graft_plan *run(graft_context *context, const graft_graph *graph, const char *fusion, void **out,
                       size_t *bytes) {
  graft_device *device = NULL;
  graft_plan *plan = NULL;
  float x[BATCH * ROWS * K];
  for (int i = 0; i < BATCH * ROWS * K; ++i) x[i] = (float)(i * 37 % 101 - 50) / 16;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const graft_plan_options options = {.struct_size = sizeof options, .device = device, .fusion = fusion};
  if (graft_plan_create(graph, &options, &plan) != GRAFT_OK) fail_msg("%s", graft_context_error(context)->message);
  assert_int_equal(graft_plan_write(plan, 0, x, sizeof x), GRAFT_OK);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  uint32_t y = 0;
  assert_int_equal(graft_plan_find_output(plan, "y", &y), GRAFT_OK);
  graft_step_info last = {.struct_size = sizeof last};
  graft_plan_step(plan, graft_plan_n_steps(plan) - 1, &last);
  *bytes = graft_tensor_desc_bytes(last.outputs[0]);
  *out = malloc(*bytes + 1);
  assert_non_null(*out);
  assert_int_equal(graft_plan_read(plan, y, *out, *bytes), GRAFT_OK);
  return plan;
}

static void expect_no_copy(const graft_plan *plan, const sample *s) {
  const uint32_t n = graft_plan_n_steps(plan), n_casts = s->dtype != GRAFT_F32, n_products = s->order == APART ? 2 : 1;
  graft_step_info last = {.struct_size = sizeof last};
  graft_plan_step(plan, n - 1, &last);
  assert_string_equal(last.op->name, s->is_quantised ? "graft.gated_convrot_i8.v1" : "graft.swiglu.v1");
  assert_int_equal(n, n_casts + n_products + 1);
}

// Apart, the activation is rounded once more.
static void expect_close(graft_dtype dtype, const char *got, const char *want, size_t bytes) {
  const double bound = 3 * graft_op_tolerance(dtype, 1);
  double square = 0;
  for (size_t i = 0; i < bytes; i += dtype->block_bytes) {
    const double value = graft_dtype_load(dtype, want + i);
    square += value * value * dtype->block_bytes / (double)bytes;
  }
  for (size_t i = 0; i < bytes; i += dtype->block_bytes) {
    const double a = graft_dtype_load(dtype, got + i), b = graft_dtype_load(dtype, want + i);
    assert_true(fabs(a - b) <= bound * fmax(fabs(b), sqrt(square)));
  }
}

static void check(const sample *s) {
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 2, .ignore_environment = true};
  graft_context *context = NULL;
  graft_graph *graph = NULL;
  void *got, *want;
  size_t bytes;
  assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
  assert_int_equal(graft_graph_create(context, &graph), GRAFT_OK);
  build(graph, s);
  graft_plan *fused = run(context, graph, "on", &got, &bytes), *apart = run(context, graph, "off", &want, &bytes);
  expect_no_copy(fused, s);
  if (s->dtype == GRAFT_F32) {
    assert_memory_equal(got, want, bytes);
  } else {
    expect_close(s->dtype, got, want, bytes);
  }
  free(got);
  free(want);
  graft_plan_destroy(fused);
  graft_plan_destroy(apart);
  graft_graph_destroy(graph);
  graft_context_destroy(context);
}

static void DO6_halves_of_rows_are_not_copied(void **state) {
  (void)state;
  const graft_dtype dtypes[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16};
  for (int i = 0; i < MOST; ++i) weights[i] = (float)(i * 29 % 113 - 56) / 64;
  for (int order = GATE_FIRST; order <= APART; ++order) {
    for (int d = 0; d < 3; ++d) {
      check(&(sample){order, dtypes[d], 80, false});
      check(&(sample){order, dtypes[d], 33, false});
    }
    check(&(sample){order, GRAFT_F32, 80, true});
    check(&(sample){order, GRAFT_F32, 16, true});
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(DO6_halves_of_rows_are_not_copied)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
