// test_simd.c — the vector functions of every target that this processor can run, against the C library in double.
//
//   test_simd [STRIDE]    tests every STRIDE-th of all 2^32 floats (default 1999); 97 takes some ten seconds
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graft/cpu.h"
#include "tests/simd/simd_probe.h"

enum { BLOCK = 4096, DENSE_STRIDE = 97 };

static uint64_t pattern_stride = 1999;

static uint64_t cpu_features(void) {
  uint64_t features = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) features |= GRAFT_CPU_AVX2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    features |= GRAFT_CPU_AVX512;
  }
#endif
  return features;
}

// Fills |out| with the probes that can run here; returns their number.
static int32_t runnable_probes(const simd_probe *out[3]) {
  const simd_probe *const all[] = {
    &simd_probe__baseline,
#if defined(__x86_64__)
    &simd_probe__avx2,
    &simd_probe__avx512,
#endif
  };
  const uint64_t features = cpu_features();
  int32_t n = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
    if ((all[i]->required_features & ~features) == 0) out[n++] = all[i];
  }
  return n;
}

static float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// Distance of |got| from |want| in units of the last place of a float as large as |want|. Infinity counts as the number
// after the largest float.
static double ulp_error(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
  if (isnan(got)) return HUGE_VAL;
  const double limit = 0x1p128;
  const double g = isinf(got) ? copysign(limit, (double)got) : (double)got;
  const double w = fabs(want) > limit ? copysign(limit, want) : want;
  int exponent;
  (void)frexp(w, &exponent);
  const double ulp = ldexp(1.0, w == 0 || exponent < -125 ? -149 : exponent - 24);
  return fabs(g - w) / ulp;
}

static double double_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

typedef void (*apply_fn)(const float *x, float *y, int64_t n);

static double double_normal_share(double x) {
  return 0.5 * erfc(-x * sqrt(0.5));
}

static double double_silu(double x) {
  return x / (1 + exp(-x));
}

// Every |stride|-th float by its bits, from |first| to |last|; those below |lowest| are left out.
typedef struct range {
  uint64_t first, last, stride;
  double lowest;
} range;

static void measure_in(range over, const char *name, size_t member, double (*want)(double), double bound) {
  const simd_probe *probes[3];
  const int32_t n_probes = runnable_probes(probes);
  double worst[3] = {0};
  float worst_at[3] = {0}, x[BLOCK], y[3][BLOCK];
  for (uint64_t bits = over.first; bits <= over.last;) {
    int32_t n = 0;
    for (; n < BLOCK && bits <= over.last; bits += over.stride) {
      x[n] = float_of_bits((uint32_t)bits);
      n += !((double)x[n] < over.lowest);
    }
    for (int32_t p = 0; p < n_probes; ++p) {
      apply_fn apply;
      memcpy(&apply, (const char *)probes[p] + member, sizeof apply);
      apply(x, y[p], n);
    }
    for (int32_t i = 0; i < n; ++i) {
      const double w = want((double)x[i]);
      for (int32_t p = 0; p < n_probes; ++p) {
        const double error = ulp_error(y[p][i], w);
        if (error > worst[p]) worst[p] = error, worst_at[p] = x[i];
      }
    }
  }
  for (int32_t p = 0; p < n_probes; ++p) {
    print_message("%-8s %-9s %.3f ulp at %a\n", name, probes[p]->target, worst[p], (double)worst_at[p]);
    assert_true(worst[p] <= bound);
  }
}

static void measure_from(double lowest, const char *name, size_t member, double (*want)(double), double bound) {
  measure_in((range){0, UINT32_MAX, pattern_stride, lowest}, name, member, want, bound);
}

static void measure(const char *name, size_t member, double (*want)(double), double bound) {
  measure_from(-HUGE_VAL, name, member, want, bound);
}

static void exp_is_within_2_ulp(void **state) {
  (void)state;
  measure("exp", offsetof(simd_probe, exp), exp, 2);
}

