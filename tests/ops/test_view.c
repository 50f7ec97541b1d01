// Views: the elements of a view are found where arithmetic on the viewed tensor says, and reshape copies exactly when
// no strides do it.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/copy/copy.h"
#include "ops/view/view.h"
#include "run_graph.h"

enum { MAX_ELEMENTS = 256 };

static float counting[MAX_ELEMENTS];  // 0, 1, 2, …

static test_graph test;

static int open_graph(void **state) {
  (void)state;
  for (int i = 0; i < MAX_ELEMENTS; ++i) counting[i] = (float)i;
  test = test_graph_open();
  return 0;
}

static int close_graph(void **state) {
  (void)state;
  test_graph_close(&test);
  return 0;
}

static graft_tensor *count_up(int32_t rank, const int64_t *shape) {
  return test_constant(&test, GRAFT_F32, rank, shape, counting);
}

// Runs |x|, copied to row-major order, and compares.
static void assert_values(graft_tensor *x, size_t n, const float *want) {
  float got[MAX_ELEMENTS];
  assert_non_null(x);
  assert_int_equal(test_run(&test, graft_contiguous(test.graph, x), 0, got, n * sizeof *got), GRAFT_OK);
  assert_memory_equal(got, want, n * sizeof *got);
}

static void assert_shape(const graft_tensor *x, int32_t rank, const int64_t *shape) {
  assert_non_null(x);
  assert_true(graft_tensor_desc_has_shape(graft_tensor_describe(x), rank, shape));
}

static void test_permute(void **state) {
  (void)state;
  graft_tensor *y = graft_permute(test.graph, count_up(3, (int64_t[]){2, 1, 3}), (int32_t[]){2, 0, 1});
  assert_shape(y, 3, (int64_t[]){3, 2, 1});
  assert_values(y, 6, (float[]){0, 3, 1, 4, 2, 5});
}

static void test_slice(void **state) {
  (void)state;
  graft_tensor *rows = graft_slice(test.graph, count_up(2, (int64_t[]){4, 5}), 0, 1, 3);
  graft_tensor *y = graft_slice(test.graph, rows, -1, 2, 5);
  assert_shape(y, 2, (int64_t[]){2, 3});
  assert_values(y, 6, (float[]){7, 8, 9, 12, 13, 14});
}

static void test_slice_of_permuted(void **state) {
  (void)state;
  graft_tensor *turned = graft_permute(test.graph, count_up(2, (int64_t[]){3, 4}), (int32_t[]){1, 0});
  assert_values(graft_slice(test.graph, turned, 0, 1, 3), 6, (float[]){1, 5, 9, 2, 6, 10});
}

static void test_expand(void **state) {
  (void)state;
  graft_tensor *y = graft_expand(test.graph, count_up(2, (int64_t[]){2, 1}), 3, (int64_t[]){2, -1, 3});
  assert_shape(y, 3, (int64_t[]){2, 2, 3});
  assert_int_equal(graft_tensor_describe(y)->strides[0], 0);
  assert_values(y, 12, (float[]){0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
}

static void test_reshape_fills_in_the_rest(void **state) {
  (void)state;
  graft_tensor *x = count_up(2, (int64_t[]){4, 6});
  assert_shape(graft_reshape(test.graph, x, 3, (int64_t[]){2, -1, 3}), 3, (int64_t[]){2, 4, 3});
  assert_int_equal(graft_graph_n_nodes(test.graph), 1);
}

static void test_reshape_copies_where_it_must(void **state) {
  (void)state;
  graft_tensor *turned = graft_permute(test.graph, count_up(2, (int64_t[]){2, 3}), (int32_t[]){1, 0});
  graft_tensor *y = graft_reshape(test.graph, turned, 1, (int64_t[]){-1});
  assert_int_equal(graft_graph_n_nodes(test.graph), 3);
  assert_values(y, 6, (float[]){0, 3, 1, 4, 2, 5});
}

static void test_empty(void **state) {
  (void)state;
  graft_tensor *none = graft_slice(test.graph, count_up(2, (int64_t[]){3, 4}), 0, 3, 3);
  assert_shape(none, 2, (int64_t[]){0, 4});
  assert_shape(graft_reshape(test.graph, none, 3, (int64_t[]){2, 0, 7}), 3, (int64_t[]){2, 0, 7});
  assert_shape(graft_expand(test.graph, none, 3, (int64_t[]){5, 0, 4}), 3, (int64_t[]){5, 0, 4});
  assert_int_equal(graft_graph_status(test.graph), GRAFT_OK);
}

// Of what has no elements there is nothing to reach, wherever a slice along another dimension begins.
static void test_slices_of_nothing(void **state) {
  (void)state;
  const int64_t shape[] = {2, 0, 4};
  for (int32_t axis = 0; axis < 3; ++axis) {
    for (int64_t start = 0; start <= shape[axis]; ++start) {
      int64_t wanted[] = {2, 0, 4};
      wanted[axis] -= start;
      graft_tensor *y = graft_slice(test.graph, count_up(3, shape), axis, start, shape[axis]);
      assert_shape(y, 3, wanted);
      assert_shape(graft_contiguous(test.graph, graft_permute(test.graph, y, (int32_t[]){2, 0, 1})), 3,
                   (int64_t[]){wanted[2], wanted[0], wanted[1]});
    }
  }
  assert_int_equal(graft_graph_status(test.graph), GRAFT_OK);
}

static void test_scalars(void **state) {
  (void)state;
  graft_tensor *x = graft_reshape(test.graph, count_up(2, (int64_t[]){1, 1}), 0, NULL);
  assert_shape(x, 0, NULL);
  assert_values(graft_expand(test.graph, x, 1, (int64_t[]){3}), 3, (float[]){0, 0, 0});
}

static uint32_t random_state = 1;

static int64_t random_below(int64_t end) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int64_t)(random_state >> 8) % end;
}

