// test_norms.c — what conformance cases cannot say of norms, softmax and element-wise operators: that an item gives the
// same bytes in any batch, that special values come out as IEEE 754 has them, that one tensor may be both operands.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graft/cpu.h"
#include "graft/graft.h"
#include "ops/binary/binary.h"
#include "ops/fused/gated_residual/gated_residual.h"
#include "ops/fused/group_norm_silu/group_norm_silu.h"
#include "ops/fused/rms_norm_modulate/rms_norm_modulate.h"
#include "ops/fused/swiglu/swiglu.h"
#include "ops/group_norm/group_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/unary/unary.h"
#include "tests/ops/run_graph.h"

// Deterministic values around |mean|, at most 2 away.
static float *values_around(double mean, int64_t n) {
  float *values = malloc((size_t)n * sizeof *values);
  assert_non_null(values);
  uint32_t state = 12345;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(mean + (double)(state >> 8) * 0x1p-22 - 2);
  }
  return values;
}

typedef graft_tensor *(*build_fn)(graft_graph *graph, graft_tensor *x);

static graft_tensor *build_group_norm(graft_graph *graph, graft_tensor *x) {
  return graft_group_norm(graph, x, graft_graph_none(), graft_graph_none(), 2, 1e-5);
}

static graft_tensor *build_layer_norm(graft_graph *graph, graft_tensor *x) {
  return graft_layer_norm(graph, x, graft_graph_none(), graft_graph_none(), 1e-5);
}

static graft_tensor *build_rms_norm(graft_graph *graph, graft_tensor *x) {
  return graft_rms_norm(graph, x, graft_graph_none(), 1e-5);
}

static const build_fn norms[] = {build_group_norm, build_layer_norm, build_rms_norm, graft_softmax, graft_silu};
enum { N_NORMS = sizeof norms / sizeof norms[0] };

static float *run(build_fn build, int32_t rank, const int64_t *shape, const float *x) {
  int64_t n = 1;
  for (int32_t d = 0; d < rank; ++d) n *= shape[d];
  float *y = malloc((size_t)n * sizeof *y);
  assert_non_null(y);
  test_graph test = test_graph_open();
  graft_tensor *result = build(test.graph, test_constant(&test, GRAFT_F32, rank, shape, x));
  assert_int_equal(test_run(&test, result, 0, y, (size_t)n * sizeof *y), GRAFT_OK);
  test_graph_close(&test);
  return y;
}

// Three copies of one item, small and large enough for several chunks a group.
static void batch_items_are_equal(void **state) {
  (void)state;
  const int64_t shapes[][4] = {{3, 48, 5, 7}, {3, 2, 131, 133}};
  for (int32_t s = 0; s < 2; ++s) {
    const int64_t n = shapes[s][1] * shapes[s][2] * shapes[s][3],
                  one[4] = {1, shapes[s][1], shapes[s][2], shapes[s][3]};
    const size_t bytes = (size_t)n * sizeof(float);
    float *item = values_around(0, n), *batch = malloc(3 * bytes);
    assert_non_null(batch);
    for (int64_t i = 0; i < 3; ++i) memcpy(batch + i * n, item, bytes);
    for (int32_t k = 0; k < N_NORMS; ++k) {
      float *alone = run(norms[k], 4, one, item), *together = run(norms[k], 4, shapes[s], batch);
      for (int64_t i = 0; i < 3; ++i) assert_memory_equal(together + i * n, alone, bytes);
      free(alone), free(together);
    }
    free(item), free(batch);
  }
}

// Mean 10000 and deviation about 1: compared with double within 1e-5.
static void large_means_keep_deviations(void **state) {
  (void)state;
  const int64_t shape[] = {1, 1, 3073};
  float *x = values_around(1e4, 3073), *y = run(build_layer_norm, 3, shape, x);
  double sum = 0, squares = 0;
  for (int32_t i = 0; i < 3073; ++i) sum += (double)x[i];
  for (int32_t i = 0; i < 3073; ++i) squares += ((double)x[i] - sum / 3073) * ((double)x[i] - sum / 3073);
  for (int32_t i = 0; i < 3073; ++i) {
    const double want = ((double)x[i] - sum / 3073) / sqrt(squares / 3073 + 1e-5);
    assert_true(fabs((double)y[i] - want) < 1e-5);
  }
  free(x), free(y);
}

