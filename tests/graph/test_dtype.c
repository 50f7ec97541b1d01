// Every pattern of the small types, and rounding against the definition: the nearest of all values there are.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graft/dtype.h"

typedef struct format {
  graft_dtype dtype;
  double largest, smallest;  // finite; subnormal
  uint32_t n_patterns;
  bool has_infinity;
} format;

static const format formats[] = {
    {&graft_dtype_f16, 65504, 0x1p-24, 1 << 16, true},
    {&graft_dtype_bf16, 0x1.FEp127, 0x1p-133, 1 << 16, true},
    {&graft_dtype_f8_e4m3, 448, 0x1p-9, 1 << 8, false},
    {&graft_dtype_f8_e5m2, 57344, 0x1p-16, 1 << 8, true},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

static float decode(const format *f, uint32_t pattern) {
  unsigned char bytes[4] = {(unsigned char)pattern, (unsigned char)(pattern >> 8)};
  float value;
  f->dtype->to_f32(bytes, &value, 1);
  return value;
}

static uint32_t encode(const format *f, float value) {
  unsigned char bytes[2] = {0};
  f->dtype->from_f32(&value, bytes, 1);
  return f->dtype->block_bytes == 2 ? bytes[0] | (uint32_t)bytes[1] << 8 : bytes[0];
}

static uint32_t store(const format *f, double value) {
  unsigned char bytes[2] = {0};
  graft_dtype_store(f->dtype, bytes, value);
  return f->dtype->block_bytes == 2 ? bytes[0] | (uint32_t)bytes[1] << 8 : bytes[0];
}

static void every_pattern_round_trips(void **state) {
  (void)state;
  for (int i = 0; i < N_FORMATS; ++i) {
    const format *f = &formats[i];
    double largest = 0, smallest = 1;
    uint32_t n_nan = 0, n_infinite = 0;
    for (uint32_t pattern = 0; pattern < f->n_patterns; ++pattern) {
      float value = decode(f, pattern);
      double magnitude = fabs((double)value);
      if (isnan(value)) {
        ++n_nan;
        assert_true(isnan(decode(f, encode(f, value))));
        continue;
      }
      if (isinf(value)) ++n_infinite;
      assert_int_equal(encode(f, value), pattern);
      assert_int_equal(store(f, (double)value), pattern);
      assert_int_equal(!!signbit(value), pattern >= f->n_patterns / 2);
      if (isfinite(value) && magnitude > largest) largest = magnitude;
      if (magnitude > 0 && magnitude < smallest) smallest = magnitude;
    }
    assert_true(largest == f->largest);
    assert_true(smallest == f->smallest);
    assert_int_equal(n_infinite, f->has_infinity ? 2 : 0);
    assert_true(n_nan >= 2);
  }
}

// The positive finite values of a format are its first patterns, in order.
static uint32_t nearest(const format *f, double magnitude) {
  uint32_t low = 0, high = encode(f, (float)f->largest);
  if (magnitude >= f->largest) return high;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if ((double)decode(f, middle) <= magnitude) {
      low = middle;
    } else {
      high = middle;
    }
  }
  double below = magnitude - (double)decode(f, low), above = (double)decode(f, high) - magnitude;
  if (below == above) return low % 2 == 0 ? low : high;
  return below < above ? low : high;
}

static uint64_t next_random(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *seed >> 11;
}

static void conversion_rounds_to_nearest_even(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < N_FORMATS; ++i) {
    const format *f = &formats[i];
    for (int n = 0; n < 50000; ++n) {
      int least = ilogb(f->smallest) - 2, range = ilogb(f->largest) + 3 - least;
      double exponent = (double)(least + (int)(next_random(&seed) % (uint64_t)range));
      float value = (float)ldexp(1 + (double)(next_random(&seed) & 0xFFFFFF) * 0x1p-24, (int)exponent);
      if (!isfinite(value)) continue;
      assert_int_equal(encode(f, value), nearest(f, (double)value));
    }
    // Exactly half way between neighbours, and one double to either side of it: rounding twice would get these wrong.
    uint32_t end = encode(f, (float)f->largest);
    for (uint32_t pattern = 0; pattern<end; pattern += f->n_patterns> 256 ? 37 : 1) {
      double half = ((double)decode(f, pattern) + (double)decode(f, pattern + 1)) / 2;
      assert_int_equal(store(f, half), pattern + pattern % 2);
      assert_int_equal(store(f, nextafter(half, 0)), pattern);
      assert_int_equal(store(f, nextafter(half, (double)INFINITY)), pattern + 1);
    }
  }
}