// Byte offsets of all elements in row-major order; returns their number.
static int64_t walk(const graft_tensor_desc *desc, int64_t *offsets) {
  int64_t index[GRAFT_MAX_RANK] = {0}, n = 0;
  do {
    offsets[n] = 0;
    for (int32_t d = 0; d < desc->rank; ++d) offsets[n] += index[d] * desc->strides[d];
    ++n;
  } while (graft_index_next(desc, index));
  return n;
}

// Whether strides exist with which a tensor of |shape| has these offsets.
static bool is_affine(const graft_tensor_desc *like, const int64_t *offsets) {
  graft_tensor_desc plain = *like;
  int64_t step = 1, found[MAX_ELEMENTS];
  for (int32_t d = like->rank - 1; d >= 0; --d) {
    plain.strides[d] = like->shape[d] > 1 ? offsets[step] : 0;
    step *= like->shape[d];
  }
  const int64_t n = walk(&plain, found);
  return memcmp(found, offsets, (size_t)n * sizeof *found) == 0;
}

// A permuted, sliced and expanded tensor of random sizes.
static graft_tensor *random_view(void) {
  int64_t shape[4];
  int32_t order[4] = {0, 1, 2, 3};
  const int32_t rank = (int32_t)random_below(5);
  for (int32_t d = 0; d < rank; ++d) shape[d] = 1 + random_below(4);
  graft_tensor *x = count_up(rank, shape);
  for (int32_t d = rank - 1; d > 0 && random_below(3) > 0; --d) {
    const int32_t other = (int32_t)random_below(d + 1), kept = order[d];
    order[d] = order[other];
    order[other] = kept;
  }
  x = graft_permute(test.graph, x, order);
  if (rank > 0 && random_below(2)) {
    const int32_t axis = (int32_t)random_below(rank);
    const int64_t size = graft_tensor_describe(x)->shape[axis], start = random_below(size);
    x = graft_slice(test.graph, x, axis, start, start + 1 + random_below(size - start));
  }
  return x;
}

// Splits |n| elements into random factors.
static int32_t random_shape(int64_t n, int64_t *shape) {
  int32_t rank = 0;
  while (rank < 5 && (n > 1 || random_below(2))) {
    int64_t size = 1 + random_below(n < 6 ? n : 6);
    while (n % size != 0) --size;
    shape[rank++] = size;
    n /= size;
  }
  shape[rank++] = n;
  return rank;
}

static void test_reshape_is_a_view_whenever_possible(void **state) {
  (void)state;
  int views = 0, copies = 0;
  for (int round = 0; round < 2000; ++round) {
    int64_t shape[6], want[MAX_ELEMENTS], got[MAX_ELEMENTS];
    graft_tensor *x = random_view();
    const uint32_t n_nodes = graft_graph_n_nodes(test.graph);
    const int64_t n = walk(graft_tensor_describe(x), want);
    graft_tensor *y = graft_reshape(test.graph, x, random_shape(n, shape), shape);
    assert_non_null(y);
    const bool is_view = graft_graph_n_nodes(test.graph) == n_nodes + 1;
    assert_int_equal(walk(graft_tensor_describe(y), got), n);
    assert_int_equal(is_view, is_affine(graft_tensor_describe(y), want));
    if (is_view) assert_memory_equal(got, want, (size_t)n * sizeof *got);
    ++*(is_view ? &views : &copies);
  }
  assert_true(views > 200 && copies > 200);
}

