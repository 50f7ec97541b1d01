#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "graft/op.h"
#include "graft/tensor.h"

static const graft_dtype_def block32 = {
    .struct_size = sizeof block32, .name = "mock.q", .block_elements = 32, .block_bytes = 18, .alignment = 2};

static graft_tensor_desc make(graft_dtype dtype, int32_t rank, const int64_t *shape) {
  graft_tensor_desc desc;
  assert_int_equal(graft_tensor_desc_init(dtype, rank, shape, NULL, &desc), GRAFT_OK);
  return desc;
}

static uint64_t next_random(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *seed >> 33;
}

// A walk over a contiguous tensor visits neighbouring addresses, one after another, and ends at the last byte.
static void contiguous_walk_visits_every_byte_in_order(void **state) {
  (void)state;
  uint64_t seed = 3;
  for (int n = 0; n < 300; ++n) {
    int32_t rank = (int32_t)(next_random(&seed) % (GRAFT_MAX_RANK + 1));
    int64_t shape[GRAFT_MAX_RANK] = {0}, index[GRAFT_MAX_RANK] = {0}, n_elements = 1;
    for (int32_t d = 0; d < rank; ++d) n_elements *= shape[d] = 1 + (int64_t)(next_random(&seed) % 4);
    graft_tensor_desc desc = make(GRAFT_I32, rank, shape);
    assert_true(graft_tensor_desc_is_contiguous(&desc));
    assert_int_equal(graft_tensor_desc_elements(&desc), n_elements);
    assert_int_equal(graft_tensor_desc_bytes(&desc), 4 * n_elements);
    static char storage[4 << 16];
    graft_view view = {desc, storage};
    int64_t visited = 0;
    do {
      assert_ptr_equal(graft_view_at(&view, index), storage + 4 * visited);
      ++visited;
    } while (graft_index_next(&desc, index));
    assert_int_equal(visited, n_elements);
  }
}

static void strides_decide_what_is_dense(void **state) {
  (void)state;
  graft_tensor_desc desc = make(GRAFT_F32, 3, (int64_t[]){2, 3, 4});
  desc.strides[0] = 100;
  assert_false(graft_tensor_desc_is_contiguous(&desc));
  assert_true(graft_tensor_desc_is_dense_from(&desc, 1));
  assert_int_equal(graft_tensor_desc_bytes(&desc), 100 + 12 * 4);
  desc.strides[2] = 8;
  assert_false(graft_tensor_desc_is_dense_from(&desc, 2));
  assert_true(graft_tensor_desc_is_dense_from(&desc, 3));
  graft_tensor_desc repeated = make(GRAFT_F32, 2, (int64_t[]){5, 4});
  repeated.strides[0] = 0;
  assert_int_equal(graft_tensor_desc_bytes(&repeated), 16);
  assert_false(graft_tensor_desc_is_contiguous(&repeated));
}

static void strides_of_single_elements_mean_nothing(void **state) {
  (void)state;
  graft_tensor_desc a = make(GRAFT_F32, 3, (int64_t[]){2, 1, 4}), b = a;
  b.strides[1] = 12345;
  assert_true(graft_tensor_desc_is_contiguous(&b));
  assert_true(graft_tensor_desc_same_layout(&a, &b));
  assert_int_equal(graft_tensor_desc_bytes(&b), 32);
  b.strides[0] = 32;
  assert_false(graft_tensor_desc_same_layout(&a, &b));
  b = a;
  b.dtype = GRAFT_I32;
  assert_true(graft_tensor_desc_same_shape(&a, &b));
  assert_false(graft_tensor_desc_same_layout(&a, &b));
}

static void empty_and_scalar(void **state) {
  (void)state;
  graft_tensor_desc scalar = make(GRAFT_F16, 0, NULL);
  assert_int_equal(graft_tensor_desc_elements(&scalar), 1);
  assert_int_equal(graft_tensor_desc_bytes(&scalar), 2);
  graft_tensor_desc empty = make(GRAFT_F16, 3, (int64_t[]){2, 0, 3});
  assert_int_equal(graft_tensor_desc_elements(&empty), 0);
  assert_int_equal(graft_tensor_desc_bytes(&empty), 0);
  assert_true(graft_tensor_desc_is_contiguous(&empty));
  assert_int_equal(empty.strides[0], 6);
  graft_tensor_desc turned = empty;
  turned.strides[0] = 12345;
  assert_true(graft_tensor_desc_same_layout(&empty, &turned));
}

