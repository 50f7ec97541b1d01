// test_gemm_i8.c — the int8 product of every core that this processor can run, held to sums in 64 bits: they must be
// equal, whatever bytes occur and however many terms there are.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/features.h"
#include "ops/common/cpu/gemm_i8.h"

static const graft_gemm_i8_core *const targets[] = {
    &graft_gemm_i8_core__baseline,
#if defined(__x86_64__)
    &graft_gemm_i8_core__avx2,
    &graft_gemm_i8_core__avx512,
#endif
};

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % n;
}

static void *allocate(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
  assert_non_null(p);
  memset(p, 0xff, bytes);
  return p;
}

typedef enum filling { RANDOM, LOWEST, EXTREMES } filling;

// All bytes, -128 alone, or -128 and 127.
static void fill(int8_t *p, int64_t n, filling how) {
  for (int64_t i = 0; i < n; ++i) {
    if (how == LOWEST) p[i] = -128;
    else if (how == EXTREMES) p[i] = random_below(2) ? 127 : -128;
    else p[i] = (int8_t)(random_below(256) - 128);
  }
}

typedef struct problem {
  int64_t m, n, k;
  filling how;
  bool has_bias;
} problem;

static float expected(const graft_gemm_i8 *g, const int8_t *w, const float *bias, int64_t i, int64_t j) {
  int64_t sum = 0;
  for (int64_t p = 0; p < g->k; ++p) sum += g->a[i * g->a_stride + p] * w[j * g->k + p];
  const float scaled = (float)sum * g->scales.x[i] * g->scales.w[j];
  return bias ? scaled + bias[j] : scaled;
}

static void run_all(const graft_gemm_i8 *g) {
  void *scratch = allocate(graft_gemm_i8_scratch_bytes(g));
  for (int64_t item = graft_gemm_i8_items(g) - 1; item >= 0; --item) graft_gemm_i8_run(g, item, scratch);
  free(scratch);
}

static void check(const graft_gemm_i8_core *core, problem p) {
  graft_gemm_i8 g = {.core = core, .m = p.m, .n = p.n, .k = p.k, .a_stride = p.k + 3};
  int8_t *a = allocate((size_t)(p.m * g.a_stride)), *w = allocate((size_t)(p.n * p.k));
  float *x_scales = allocate((size_t)p.m * 4), *w_scales = allocate((size_t)p.n * 4), *bias = allocate((size_t)p.n * 4);
  fill(a, p.m * g.a_stride, p.how);
  fill(w, p.n * p.k, p.how);
  for (int64_t i = 0; i < p.m; ++i) x_scales[i] = 0.5f + (float)i;
  for (int64_t j = 0; j < p.n; ++j) w_scales[j] = 0.25f * (float)(j % 7), bias[j] = (float)j - 3.5f;
  const graft_gemm_i8_weight weight = {.data = w, .n = p.n, .k = p.k, .row_stride = p.k};
  void *packed = allocate(graft_gemm_i8_packed_bytes(core, p.n, p.k));
  graft_gemm_i8_pack(core, &weight, packed);
  const int64_t row_stride = p.n + 5;
  float *c = allocate((size_t)(p.m * row_stride) * sizeof *c);
  memset(c, 0, (size_t)(p.m * row_stride) * sizeof *c);
  g.a = a;
  g.b = packed;
  g.scales = (graft_gemm_i8_scales){.x = x_scales, .x_step = 1, .w = w_scales, .w_step = 1};
  g.out = (graft_gemm_output){.data = c, .type = GRAFT_DTYPE_F32, .row_stride = row_stride};
  if (p.has_bias) g.out.bias = (graft_gemm_matrix){.data = bias, .type = GRAFT_DTYPE_F32, .column_stride = 1};
  run_all(&g);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      if (c[i * row_stride + j] == expected(&g, w, p.has_bias ? bias : NULL, i, j)) continue;
      fail_msg("%s, %d x %d x %d: element %d, %d differs", core->layout, (int)p.m, (int)p.n, (int)p.k, (int)i, (int)j);
    }
    for (int64_t j = p.n; j < row_stride; ++j) assert_true(c[i * row_stride + j] == 0);
  }
  void *const memory[] = {a, w, x_scales, w_scales, bias, packed, c};
  for (size_t i = 0; i < sizeof memory / sizeof memory[0]; ++i) free(memory[i]);
}

static void check_all(problem p) {
  const uint64_t features = graft_cpu_detect_features();
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
    for (const graft_gemm_i8_core *core = targets[i]; core; core = core->better) {
      if ((core->required_features & ~features) == 0) check(core, p);
    }
  }
}

static void sums_are_exact_for_any_number_of_rows_and_columns(void **state) {
  (void)state;
  for (int64_t m = 1; m <= 17; ++m) {
    for (int64_t n = 1; n <= 70; n += 1 + n / 3) check_all((problem){m, n, 37, RANDOM, n % 2 == 0});
  }
}

static void sums_are_exact_for_any_number_of_terms(void **state) {
  (void)state;
  const int64_t k[] = {1, 2, 3, 4, 5, 7, 8, 9, 64, 511, 512, 513, 1024, 1500};
  for (size_t i = 0; i < sizeof k / sizeof k[0]; ++i) check_all((problem){9, 40, k[i], RANDOM, false});
}

static void no_product_of_extremes_saturates(void **state) {
  (void)state;
  check_all((problem){5, 33, 1100, LOWEST, false});
  check_all((problem){5, 33, 1100, EXTREMES, true});
}

// 131,072 products of -128 and -128 are 2^31.
static void sums_leave_32_bits(void **state) {
  (void)state;
  check_all((problem){2, 3, 131072, LOWEST, false});
  check_all((problem){3, 34, 270000, EXTREMES, true});
}

static void several_items_make_one_result(void **state) {
  (void)state;
  check_all((problem){130, 300, 600, RANDOM, true});
}

static void the_best_core_of_a_target_is_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
    const graft_gemm_i8_core *last = targets[i];
    assert_ptr_equal(graft_gemm_i8_core_for(targets[i], targets[i]->required_features), targets[i]);
    while (last->better) last = last->better;
    assert_ptr_equal(graft_gemm_i8_core_for(targets[i], UINT64_MAX), last);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_are_exact_for_any_number_of_rows_and_columns),
      cmocka_unit_test(sums_are_exact_for_any_number_of_terms),
      cmocka_unit_test(no_product_of_extremes_saturates),
      cmocka_unit_test(sums_leave_32_bits),
      cmocka_unit_test(several_items_make_one_result),
      cmocka_unit_test(the_best_core_of_a_target_is_found),
  };
  return cmocka_run_group_tests_name("gemm_i8", tests, NULL, NULL);
}
