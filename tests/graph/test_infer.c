// Inference is an application's code: broadcasting as NumPy does it, and every wrong answer caught.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "mock.h"
#include "src/graph/infer.h"

static const graft_op_def *find(const char *name) {
  for (const graft_op_def *op = mock_ops;; ++op) {
    if (strcmp(op->name, name) == 0) return op;
  }
}

static graft_tensor_desc describe(int32_t rank, const int64_t *shape) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, rank, shape, NULL, &desc), GRAFT_OK);
  return desc;
}

typedef struct broadcast {
  int32_t rank[2];
  int64_t shape[2][4];
  int32_t want_rank;  // -1: refused
  int64_t want[4];
} broadcast;

static void broadcasting_follows_numpy(void **state) {
  (void)state;
  const broadcast cases[] = {
      {{2, 2}, {{2, 3}, {2, 3}}, 2, {2, 3}},
      {{2, 1}, {{2, 3}, {3}}, 2, {2, 3}},
      {{1, 2}, {{3}, {2, 3}}, 2, {2, 3}},
      {{3, 3}, {{2, 1, 4}, {1, 3, 1}}, 3, {2, 3, 4}},
      {{0, 2}, {{0}, {2, 3}}, 2, {2, 3}},
      {{2, 0}, {{2, 3}, {0}}, 2, {2, 3}},
      {{0, 0}, {{0}, {0}}, 0, {0}},
      {{2, 2}, {{2, 0}, {1, 1}}, 2, {2, 0}},
      {{2, 2}, {{2, 1}, {2, 0}}, 2, {2, 0}},
      {{2, 2}, {{2, 3}, {2, 4}}, -1, {0}},
      {{1, 2}, {{2}, {2, 3}}, -1, {0}},
      {{1, 1}, {{0}, {3}}, -1, {0}},
      {{4, 4}, {{5, 1, 1, 7}, {1, 2, 3, 1}}, 4, {5, 2, 3, 7}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    const broadcast *c = &cases[i];
    graft_tensor_desc a = describe(c->rank[0], c->shape[0]), b = describe(c->rank[1], c->shape[1]);
    graft_inference inference = {.op = find("mock.add.v1"), .n_inputs = 2, .inputs = {&a, &b}};
    graft_error error = {0};
    graft_status status = graft_infer_checked(&inference, &error);
    assert_int_equal(status, c->want_rank < 0 ? GRAFT_E_SHAPE : GRAFT_OK);
    if (status == GRAFT_OK) assert_true(graft_tensor_desc_has_shape(&inference.outputs[0], c->want_rank, c->want));
    if (status != GRAFT_OK) assert_non_null(strstr(error.message, "f32["));
  }
}

static graft_status infer(const char *op, mock_wrong_attrs attrs, graft_error *error) {
  graft_tensor_desc input = describe(2, (int64_t[]){4, 6});
  graft_inference inference = {.op = find(op), .attrs = &attrs, .n_inputs = 1, .inputs = {&input}};
  *error = (graft_error){0};
  return graft_infer_checked(&inference, error);
}

static void wrong_results_are_refused(void **state) {
  (void)state;
  graft_error error;
  mock_wrong_attrs good = {.dtype = GRAFT_F32, .rank = 2, .shape = {2, 3}, .strides = {12, 4}}, bad;
  assert_int_equal(infer("mock.wrong.v1", good, &error), GRAFT_OK);
  bad = good, bad.dtype = NULL;
  assert_int_equal(infer("mock.wrong.v1", bad, &error), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "has no dtype"));
  bad = good, bad.strides[0] = 16;
  assert_int_equal(infer("mock.wrong.v1", bad, &error), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "not contiguous"));
  bad = good, bad.rank = 9;
  assert_int_equal(infer("mock.wrong.v1", bad, &error), GRAFT_E_SHAPE);
  bad = good, bad.shape[0] = -2;
  assert_int_equal(infer("mock.wrong.v1", bad, &error), GRAFT_E_SHAPE);
  bad = good, bad.shape[0] = INT64_C(1) << 62;
  assert_int_equal(infer("mock.wrong.v1", bad, &error), GRAFT_E_NO_MEMORY);
  bad = good, bad.status = GRAFT_E_UNSUPPORTED;
  assert_int_equal(infer("mock.wrong.v1", bad, &error), GRAFT_E_UNSUPPORTED);
}

// Storage of the input: 4 × 6 floats, 96 bytes.
static void views_stay_inside_their_storage(void **state) {
  (void)state;
  graft_error error;
  mock_wrong_attrs good = {.dtype = GRAFT_F32, .rank = 2, .shape = {6, 4}, .strides = {4, 24}}, bad;
  assert_int_equal(infer("mock.wrong_view.v1", good, &error), GRAFT_OK);
  bad = good, bad.offset = 4;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "beyond the storage"));
  bad.shape[0] = 5;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_OK);
  bad = good, bad.offset = -4;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.shape[0] = 5, bad.offset = 2;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.strides[1] = -24;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.strides[0] = 2;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.strides[1] = INT64_MAX / 4 * 4;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.shape[0] = INT64_C(1) << 62, bad.strides[0] = 0;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.shape[0] = 1 << 20, bad.strides[0] = 0, bad.shape[1] = 4;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_OK);
  bad = good, bad.shape[1] = 0, bad.offset = 96;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_OK);
  bad.offset = 100;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  bad = good, bad.dtype = GRAFT_I32;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
  assert_non_null(strstr(error.message, "another dtype"));
  bad = good, bad.rank = 9;
  assert_int_equal(infer("mock.wrong_view.v1", bad, &error), GRAFT_E_INVALID);
}

static void DO10_tolerance_follows_dtype_and_length(void **state) {
  (void)state;
  assert_true(graft_op_tolerance(GRAFT_F32, 0) == 0x1p-24 + 16 * 0x1p-24);
  assert_true(graft_op_tolerance(GRAFT_BF16, 100) == 0x1p-8 + 4 * 0x1p-24 * 14);
  assert_true(graft_op_tolerance(GRAFT_F16, 1) < graft_op_tolerance(GRAFT_BF16, 1));
  assert_true(graft_op_tolerance(GRAFT_I32, 100) == 0);
  assert_true(graft_op_tolerance(GRAFT_BOOL, 1) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(broadcasting_follows_numpy),
      cmocka_unit_test(wrong_results_are_refused),
      cmocka_unit_test(views_stay_inside_their_storage),
      cmocka_unit_test(DO10_tolerance_follows_dtype_and_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