static graft_tensor *try_reshape(int32_t rank, const int64_t *shape) {
  return graft_reshape(test.graph, count_up(2, (int64_t[]){3, 4}), rank, shape);
}

static void test_reshape_refuses_other_counts(void **state) {
  (void)state;
  assert_null(try_reshape(2, (int64_t[]){5, 2}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "10 elements, the tensor 12");
}

static void test_reshape_refuses_two_rests(void **state) {
  (void)state;
  assert_null(try_reshape(2, (int64_t[]){-1, -1}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "only one may be -1");
}

static void test_reshape_refuses_an_impossible_rest(void **state) {
  (void)state;
  assert_null(try_reshape(2, (int64_t[]){5, -1}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "12 elements cannot be divided");
}

static void test_reshape_refuses_sizes_that_overflow(void **state) {
  (void)state;
  assert_null(try_reshape(3, (int64_t[]){INT64_MAX, INT64_MAX, 4}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "more elements than can be counted");
}

static void test_permute_refuses_repetition(void **state) {
  (void)state;
  assert_null(graft_permute(test.graph, count_up(2, (int64_t[]){3, 4}), (int32_t[]){1, 1}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "twice or beyond");
}

static void test_slice_refuses_ranges_outside(void **state) {
  (void)state;
  assert_null(graft_slice(test.graph, count_up(2, (int64_t[]){3, 4}), 1, 2, 5));
  test_assert_refused(&test, GRAFT_E_SHAPE, "2 … 5 is outside dimension 1 of size 4");
}

static void test_slice_refuses_axes_outside(void **state) {
  (void)state;
  assert_null(graft_slice(test.graph, count_up(2, (int64_t[]){3, 4}), -3, 0, 1));
  test_assert_refused(&test, GRAFT_E_SHAPE, "axis -1 is outside a tensor of rank 2");
}

static void test_expand_refuses_other_sizes(void **state) {
  (void)state;
  assert_null(graft_expand(test.graph, count_up(2, (int64_t[]){3, 4}), 2, (int64_t[]){6, 4}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "dimension 0 of size 3 cannot be repeated to 6");
}

static void test_expand_refuses_sizes_that_overflow(void **state) {
  (void)state;
  assert_null(graft_expand(test.graph, count_up(1, (int64_t[]){4}), 3, (int64_t[]){INT64_MAX / 2, 3, 4}));
  test_assert_refused(&test, GRAFT_E_NO_MEMORY, "overflows");
}

// The first failure is kept when a view is made of nothing.
static void test_views_of_a_failure(void **state) {
  (void)state;
  graft_tensor *x = graft_permute(test.graph, count_up(2, (int64_t[]){3, 4}), (int32_t[]){0, 2});
  x = graft_slice(test.graph, graft_reshape(test.graph, x, 1, (int64_t[]){-1}), 0, 0, 100);
  assert_null(graft_expand(test.graph, graft_permute(test.graph, x, (int32_t[]){0}), 2, (int64_t[]){2, 2}));
  test_assert_refused(&test, GRAFT_E_SHAPE, "twice or beyond");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_graph, close_graph)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_permute),
      TEST(test_slice),
      TEST(test_slice_of_permuted),
      TEST(test_expand),
      TEST(test_reshape_fills_in_the_rest),
      TEST(test_reshape_copies_where_it_must),
      TEST(test_empty),
      TEST(test_slices_of_nothing),
      TEST(test_scalars),
      TEST(test_reshape_is_a_view_whenever_possible),
      TEST(test_reshape_refuses_other_counts),
      TEST(test_reshape_refuses_two_rests),
      TEST(test_reshape_refuses_an_impossible_rest),
      TEST(test_reshape_refuses_sizes_that_overflow),
      TEST(test_permute_refuses_repetition),
      TEST(test_slice_refuses_ranges_outside),
      TEST(test_slice_refuses_axes_outside),
      TEST(test_expand_refuses_other_sizes),
      TEST(test_expand_refuses_sizes_that_overflow),
      TEST(test_views_of_a_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
