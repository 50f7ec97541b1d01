// What does not fit together is refused with a sentence that names the sizes; indices out of range fail the run.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/copy/copy.h"
#include "ops/embedding/embedding.h"
#include "ops/fused/concat_permute/concat_permute.h"
#include "ops/fused/linear_rms_norm_rotary/linear_rms_norm_rotary.h"
#include "ops/fused/matmul_attention/matmul_attention.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/timestep_embedding/timestep_embedding.h"
#include "ops/upsample_nearest/upsample_nearest.h"
#include "run_graph.h"

static test_graph test;
static const float zeros[4096];

static int open_graph(void **state) {
  (void)state;
  test = test_graph_open();
  return 0;
}

static int close_graph(void **state) {
  (void)state;
  test_graph_close(&test);
  return 0;
}

static graft_tensor *tensor(int32_t rank, const int64_t *shape) {
  return test_constant(&test, GRAFT_F32, rank, shape, zeros);
}

static void test_linear(void **state) {
  (void)state;
  assert_null(graft_linear(test.graph, tensor(2, (int64_t[]){2, 5}), tensor(2, (int64_t[]){3, 4}), graft_graph_none()));
  test_assert_refused(&test, GRAFT_E_SHAPE, "rows of x have 5 elements, but the weight [3, 4] takes 4");
}

static void test_linear_bias(void **state) {
  (void)state;
  assert_null(
      graft_linear(test.graph, tensor(2, (int64_t[]){2, 5}), tensor(2, (int64_t[]){3, 5}), tensor(1, (int64_t[]){5})));
  test_assert_refused(&test, GRAFT_E_SHAPE, "3 elements");
}

static void test_linear_of_integers(void **state) {
  (void)state;
  graft_tensor *x = test_constant(&test, GRAFT_I32, 2, (int64_t[]){2, 5}, zeros);
  assert_null(graft_linear(test.graph, x, tensor(2, (int64_t[]){3, 5}), graft_graph_none()));
  test_assert_refused(&test, GRAFT_E_SHAPE, "x is i32");
}

static void test_matmul(void **state) {
  (void)state;
  assert_null(graft_matmul(test.graph, tensor(2, (int64_t[]){2, 5}), tensor(2, (int64_t[]){4, 3})));
  test_assert_refused(&test, GRAFT_E_SHAPE, "a has 5 columns, but b has 4 rows");
}

static void test_matmul_batches(void **state) {
  (void)state;
  assert_null(graft_matmul(test.graph, tensor(3, (int64_t[]){2, 4, 5}), tensor(3, (int64_t[]){3, 5, 3})));
  test_assert_refused(&test, GRAFT_E_SHAPE, "f32[2, 4, 5]");
}

static graft_tensor *convolve(const int64_t *weight, const graft_conv2d_attrs *attrs) {
  return graft_conv2d(test.graph, tensor(4, (int64_t[]){1, 4, 3, 3}), tensor(4, weight), graft_graph_none(), attrs);
}

static void test_conv2d_channels(void **state) {
  (void)state;
  assert_null(convolve((int64_t[]){2, 3, 1, 1}, NULL));
  test_assert_refused(&test, GRAFT_E_SHAPE, "x has 4 channels in 1 groups");
}