// What it is made of is the part above a whole number: all floats from -2^-25 to -2 are every such part with every way
// to round it. Densely, each of them is tested.
static void power_of_two_is_within_2_ulp(void **state) {
  (void)state;
  const uint64_t stride = pattern_stride < 2 * DENSE_STRIDE ? 1 : pattern_stride / DENSE_STRIDE;
  const range ranges[] = {{0xb3000000, 0xc0000000, stride, -HUGE_VAL},           // -2^-25 … -2
                          {0xc0000000, 0xc2fc0000, 8 * stride + 1, -HUGE_VAL},   // -2 … -126
                          {0x80000000, 0xb3000000, 8 * stride + 1, -HUGE_VAL},   // -0 … -2^-25
                          {0x00000000, 0x3f800000, 8 * stride + 1, -HUGE_VAL}};  // 0 … 1
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; ++i) {
    measure_in(ranges[i], "2^x", offsetof(simd_probe, power_of_two), exp2, 2);
  }
}

static void sigmoid_is_within_2_ulp(void **state) {
  (void)state;
  measure("sigmoid", offsetof(simd_probe, sigmoid), double_sigmoid, 2);
}

static void silu_is_within_3_ulp(void **state) {
  (void)state;
  measure_from(-88.7, "silu", offsetof(simd_probe, silu), double_silu, 3);
}

static void tanh_is_within_2_ulp(void **state) {
  (void)state;
  measure("tanh", offsetof(simd_probe, tanh), tanh, 2);
}

static void erf_is_within_2_ulp(void **state) {
  (void)state;
  measure("erf", offsetof(simd_probe, erf), erf, 2);
}

static void normal_share_is_within_8_ulp(void **state) {
  (void)state;
  measure("normal", offsetof(simd_probe, normal_share), double_normal_share, 8);
}

static void special_values(void **state) {
  (void)state;
  const simd_probe *probes[3];
  const int32_t n_probes = runnable_probes(probes);
  const float x[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f, 0x1p-149f, 3.4e38f, -3.4e38f};
  float y[8];
  for (int32_t p = 0; p < n_probes; ++p) {
    probes[p]->exp(x, y, 8);
    assert_true(y[0] == INFINITY && y[1] == 0 && isnan(y[2]) && y[3] == 1 && y[4] == 1 && y[6] == INFINITY &&
                y[7] == 0);
    probes[p]->power_of_two(x, y, 8);
    assert_true(y[1] == 0 && isnan(y[2]) && y[3] == 1 && y[4] == 1 && y[5] == 1 && y[7] == 0);
    probes[p]->sigmoid(x, y, 8);
    assert_true(y[0] == 1 && y[1] == 0 && isnan(y[2]) && y[3] == 0.5f && y[6] == 1 && y[7] == 0);
    probes[p]->silu(x, y, 8);
    assert_true(y[0] == INFINITY && isnan(y[1]) && isnan(y[2]) && y[3] == 0 && signbit(y[4]) && y[6] == x[6] &&
                y[7] == 0);
    probes[p]->tanh(x, y, 8);
    assert_true(y[0] == 1 && y[1] == -1 && isnan(y[2]) && signbit(y[4]) && y[5] == 0x1p-149f && y[7] == -1);
    probes[p]->normal_share(x, y, 8);
    assert_true(y[0] == 1 && y[1] == 0 && isnan(y[2]) && y[3] == 0.5f && y[6] == 1 && y[7] == 0);
    probes[p]->erf(x, y, 8);
    assert_true(y[0] == 1 && y[1] == -1 && isnan(y[2]) && signbit(y[4]) && y[5] == 0x1p-149f && y[7] == -1);
  }
}

static void halves_widen_as_the_dtype_says(void **state) {
  (void)state;
  static uint16_t x[65536];
  static float got[65536], want[65536];
  const simd_probe *probes[3];
  const int32_t n_probes = runnable_probes(probes);
  for (uint32_t i = 0; i < 65536; ++i) x[i] = (uint16_t)i;
  const graft_dtype dtypes[] = {GRAFT_F16, GRAFT_BF16};
  for (int32_t d = 0; d < 2; ++d) {
    dtypes[d]->to_f32(x, want, 65536);
    for (int32_t p = 0; p < n_probes; ++p) {
      probes[p]->widen(x, dtypes[d]->code, got, 65536);
      for (int32_t i = 0; i < 65536; ++i) {
        if (isnan(want[i])) {
          assert_true(isnan(got[i]));
        } else {
          assert_memory_equal(&got[i], &want[i], sizeof(float));
        }
      }
    }
  }
}

