// Projections that end as rows of a longer tensor are made there: keys and values behind a prefix, tokens of a picture
// beside those of a text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/binary/binary.h"
#include "ops/concat/concat.h"
#include "ops/copy/copy.h"
#include "ops/linear/linear.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"
#include "run_graph.h"

enum { PREFIX = 64, TOKENS = 640, HEADS = 2, HEAD_DIM = 64, WIDTH = HEADS * HEAD_DIM };

static const int64_t head_shape[] = {1, TOKENS, HEADS, HEAD_DIM};

typedef struct fixture {
  test_graph test;
  graft_tensor *x;  // [1, TOKENS, WIDTH]
  float weights[WIDTH * WIDTH];
} fixture;

static graft_tensor *input(fixture *f, const char *name, graft_dtype dtype, int32_t rank, const int64_t *shape) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(dtype, rank, shape, NULL, &desc), GRAFT_OK);
  return graft_graph_input(f->test.graph, name, &desc);
}

static graft_tensor *projected(fixture *f) {
  const int64_t shape[] = {WIDTH, WIDTH};
  return graft_linear(f->test.graph, f->x, test_constant(&f->test, GRAFT_F32, 2, shape, f->weights),
                      graft_graph_none());
}

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof *f);
  if (f == NULL) return -1;
  for (int i = 0; i < WIDTH * WIDTH; ++i) f->weights[i] = (float)(i * 7919 % 257 - 128) / 1024;
  f->test = test_graph_open();
  f->x = input(f, "x", GRAFT_F32, 3, (const int64_t[]){1, TOKENS, WIDTH});
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  test_graph_close(&f->test);
  free(f);
  return 0;
}

static void fill_inputs(const fixture *f, graft_plan *plan) {
  for (uint32_t i = 0; i < graft_graph_n_inputs(f->test.graph); ++i) {
    const graft_tensor_desc *desc = graft_tensor_describe(graft_graph_input_at(f->test.graph, i));
    const size_t n = (size_t)graft_tensor_desc_elements(desc), bytes = graft_tensor_desc_bytes(desc);
    char *values = malloc(bytes);
    assert_non_null(values);
    for (size_t e = 0; e < n; ++e) {
      graft_dtype_store(desc->dtype, values + e * desc->dtype->block_bytes, (double)(e * 31 % 101) / 50 - 1);
    }
    assert_int_equal(graft_plan_write(plan, i, values, bytes), GRAFT_OK);
    free(values);
  }
}

static graft_memory_report run(const fixture *f, uint32_t flags, void *out, size_t bytes) {
  graft_device *device = NULL;
  graft_plan *plan = NULL;
  assert_int_equal(graft_device_open(f->test.context, "cpu", &device), GRAFT_OK);
  const graft_plan_options options = {.struct_size = sizeof options, .device = device, .flags = flags};
  if (graft_plan_create(f->test.graph, &options, &plan) != GRAFT_OK)
    fail_msg("%s", graft_context_error(f->test.context)->message);
  for (uint32_t s = 0; s < graft_plan_n_steps(plan); ++s) {
    graft_step_info info = {.struct_size = sizeof info};
    graft_plan_step(plan, s, &info);
    // Of all that is joined, what was projected is input 1.
    const bool is_placed = info.op->part != NULL && flags == 0;
    assert_int_equal(info.placed_inputs, is_placed ? 2 : 0);
  }
  fill_inputs(f, plan);
  assert_int_equal(graft_plan_run(plan, NULL), GRAFT_OK);
  assert_int_equal(graft_plan_read(plan, 0, out, bytes), GRAFT_OK);
  graft_memory_report report = {.struct_size = sizeof report};
  graft_plan_memory(plan, &report);
  graft_plan_destroy(plan);
  return report;
}

static graft_tensor *with_prefix(fixture *f, const char *name, graft_tensor *rows) {
  graft_tensor *prefix = input(f, name, GRAFT_F16, 4, (const int64_t[]){1, PREFIX, HEADS, HEAD_DIM});
  return graft_concat(f->test.graph, (graft_tensor *[]){prefix, rows}, 2, 1);
}

// Keys and queries: norm of every head, rotation, scale, f16.
static graft_tensor *turned(fixture *f, graft_tensor *table, graft_tensor *norm) {
  graft_graph *graph = f->test.graph;
  graft_tensor *k = graft_rms_norm(graph, graft_reshape(graph, projected(f), 4, head_shape), norm, 1e-6);
  k = graft_scale(graph, graft_rotary_embedding(graph, k, table, GRAFT_ROTARY_INTERLEAVED), 0.5, 0);
  return graft_cast(graph, k, GRAFT_F16);
}

static void DO5_projections_are_made_where_they_are_joined(void **state) {
  fixture *f = *state;
  graft_graph *graph = f->test.graph;
  graft_tensor *table = input(f, "table", GRAFT_F32, 3, (const int64_t[]){TOKENS, HEAD_DIM / 2, 2});
  graft_tensor *norm = input(f, "norm", GRAFT_F32, 1, (const int64_t[]){HEAD_DIM});
  graft_tensor *gate = input(f, "gate", GRAFT_F32, 1, (const int64_t[]){WIDTH});
  graft_tensor *text = input(f, "text", GRAFT_F32, 3, (const int64_t[]){1, PREFIX, WIDTH});
  graft_tensor *q = turned(f, table, norm), *k = with_prefix(f, "keys", turned(f, table, norm));
  graft_tensor *v = graft_reshape(graph, graft_cast(graph, projected(f), GRAFT_F16), 4, head_shape);
  v = with_prefix(f, "values", v);
  graft_tensor *seen = graft_scaled_dot_product_attention(graph, q, k, v, graft_graph_none(), NULL);
  const int64_t rows[] = {1, TOKENS, WIDTH};
  graft_tensor *residual = f->x;
  f->x = graft_cast(graph, graft_reshape(graph, seen, 3, rows), GRAFT_F32);
  f->x = graft_add(graph, graft_mul(graph, projected(f), gate), residual);
  graft_tensor *y = graft_concat(graph, (graft_tensor *[]){text, f->x}, 2, 1);
  graft_graph_output(graph, graft_silu(graph, y), "y");

  enum { BYTES = (PREFIX + TOKENS) * WIDTH * sizeof(float) };
  static char got[BYTES], want[BYTES];
  const graft_memory_report with = run(f, 0, got, BYTES), without = run(f, GRAFT_PLAN_NO_IN_PLACE, want, BYTES);
  assert_memory_equal(got, want, BYTES);
  assert_true(with.arena_bytes <= without.arena_bytes + without.arena_bytes / 16);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(DO5_projections_are_made_where_they_are_joined, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
