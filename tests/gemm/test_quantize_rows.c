// test_quantize_rows.c — rows that every target of this processor rotates and quantises, held to the plain code byte by
// byte: all groups, all types, results that stay in the caches and results that go past them, rows full of ties, and
// rows of numbers so large that some sums of them are infinite, or differences of such sums NaN.
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/features.h"
#include "ops/common/cpu/quantize.h"
#include "ops/common/cpu/target.h"
#include "ops/common/quantize.h"

enum { N = 4096 };

static const struct {
  const graft_quantize_core *core;
  uint64_t required_features;
} targets[] = {
    {&graft_quantize_core__baseline, 0},
#if defined(__x86_64__)
    {&graft_quantize_core__avx2, GRAFT_CPU_AVX2},
    {&graft_quantize_core__avx512, GRAFT_CPU_AVX512},
#endif
};

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % n;
}

static void *allocate(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  assert_non_null(p);
  return p;
}

// Rows with many digits; halves of whole numbers up to 127, so that the scale is 1 and every other one is a tie;
// numbers up to |largest|, few of them large; and such a row with something in it that is not finite.
typedef enum row_kind { MANY_DIGITS, TIES, LARGE, NOT_FINITE } row_kind;

static float random_number(row_kind kind, float largest) {
  if (kind == TIES) return 0.5f * (float)random_below(254) - 63.5f;
  const float digits = (float)random_below(1u << 24) / (1u << 22) - 2;
  if (kind == MANY_DIGITS) return digits;
  return random_below(40) == 0 ? digits * (largest / 2) : digits * (largest / 4096);
}

static void fill(float *x, int64_t n, row_kind kind, float largest) {
  for (int64_t i = 0; i < n; ++i) x[i] = random_number(kind, largest);
  if (kind == TIES) x[n / 2] = 127;
  if (kind == NOT_FINITE) x[random_below((uint32_t)n)] = random_below(2) ? HUGE_VALF : -NAN;
}

static graft_dtype dtype_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_BF16 ? GRAFT_BF16 : type == GRAFT_DTYPE_F16 ? GRAFT_F16 : GRAFT_F32;
}

// |row| has all but addresses.
static void check(const graft_quantize_core *core, graft_quantize_row row, row_kind kind) {
  const size_t n = (size_t)row.n;
  float *x = allocate(n * sizeof *x), scale, wanted_scale;
  void *typed = allocate(n * sizeof *x);
  int8_t *q = allocate(n), *wanted = allocate(n);
  fill(x, row.n, kind, row.type == GRAFT_DTYPE_F16 ? 65504.0f : FLT_MAX);
  dtype_of(row.type)->from_f32(x, typed, n);
  dtype_of(row.type)->to_f32(typed, x, n);
  row.x = typed;
  row.q = q;
  row.scale = &scale;
  row.scratch = allocate((size_t)graft_quantize_scratch_floats(row.n) * sizeof(float));
  core->row(&row);
  wanted_scale = graft_quantize_reference_row(x, row.n, row.group, row.has_bf16_grid, wanted);
  assert_memory_equal(q, wanted, n);
  assert_memory_equal(&scale, &wanted_scale, sizeof scale);
  free(row.scratch);
  free(wanted);
  free(q);
  free(typed);
  free(x);
}

static void rows_have_the_bytes_of_the_plain_code(void **state) {
  (void)state;
  static const graft_dtype_code types[] = {GRAFT_DTYPE_F32, GRAFT_DTYPE_BF16, GRAFT_DTYPE_F16};
  const uint64_t features = graft_cpu_detect_features();
  for (size_t t = 0; t < sizeof targets / sizeof targets[0]; ++t) {
    if ((targets[t].required_features & ~features) != 0) continue;
    for (int64_t group = 1; group <= N; group *= 4) {
      for (int i = 0; i < 72; ++i) {
        graft_quantize_row row = {
            .type = types[i % 3], .group = group, .streams = i / 4 % 2, .has_bf16_grid = i % 9 == 7};
        row.n = group < 64 ? 64 * (1 + random_below(40)) : group * (1 + random_below((uint32_t)(N / group)));
        if (group < 64 && !row.streams) row.n -= group;
        check(targets[t].core, row, (row_kind)(i % 4));
      }
    }
  }
}

// Only what is larger than the caches leaves them, and only in whole lines.
static void small_results_stay_in_the_caches(void **state) {
  (void)state;
  _Alignas(64) int8_t q[64] = {0};
  assert_true(graft_quantize_should_stream(q, GRAFT_DTYPE_F32, 4224, 3840));
  assert_false(graft_quantize_should_stream(q, GRAFT_DTYPE_F32, 288, 1024));
  assert_false(graft_quantize_should_stream(q, GRAFT_DTYPE_F32, 1 << 20, 100));
  assert_false(graft_quantize_should_stream(q + 1, GRAFT_DTYPE_F32, 4224, 3840));
  assert_false(graft_quantize_should_stream(q, GRAFT_DTYPE_F32, 4224, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_have_the_bytes_of_the_plain_code),
      cmocka_unit_test(small_results_stay_in_the_caches),
  };
  return cmocka_run_group_tests_name("quantize_rows", tests, NULL, NULL);
}