static void constant_rows_give_zero(void **state) {
  (void)state;
  const int64_t shape[] = {2, 2, 133};
  const float constants[] = {1e4f, 0.1f, -3e-6f, 0};
  float x[532];
  for (int32_t c = 0; c < 4; ++c) {
    for (int32_t i = 0; i < 532; ++i) x[i] = constants[c];
    float *layer = run(build_layer_norm, 3, shape, x), *group = run(build_group_norm, 3, shape, x);
    for (int32_t i = 0; i < 532; ++i) assert_true(layer[i] == 0 && group[i] == 0);
    free(layer), free(group);
  }
}

static void nan_stays_in_its_row(void **state) {
  (void)state;
  const int64_t shape[] = {3, 1, 67};
  float *x = values_around(0, 201);
  x[67 + 66] = NAN;
  for (int32_t k = 1; k < 4; ++k) {
    float *y = run(norms[k], 3, shape, x);
    for (int32_t i = 0; i < 201; ++i) assert_true(!isnan(y[i]) == (i / 67 != 1));
    free(y);
  }
  free(x);
}

static graft_tensor *build_double(graft_graph *graph, graft_tensor *x) {
  graft_tensor *y = graft_scale(graph, x, 1, 0);  // a result, whose storage may be taken over
  return graft_add(graph, y, y);
}

static graft_tensor *build_square(graft_graph *graph, graft_tensor *x) {
  graft_tensor *y = graft_scale(graph, x, 1, 0);
  return graft_mul(graph, y, y);
}

static graft_tensor *build_second_operand(graft_graph *graph, graft_tensor *x) {
  graft_tensor *y = graft_scale(graph, x, 1, 0);
  return graft_sub(graph, x, graft_add(graph, x, y));
}

static void one_tensor_may_be_both_operands(void **state) {
  (void)state;
  const int64_t shape[] = {5, 3277};
  float *x = values_around(1, 5 * 3277);
  float *twice = run(build_double, 2, shape, x), *square = run(build_square, 2, shape, x);
  float *back = run(build_second_operand, 2, shape, x);
  for (int32_t i = 0; i < 5 * 3277; ++i) {
    assert_true(twice[i] == x[i] + x[i] && square[i] == x[i] * x[i] && back[i] == x[i] - (x[i] + x[i]));
  }
  free(x), free(twice), free(square), free(back);
}

static void many_items_run(void **state) {
  (void)state;
  const int64_t shape[] = {70000, 2, 3};
  float *x = values_around(0, 420000), *y = run(build_group_norm, 3, shape, x);
  for (int32_t i = 0; i < 420000; i += 3) assert_true(fabs((double)(y[i] + y[i + 1] + y[i + 2])) < 1e-5);
  free(x), free(y);
}

static graft_tensor *build_swiglu(graft_graph *graph, graft_tensor *x) {
  return graft_swiglu(graph, x, x);
}

static graft_tensor *build_gated_residual(graft_graph *graph, graft_tensor *x) {
  return graft_gated_residual(graph, x, x, graft_graph_none(), graft_graph_none(), 1e-5);
}

static graft_tensor *build_modulated(graft_graph *graph, graft_tensor *x) {
  return graft_rms_norm_modulate(graph, x, graft_graph_none(), x, 1e-5);
}

static graft_tensor *build_group_norm_silu(graft_graph *graph, graft_tensor *x) {
  return graft_group_norm_silu(graph, x, graft_graph_none(), graft_graph_none(), 1, 1e-5);
}