static void overflow_saturates_and_infinity_stays(void **state) {
  (void)state;
  for (int i = 0; i < N_FORMATS; ++i) {
    const format *f = &formats[i];
    uint32_t largest = encode(f, (float)f->largest), sign = f->n_patterns / 2;
    assert_int_equal(encode(f, 3.4028235e38f), largest);
    assert_int_equal(encode(f, -3.4028235e38f), largest | sign);
    assert_int_equal(store(f, 1e300), largest);
    assert_int_equal(store(f, 1e-320), 0);
    assert_int_equal(store(f, -1e-320), sign);
    assert_true(isnan(decode(f, encode(f, NAN))));
    float infinite = decode(f, encode(f, INFINITY));
    assert_true(f->has_infinity ? isinf(infinite) : isnan(infinite));
  }
  float f32;
  graft_dtype_store(GRAFT_F32, &f32, -1e300);
  assert_true(f32 == -3.4028235e38f);
  graft_dtype_store(GRAFT_F32, &f32, (double)INFINITY);
  assert_true(isinf(f32));
}

static void integers_saturate_and_nan_is_zero(void **state) {
  (void)state;
  const float from[] = {NAN, 1e30f, -1e30f, 2.5f, 3.5f, -2.5f, INFINITY};
  int8_t i8[7];
  uint8_t u8[7], truth[7];
  int32_t i32[7];
  int64_t i64[7];
  graft_dtype_i8.from_f32(from, i8, 7);
  graft_dtype_u8.from_f32(from, u8, 7);
  graft_dtype_i32.from_f32(from, i32, 7);
  graft_dtype_i64.from_f32(from, i64, 7);
  graft_dtype_bool.from_f32(from, truth, 7);
  const int8_t want_i8[] = {0, 127, -128, 2, 4, -2, 127};
  const uint8_t want_u8[] = {0, 255, 0, 2, 4, 0, 255}, want_truth[] = {1, 1, 1, 1, 1, 1, 1};
  const int32_t want_i32[] = {0, INT32_MAX, INT32_MIN, 2, 4, -2, INT32_MAX};
  const int64_t want_i64[] = {0, INT64_MAX, INT64_MIN, 2, 4, -2, INT64_MAX};
  assert_memory_equal(i8, want_i8, sizeof i8);
  assert_memory_equal(u8, want_u8, sizeof u8);
  assert_memory_equal(i32, want_i32, sizeof i32);
  assert_memory_equal(i64, want_i64, sizeof i64);
  assert_memory_equal(truth, want_truth, sizeof truth);
}

static void load_and_store_agree_at_any_address(void **state) {
  (void)state;
  const graft_dtype all[] = {GRAFT_F32, GRAFT_F16, GRAFT_BF16, GRAFT_F8_E4M3, GRAFT_F8_E5M2,
                             GRAFT_I8,  GRAFT_I32, GRAFT_I64,  GRAFT_U8,      GRAFT_BOOL};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
    unsigned char bytes[24];
    memset(bytes, 0xAB, sizeof bytes);
    graft_dtype_store(all[i], bytes + 1, 1);
    assert_true(graft_dtype_load(all[i], bytes + 1) == 1);
    assert_int_equal(bytes[0], 0xAB);
    assert_int_equal(bytes[1 + all[i]->block_bytes], 0xAB);
    assert_int_equal(graft_dtype_find(all[i]->name) == all[i], 1);
  }
  int64_t wide = INT64_C(1) << 52 | 1;
  assert_true(graft_dtype_load(GRAFT_I64, &wide) == 0x1p52 + 1);
  int32_t middle = 16777217;  // not an f32
  assert_true(graft_dtype_load(GRAFT_I32, &middle) == 16777217);
}

static void names_and_row_bytes(void **state) {
  (void)state;
  assert_ptr_equal(graft_dtype_find("BF16"), GRAFT_BF16);
  assert_ptr_equal(graft_dtype_find("F8_E4M3"), GRAFT_F8_E4M3);
  assert_null(graft_dtype_find("f3"));
  assert_null(graft_dtype_find("f32x"));
  assert_null(graft_dtype_find(""));
  assert_null(graft_dtype_find(NULL));
  size_t bytes = 7;
  assert_int_equal(graft_dtype_row_bytes(GRAFT_F32, 3, &bytes), GRAFT_OK);
  assert_int_equal(bytes, 12);
  assert_int_equal(graft_dtype_row_bytes(GRAFT_F32, -1, &bytes), GRAFT_E_SHAPE);
  assert_int_equal(graft_dtype_row_bytes(GRAFT_I64, INT64_MAX / 4, &bytes), GRAFT_E_NO_MEMORY);
  graft_dtype_def block = {.block_elements = 32, .block_bytes = 18};
  assert_int_equal(graft_dtype_row_bytes(&block, 64, &bytes), GRAFT_OK);
  assert_int_equal(bytes, 36);
  assert_int_equal(graft_dtype_row_bytes(&block, 65, &bytes), GRAFT_E_SHAPE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pattern_round_trips),
      cmocka_unit_test(conversion_rounds_to_nearest_even),
      cmocka_unit_test(overflow_saturates_and_infinity_stays),
      cmocka_unit_test(integers_saturate_and_nan_is_zero),
      cmocka_unit_test(load_and_store_agree_at_any_address),
      cmocka_unit_test(names_and_row_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