// Whether the bits of an f16 (|infinity| 0x7c00) or a bf16 (0x7f80) say "not a number".
static bool is_nan_half(uint16_t bits, uint16_t infinity) {
  return (bits & 0x7fff) > infinity;
}

static void compare_narrowing(const simd_probe *probe, graft_dtype dtype, const float *x, int32_t n) {
  uint16_t got[BLOCK], want[BLOCK];
  const uint16_t infinity = dtype == GRAFT_F16 ? 0x7c00 : 0x7f80;
  dtype->from_f32(x, want, (size_t)n);
  probe->narrow(x, dtype->code, got, n);
  for (int32_t i = 0; i < n; ++i) {
    if (is_nan_half(want[i], infinity) ? is_nan_half(got[i], infinity) : got[i] == want[i]) continue;
    print_message("%s %s of %a: got %04x, want %04x\n", probe->target, dtype->name, (double)x[i], got[i], want[i]);
    fail();
  }
}

static void halves_narrow_as_the_dtype_says(void **state) {
  (void)state;
  const simd_probe *probes[3];
  const int32_t n_probes = runnable_probes(probes);
  float x[BLOCK];
  // The low bits are taken from the middle and the ends of what rounds away, so that ties and carries all occur.
  const uint32_t low[] = {0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x7fff, 0x8000, 0x8001, 0xffff, 0x3000, 0xb000};
  int32_t n = 0;
  for (uint32_t high = 0; high < 65536; ++high) {
    for (size_t k = 0; k < sizeof low / sizeof low[0]; ++k) x[n++] = float_of_bits(high << 16 | low[k]);
    if (n + 12 <= BLOCK && high < 65535) continue;
    for (int32_t p = 0; p < n_probes; ++p) {
      compare_narrowing(probes[p], GRAFT_F16, x, n);
      compare_narrowing(probes[p], GRAFT_BF16, x, n);
    }
    n = 0;
  }
}

static void partial_vectors_touch_nothing_else(void **state) {
  (void)state;
  const simd_probe *probes[3];
  const int32_t n_probes = runnable_probes(probes);
  for (int32_t p = 0; p < n_probes; ++p) {
    for (int64_t n = 1; n < 40; ++n) {
      // Exact allocations: sanitizers see a lane read or written too far.
      float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
      uint16_t *half = malloc((size_t)n * sizeof *half);
      assert_true(x && y && half);
      for (int64_t i = 0; i < n; ++i) x[i] = (float)(i - 20);
      probes[p]->narrow(x, GRAFT_DTYPE_BF16, half, n);
      probes[p]->widen(half, GRAFT_DTYPE_BF16, y, n);
      assert_memory_equal(x, y, (size_t)n * sizeof *x);
      assert_true(probes[p]->sum(x, n) == (float)(n * (n - 1) / 2 - 20 * n));
      assert_true(probes[p]->max(x, n) == (float)(n - 21));
      float canary[42];
      for (int32_t i = 0; i < 42; ++i) canary[i] = 77;
      probes[p]->tanh(x, canary + 1, n);
      assert_true(canary[0] == 77 && canary[n + 1] == 77);
      free(x), free(y), free(half);
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1) pattern_stride = strtoull(argv[1], NULL, 10);
  if (pattern_stride == 0) pattern_stride = 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exp_is_within_2_ulp),
      cmocka_unit_test(power_of_two_is_within_2_ulp),
      cmocka_unit_test(sigmoid_is_within_2_ulp),
      cmocka_unit_test(silu_is_within_3_ulp),
      cmocka_unit_test(tanh_is_within_2_ulp),
      cmocka_unit_test(erf_is_within_2_ulp),
      cmocka_unit_test(normal_share_is_within_8_ulp),
      cmocka_unit_test(special_values),
      cmocka_unit_test(halves_widen_as_the_dtype_says),
      cmocka_unit_test(halves_narrow_as_the_dtype_says),
      cmocka_unit_test(partial_vectors_touch_nothing_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