// A multiple of 64 rows of |row_bytes| that no cache of this machine holds.
static int64_t rows_beyond_caches(int64_t row_bytes) {
  test_graph test = test_graph_open();
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(test.context, "cpu", &device), GRAFT_OK);
  const graft_cpu_info *cpu = graft_cpu_describe(device);
  const size_t bytes = cpu->l3_bytes > cpu->l2_bytes ? cpu->l3_bytes : cpu->l2_bytes;
  test_graph_close(&test);
  return ((int64_t)bytes / row_bytes / 64 + 1) * 64;
}

// Results beyond the caches are written past them, by other instructions: the bytes are those of a small tensor's rows.
static void large_tensors_have_the_rows_of_small_ones(void **state) {
  (void)state;
  const int64_t n = 1024, large[] = {rows_beyond_caches(4 * n), n}, small[] = {64, n};
  const build_fn builds[] = {build_layer_norm,     build_rms_norm,  graft_softmax,        build_swiglu,
                             build_gated_residual, build_modulated, build_group_norm_silu};
  float *x = values_around(0, large[0] * n);
  for (size_t i = 0; i < sizeof builds / sizeof builds[0]; ++i) {
    float *all = run(builds[i], 2, large, x);
    for (int64_t first = 0; first < large[0]; first += large[0] / 2 - 32) {
      float *some = run(builds[i], 2, small, x + first * n);
      assert_memory_equal(all + first * n, some, (size_t)(small[0] * n) * sizeof *some);
      free(some);
    }
    free(all);
  }
  free(x);
}

static void limits_follow_ieee(void **state) {
  (void)state;
  const int64_t shape[] = {6};
  const float x[] = {INFINITY, 3e38f, -3e38f, 0, -1e-40f, NAN};
  float *silu = run(graft_silu, 1, shape, x), *sigmoid = run(graft_sigmoid, 1, shape, x);
  float *tanhs = run(graft_tanh, 1, shape, x);
  assert_true(silu[0] == INFINITY && silu[1] == 3e38f && silu[2] == 0 && silu[3] == 0 && isnan(silu[5]));
  assert_true(sigmoid[0] == 1 && sigmoid[1] == 1 && sigmoid[2] == 0 && sigmoid[3] == 0.5f && isnan(sigmoid[5]));
  assert_true(tanhs[0] == 1 && tanhs[2] == -1 && tanhs[4] == -1e-40f && isnan(tanhs[5]));
  free(silu), free(sigmoid), free(tanhs);
}

static void wrong_sizes_are_refused(void **state) {
  (void)state;
  const float zeros[48] = {0};
  test_graph test = test_graph_open();
  graft_tensor *x = test_constant(&test, GRAFT_F32, 2, (int64_t[]){3, 16}, zeros);
  assert_null(graft_group_norm(test.graph, x, graft_graph_none(), graft_graph_none(), 3, 1e-5));
  test_assert_refused(&test, GRAFT_E_INVALID, "16 channels cannot be divided into 3 groups");
  test_graph_close(&test);

  test = test_graph_open();
  x = test_constant(&test, GRAFT_F32, 2, (int64_t[]){3, 16}, zeros);
  assert_null(graft_rms_norm(test.graph, x, graft_graph_none(), -1));
  test_assert_refused(&test, GRAFT_E_INVALID, "eps is -1");
  test_graph_close(&test);

  test = test_graph_open();
  x = test_constant(&test, GRAFT_F32, 2, (int64_t[]){3, 16}, zeros);
  assert_null(graft_scale(test.graph, x, 1e39, 0));
  test_assert_refused(&test, GRAFT_E_INVALID, "finite");
  test_graph_close(&test);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batch_items_are_equal),
      cmocka_unit_test(large_means_keep_deviations),
      cmocka_unit_test(constant_rows_give_zero),
      cmocka_unit_test(nan_stays_in_its_row),
      cmocka_unit_test(one_tensor_may_be_both_operands),
      cmocka_unit_test(many_items_run),
      cmocka_unit_test(large_tensors_have_the_rows_of_small_ones),
      cmocka_unit_test(limits_follow_ieee),
      cmocka_unit_test(wrong_sizes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