static void test_conv2d_groups(void **state) {
  (void)state;
  assert_null(convolve((int64_t[]){3, 2, 1, 1}, &(graft_conv2d_attrs){.groups = 2}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "3 filters");
}

static void test_conv2d_large_kernel(void **state) {
  (void)state;
  assert_null(convolve((int64_t[]){2, 4, 3, 3}, &(graft_conv2d_attrs){.dilation = {1, 2}}));
  test_assert_refused(&test, GRAFT_E_SHAPE,
                      "a kernel of size 3 with dilation 2 is larger than the padded image of size 3");
}

static void test_conv2d_overflow(void **state) {
  (void)state;
  assert_null(convolve((int64_t[]){2, 4, 3, 3}, &(graft_conv2d_attrs){.padding = {INT64_MAX, INT64_MAX, 0, 0}}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "padding or dilation is too large");
}

static void test_conv2d_negative_padding(void **state) {
  (void)state;
  assert_null(convolve((int64_t[]){2, 4, 3, 3}, &(graft_conv2d_attrs){.padding = {0, -1, 0, 0}}));
  test_assert_refused(&test, GRAFT_E_INVALID, "must not be negative, but is -1");
}

static graft_tensor *attend(const int64_t *q, const int64_t *k, const int64_t *v, graft_tensor *mask) {
  return graft_scaled_dot_product_attention(test.graph, tensor(4, q), tensor(4, k), tensor(4, v), mask, NULL);
}

static void test_attention_heads(void **state) {
  (void)state;
  assert_null(attend((int64_t[]){1, 2, 5, 4}, (int64_t[]){1, 3, 2, 4}, (int64_t[]){1, 3, 2, 4}, graft_graph_none()));
  test_assert_refused(&test, GRAFT_E_SHAPE, "5 query heads cannot share 2 key heads");
}

static void test_attention_widths(void **state) {
  (void)state;
  assert_null(attend((int64_t[]){1, 2, 2, 4}, (int64_t[]){1, 3, 2, 5}, (int64_t[]){1, 3, 2, 4}, graft_graph_none()));
  test_assert_refused(&test, GRAFT_E_SHAPE, "heads of width 4, k has 1 and 5");
}

static void test_attention_mask(void **state) {
  (void)state;
  graft_tensor *mask = test_constant(&test, GRAFT_BOOL, 2, (int64_t[]){1, 2}, zeros);
  assert_null(attend((int64_t[]){1, 2, 2, 4}, (int64_t[]){1, 3, 2, 4}, (int64_t[]){1, 3, 2, 4}, mask));
  test_assert_refused(&test, GRAFT_E_SHAPE, "bool [1, 3], but is bool[1, 2]");
}

static graft_tensor *rotate(int64_t positions, int64_t pairs) {
  return graft_rotary_embedding(test.graph, tensor(4, (int64_t[]){1, 9, 2, 8}),
                                tensor(3, (int64_t[]){positions, pairs, 2}), GRAFT_ROTARY_HALF);
}

static void test_rotary_short_table(void **state) {
  (void)state;
  assert_null(rotate(8, 4));
  test_assert_refused(&test, GRAFT_E_SHAPE, "x has 9 positions, but the table ends after 8");
}

static void test_rotary_wide_table(void **state) {
  (void)state;
  assert_null(rotate(9, 5));
  test_assert_refused(&test, GRAFT_E_SHAPE, "rotates 5 pairs");
}

static graft_tensor *normalise_and_rotate(const graft_rms_norm_rotary_attrs *attrs) {
  return graft_rms_norm_rotary(test.graph, tensor(4, (int64_t[]){1, 9, 2, 8}), graft_graph_none(),
                               tensor(3, (int64_t[]){9, 4, 2}), attrs);
}

static void test_rms_norm_rotary_dtype(void **state) {
  (void)state;
  assert_null(normalise_and_rotate(&(graft_rms_norm_rotary_attrs){.eps = 1e-5, .dtype = GRAFT_I8}));
  test_assert_refused(&test, GRAFT_E_INVALID, "plain float types only, not to i8");
}

static void test_rms_norm_rotary_scale(void **state) {
  (void)state;
  assert_null(normalise_and_rotate(&(graft_rms_norm_rotary_attrs){.eps = 1e-5, .scale = (double)INFINITY}));
  test_assert_refused(&test, GRAFT_E_INVALID, "scale inf must be a finite float32 number");
}

// Factors that are finite, but not in the type that kernels multiply in: those with infinity are nobody's results.
static void test_concat_permute_factor(void **state) {
  (void)state;
  const graft_concat_permute_attrs attrs = {.factor = 1e300, .order = {1, 0}, .rank = 2};
  assert_null(graft_concat_permute(test.graph, (graft_tensor *[]){tensor(2, (int64_t[]){2, 3})}, 1, &attrs));
  test_assert_refused(&test, GRAFT_E_INVALID, "the factor 1e+300 must be a finite float32 number");
}

static void test_attention_scale(void **state) {
  (void)state;
  graft_tensor *q = tensor(4, (int64_t[]){1, 3, 2, 8});
  const graft_attention_attrs attrs = {.scale = -1e300};
  assert_null(graft_scaled_dot_product_attention(test.graph, q, q, q, graft_graph_none(), &attrs));
  test_assert_refused(&test, GRAFT_E_INVALID, "the scale -1e+300 must be a finite float32 number");
}

static void test_matmul_attention_scale(void **state) {
  (void)state;
  graft_tensor *q = tensor(3, (int64_t[]){2, 8, 8});
  assert_null(graft_matmul_attention(test.graph, q, q, q, graft_graph_none(), 1e300));
  test_assert_refused(&test, GRAFT_E_INVALID, "the scale 1e+300 must be a finite float32 number");
}

static graft_tensor *project(int32_t rank, int64_t n_heads) {
  const graft_linear_rms_norm_rotary_inputs inputs = {.x = tensor(rank, (int64_t[]){1, 9, 5}),
                                                      .weight = tensor(2, (int64_t[]){16, rank == 3 ? 5 : 9}),
                                                      .bias = graft_graph_none(),
                                                      .norm = graft_graph_none(),
                                                      .table = tensor(3, (int64_t[]){9, 4, 2})};
  const graft_linear_rms_norm_rotary_attrs attrs = {.n_heads = n_heads, .then = {.eps = 1e-5}};
  return graft_linear_rms_norm_rotary(test.graph, &inputs, &attrs);
}

static void test_heads_of_uneven_rows(void **state) {
  (void)state;
  assert_null(project(3, 3));
  test_assert_refused(&test, GRAFT_E_SHAPE, "rows of 16 are not 3 heads");
}

static void test_no_heads(void **state) {
  (void)state;
  assert_null(project(3, 0));
  test_assert_refused(&test, GRAFT_E_SHAPE, "rows of 16 are not 0 heads");
}

static void test_heads_of_a_matrix(void **state) {
  (void)state;
  assert_null(project(2, 2));
  test_assert_refused(&test, GRAFT_E_SHAPE, "x must have 3 dimensions, not 2");
}

static void test_concat(void **state) {
  (void)state;
  graft_tensor *const parts[] = {tensor(2, (int64_t[]){2, 3}), tensor(2, (int64_t[]){3, 3})};
  assert_null(graft_concat(test.graph, parts, 2, 1));
  test_assert_refused(&test, GRAFT_E_SHAPE, "tensor 1 f32[3, 3] does not fit beside f32[2, 3]");
}

static void test_concat_of_nothing(void **state) {
  (void)state;
  assert_null(graft_concat(test.graph, NULL, 0, 0));
  test_assert_refused(&test, GRAFT_E_INVALID, "0 tensors");
}

static void test_upsample_overflow(void **state) {
  (void)state;
  assert_null(graft_upsample_nearest(test.graph, tensor(4, (int64_t[]){1, 1, 2, 2}), INT64_MAX, 1));
  test_assert_refused(&test, GRAFT_E_NO_MEMORY, "too large");
}

static void test_timestep_dim(void **state) {
  (void)state;
  assert_null(graft_timestep_embedding(test.graph, tensor(1, (int64_t[]){2}), 0, 10000, 1));
  test_assert_refused(&test, GRAFT_E_INVALID, "dim 0");
}

static void test_timestep_period(void **state) {
  (void)state;
  assert_null(graft_timestep_embedding(test.graph, tensor(1, (int64_t[]){2}), 16, (double)NAN, 1));
  test_assert_refused(&test, GRAFT_E_INVALID, "max_period nan");
}

static void test_cast_to_nothing(void **state) {
  (void)state;
  assert_null(graft_cast(test.graph, tensor(1, (int64_t[]){2}), NULL));
  test_assert_refused(&test, GRAFT_E_INVALID, "missing");
}

static void run_embedding(uint32_t plan_flags, int32_t id) {
  const int32_t ids[3] = {0, id, 1};
  float got[6];
  graft_tensor *y = graft_embedding(test.graph, test_constant(&test, GRAFT_I32, 1, (int64_t[]){3}, ids),
                                    tensor(2, (int64_t[]){5, 2}), GRAFT_F32);
  assert_int_equal(test_run(&test, y, plan_flags, got, sizeof got), GRAFT_E_INVALID);
  char want[64];
  snprintf(want, sizeof want, "index %d is outside the table of 5 rows", (int)id);
  assert_non_null(strstr(graft_context_error(test.context)->message, want));
}

static void test_embedding_index(void **state) {
  (void)state;
  run_embedding(0, 5);
}

static void test_embedding_negative_index(void **state) {
  (void)state;
  run_embedding(0, -1);
}

static void test_embedding_index_in_the_reference(void **state) {
  (void)state;
  run_embedding(GRAFT_PLAN_REFERENCE, 5);
}

static void test_embedding_of_floats(void **state) {
  (void)state;
  assert_null(graft_embedding(test.graph, tensor(1, (int64_t[]){3}), tensor(2, (int64_t[]){5, 2}), GRAFT_F32));
  test_assert_refused(&test, GRAFT_E_SHAPE, "not f32");
}

static void test_quantize_group_of_empty_rows(void **state) {
  (void)state;
  const graft_quantize_convrot_i8_attrs attrs = {.group = (int64_t)1 << 60};
  assert_null(graft_quantize_convrot_i8(test.graph, tensor(2, (int64_t[]){3, 0}), &attrs).q);
  test_assert_refused(&test, GRAFT_E_INVALID, "at most 1048576");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_graph, close_graph)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_linear),
      TEST(test_linear_bias),
      TEST(test_linear_of_integers),
      TEST(test_matmul),
      TEST(test_matmul_batches),
      TEST(test_quantize_group_of_empty_rows),
      TEST(test_conv2d_channels),
      TEST(test_conv2d_groups),
      TEST(test_conv2d_large_kernel),
      TEST(test_conv2d_overflow),
      TEST(test_conv2d_negative_padding),
      TEST(test_attention_heads),
      TEST(test_attention_widths),
      TEST(test_attention_mask),
      TEST(test_rotary_short_table),
      TEST(test_rotary_wide_table),
      TEST(test_rms_norm_rotary_dtype),
      TEST(test_rms_norm_rotary_scale),
      TEST(test_concat_permute_factor),
      TEST(test_attention_scale),
      TEST(test_matmul_attention_scale),
      TEST(test_heads_of_uneven_rows),
      TEST(test_no_heads),
      TEST(test_heads_of_a_matrix),
      TEST(test_concat),
      TEST(test_concat_of_nothing),
      TEST(test_upsample_overflow),
      TEST(test_timestep_dim),
      TEST(test_timestep_period),
      TEST(test_cast_to_nothing),
      TEST(test_embedding_index),
      TEST(test_embedding_negative_index),
      TEST(test_embedding_index_in_the_reference),
      TEST(test_embedding_of_floats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