static void blocks_fill_rows(void **state) {
  (void)state;
  graft_tensor_desc desc = make(&block32, 2, (int64_t[]){3, 64});
  assert_int_equal(desc.strides[1], 18);
  assert_int_equal(desc.strides[0], 36);
  assert_int_equal(graft_tensor_desc_bytes(&desc), 108);
  assert_true(graft_tensor_desc_is_contiguous(&desc));
  graft_error error = {0};
  assert_int_equal(graft_tensor_desc_init(&block32, 2, (int64_t[]){3, 33}, &error, &desc), GRAFT_E_SHAPE);
  assert_non_null(strstr(error.message, "33"));
  assert_int_equal(graft_tensor_desc_init(&block32, 0, NULL, &error, &desc), GRAFT_E_SHAPE);
}

static void impossible_shapes_are_refused(void **state) {
  (void)state;
  graft_tensor_desc desc = {.rank = 77};
  const int64_t huge[] = {INT64_C(1) << 32, INT64_C(1) << 31}, zero_huge[] = {0, INT64_C(1) << 62, 8};
  const int64_t longest = INT64_C(1) << 56, too_long = longest + 1, too_long_and_empty[] = {0, longest + 1};
  const int64_t negative[] = {2, -1}, nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  graft_error error = {0};
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, huge, &error, &desc), GRAFT_E_NO_MEMORY);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 3, zero_huge, &error, &desc), GRAFT_E_NO_MEMORY);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 2, negative, &error, &desc), GRAFT_E_SHAPE);
  assert_non_null(strstr(error.message, "-1"));
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, 9, nine, &error, &desc), GRAFT_E_SHAPE);
  assert_int_equal(graft_tensor_desc_init(GRAFT_F32, -1, nine, &error, &desc), GRAFT_E_SHAPE);
  assert_int_equal(graft_tensor_desc_init(NULL, 1, nine, &error, &desc), GRAFT_E_SHAPE);
  assert_int_equal(graft_tensor_desc_init(GRAFT_U8, 1, &too_long, &error, &desc), GRAFT_E_NO_MEMORY);
  assert_int_equal(graft_tensor_desc_init(GRAFT_U8, 2, too_long_and_empty, &error, &desc), GRAFT_E_NO_MEMORY);
  assert_int_equal(desc.rank, 77);
  assert_int_equal(graft_tensor_desc_init(GRAFT_U8, 1, &longest, &error, &desc), GRAFT_OK);
}

static void formats_and_cuts(void **state) {
  (void)state;
  char text[64], small[8];
  graft_tensor_desc desc = make(GRAFT_F32, 3, (int64_t[]){2, 3, 4});
  assert_string_equal(graft_tensor_desc_format(&desc, text, sizeof text), "f32[2, 3, 4]");
  assert_string_equal(graft_tensor_desc_format(&desc, small, sizeof small), "f32[2, ");
  desc.strides[0] = 96;
  assert_string_equal(graft_tensor_desc_format(&desc, text, sizeof text), "f32[2, 3, 4] strides [96, 16, 4]");
  desc = make(GRAFT_BOOL, 0, NULL);
  assert_string_equal(graft_tensor_desc_format(&desc, text, sizeof text), "bool[]");
  assert_string_equal(graft_tensor_desc_format(&desc, small, 1), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contiguous_walk_visits_every_byte_in_order),
      cmocka_unit_test(strides_decide_what_is_dense),
      cmocka_unit_test(strides_of_single_elements_mean_nothing),
      cmocka_unit_test(empty_and_scalar),
      cmocka_unit_test(blocks_fill_rows),
      cmocka_unit_test(impossible_shapes_are_refused),
      cmocka_unit_test(formats_and_cuts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
