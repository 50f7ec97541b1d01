// test_gemm.c — the matrix product of every target that this processor can run. Small whole numbers make every sum
// exact, so most results are compared without a tolerance; buffers have exactly the size they need, for the sanitizers.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/common/cpu/gemm.h"

static const graft_gemm_core *const all_cores[] = {
    &graft_gemm_core__baseline,
#if defined(__x86_64__)
    &graft_gemm_core__avx2,
    &graft_gemm_core__avx512,
#endif
};

static bool can_run(const graft_gemm_core *core) {
#if defined(__x86_64__)
  if ((core->required_features & GRAFT_CPU_AVX2) &&
      !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) {
    return false;
  }
  if ((core->required_features & GRAFT_CPU_AVX512) &&
      !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))) {
    return false;
  }
  if ((core->required_features & GRAFT_CPU_AVX512_BF16) && !__builtin_cpu_supports("avx512bf16")) return false;
#else
  (void)core;
#endif
  return true;
}

static uint32_t random_state = 1;

static uint32_t random_below(uint32_t n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % n;
}

static graft_dtype dtype_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_BF16 ? GRAFT_BF16 : type == GRAFT_DTYPE_F16 ? GRAFT_F16 : GRAFT_F32;
}

static void *allocate(int64_t n, size_t element) {
  void *p = aligned_alloc(64, ((size_t)n * element + 64) / 64 * 64);
  assert_non_null(p);
  return p;
}

// |n| elements: whole numbers from -4 to 4, or numbers with many digits.
static void *make(graft_dtype_code type, int64_t n, bool is_whole) {
  char *p = allocate(n, (size_t)graft_gemm_element_bytes(type));
  for (int64_t i = 0; i < n; ++i) {
    const double v = is_whole ? (double)random_below(9) - 4 : (double)random_below(1u << 24) / (1u << 23) - 1;
    graft_dtype_store(dtype_of(type), p + i * graft_gemm_element_bytes(type), v);
  }
  return p;
}

static double at(const graft_gemm_matrix *x, int64_t i, int64_t j) {
  return graft_dtype_load(dtype_of(x->type), graft_gemm_matrix_at(*x, i, j).data);
}

// Runs all items, the last one first.
static void run(const graft_gemm *gemm) {
  const size_t bytes = graft_gemm_scratch_bytes(gemm);
  void *scratch = allocate((int64_t)bytes, 1);
  memset(scratch, 0xff, bytes);  // NaN: nothing may be read before it is written
  for (int64_t item = graft_gemm_items(gemm) - 1; item >= 0; --item) graft_gemm_run(gemm, item, scratch);
  free(scratch);
}

static void *pack(graft_gemm *gemm) {
  const size_t bytes = graft_gemm_packed_bytes(gemm->core, gemm->b.type, gemm->n, gemm->k);
  void *packed = allocate((int64_t)bytes, 1);
  graft_gemm_pack(gemm->core, &gemm->b, gemm->n, gemm->k, packed);
  gemm->b.data = packed;
  gemm->b_is_packed = true;
  return packed;
}

static graft_gemm_matrix make_matrix(graft_dtype_code type, int64_t rows, int64_t columns, bool is_transposed) {
  graft_gemm_matrix x = {.data = make(type, rows * columns, true), .type = type};
  x.row_stride = is_transposed ? 1 : columns;
  x.column_stride = is_transposed ? rows : 1;
  return x;
}

static void check_exact(const graft_gemm *g, const graft_gemm_matrix *b) {
  const graft_gemm_output *out = &g->out;
  const graft_gemm_matrix y = {.data = out->data, .type = out->type, .row_stride = g->n, .column_stride = 1};
  for (int64_t i = 0; i < g->m; ++i) {
    for (int64_t j = 0; j < g->n; ++j) {
      double sum = at(&out->bias, i, j) + at(&out->residual, i, j);
      for (int64_t p = 0; p < g->k; ++p) sum += at(&g->a, i, p) * at(b, p, j);
      unsigned char rounded[4];
      graft_dtype_store(dtype_of(out->type), rounded, sum);
      if (at(&y, i, j) == graft_dtype_load(dtype_of(out->type), rounded)) continue;
      fail_msg("%s %lld x %lld x %lld: element %lld, %lld is %g, not %g", g->core->target, (long long)g->m,
               (long long)g->n, (long long)g->k, (long long)i, (long long)j, at(&y, i, j), sum);
    }
  }
}

static void check_random_product(const graft_gemm_core *core) {
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 13, 14, 15, 31, 32, 33, 97, 131};
  static const int64_t terms[] = {0, 1, 3, 16, 17, 255, 256, 257, 513};
  static const graft_dtype_code types[] = {GRAFT_DTYPE_F32, GRAFT_DTYPE_F16, GRAFT_DTYPE_BF16};
  const int64_t m = sizes[random_below(14)], n = sizes[random_below(14)], k = terms[random_below(9)];
  graft_gemm g = {.core = core, .m = m, .n = n, .k = k};
  g.a = make_matrix(types[random_below(3)], m, k, random_below(3) == 0);
  g.b = make_matrix(types[random_below(3)], k, n, random_below(2));
  g.out = (graft_gemm_output){.type = types[random_below(3)], .row_stride = n};
  g.out.data = make(g.out.type, m * n, true);
  g.out.bias = (graft_gemm_matrix){.data = make(GRAFT_DTYPE_F32, m + n, true), .type = GRAFT_DTYPE_F32};
  *(random_below(2) ? &g.out.bias.row_stride : &g.out.bias.column_stride) = 1;
  g.out.residual = make_matrix(types[random_below(3)], m, n, false);
  const graft_gemm_matrix b = g.b;
  void *packed = random_below(2) ? pack(&g) : NULL;
  run(&g);
  check_exact(&g, &b);
  void *const made[] = {(void *)(uintptr_t)g.a.data,
                        (void *)(uintptr_t)b.data,
                        (void *)(uintptr_t)g.out.bias.data,
                        (void *)(uintptr_t)g.out.residual.data,
                        g.out.data,
                        packed};
  for (size_t i = 0; i < sizeof made / sizeof made[0]; ++i) free(made[i]);
}

static void test_products_are_exact(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof all_cores / sizeof all_cores[0]; ++c) {
    if (!can_run(all_cores[c])) continue;
    for (int i = 0; i < 400; ++i) check_random_product(all_cores[c]);
  }
}

enum { M = 150, N = 300, K = 700 };

// The promise of gemm.h: a row's bytes depend neither on the rows computed with it nor on how B is stored.
static void test_rows_do_not_depend_on_their_company(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof all_cores / sizeof all_cores[0]; ++c) {
    if (!can_run(all_cores[c])) continue;
    float *a = make(GRAFT_DTYPE_F32, M * K, false), *together = allocate(M * N, sizeof(float)), alone[N];
    uint16_t *b = make(GRAFT_DTYPE_BF16, N * K, false);
    graft_gemm g = {.core = all_cores[c], .m = M, .n = N, .k = K, .a = {a, GRAFT_DTYPE_F32, K, 1}};
    g.b = (graft_gemm_matrix){b, GRAFT_DTYPE_BF16, 1, K};
    g.out = (graft_gemm_output){.data = together, .type = GRAFT_DTYPE_F32, .row_stride = N};
    run(&g);
    void *packed = pack(&g);
    g.m = 1;
    g.out.data = alone;
    for (int64_t i = 0; i < M; ++i) {
      g.a.data = a + i * K;
      run(&g);
      assert_memory_equal(alone, together + i * N, sizeof alone);
    }
    free(packed);
    free(b);
    free(together);
    free(a);
  }
}

// Nor do they depend on how far apart rows of A are, which decides whether strips are copied, or on what follows a row.
static void check_distance(const graft_gemm_core *core, graft_dtype_code type, int64_t k) {
  enum { FAR = 2048 };
  const int64_t element = graft_gemm_element_bytes(type);
  char *far = make(type, M * FAR, false), *near = make(type, M * K, false);
  float *of_far = allocate(M * N, sizeof(float)), *of_near = allocate(M * N, sizeof(float));
  for (int64_t i = 0; i < M; ++i) {
    memset(near + i * K * element, 0xff, (size_t)(K * element));  // NaN
    memcpy(near + i * K * element, far + i * FAR * element, (size_t)(k * element));
  }
  graft_gemm g = {.core = core, .m = M, .n = N, .k = k, .a = {far, type, FAR, 1}};
  g.b = make_matrix(type, k, N, false);
  g.out = (graft_gemm_output){.data = of_far, .type = GRAFT_DTYPE_F32, .row_stride = N};
  run(&g);
  g.a = (graft_gemm_matrix){near, type, K, 1};
  g.out.data = of_near;
  run(&g);
  assert_memory_equal(of_far, of_near, (size_t)M * N * sizeof(float));
  void *const made[] = {far, near, of_far, of_near, (void *)(uintptr_t)g.b.data};
  for (size_t i = 0; i < sizeof made / sizeof made[0]; ++i) free(made[i]);
}

static void test_rows_do_not_depend_on_their_distance(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof all_cores / sizeof all_cores[0]; ++c) {
    if (can_run(all_cores[c])) check_distance(all_cores[c], GRAFT_DTYPE_F32, K);
  }
#if defined(__x86_64__)
  for (int64_t k = K - 1; k <= K && can_run(&graft_gemm_core__avx512_bf16); ++k) {
    check_distance(&graft_gemm_core__avx512_bf16, GRAFT_DTYPE_BF16, k);
  }
#endif
}

// Takes finished sums as they are, and counts how often each place was finished.
typedef struct finished {
  float *sums, *counts;
  int64_t n, group;
} finished;

static void keep(const void *context, const graft_gemm_block *block, float *c, size_t c_stride) {
  const finished *f = context;
  assert_int_equal(block->column % f->group, 0);
  assert_int_equal(block->columns % f->group, 0);
  for (int64_t i = 0; i < block->rows; ++i) {
    for (int64_t j = 0; j < block->columns; ++j) {
      const int64_t at = (block->row + i) * f->n + block->column + j;
      f->sums[at] = c[(size_t)i * c_stride + (size_t)j];
      f->counts[at] += 1;
      c[(size_t)i * c_stride + (size_t)j] = NAN;  // sums may be worked on in place
    }
  }
}

// The same sums as are stored, in blocks of whole groups. Returns whether there are such blocks.
static bool check_finished(const graft_gemm_core *core, int64_t m, int64_t k, int64_t n_groups, int64_t group) {
  const int64_t n = n_groups * group;
  if (!graft_gemm_can_finish(core, n, group)) return false;
  graft_gemm g = {.core = core, .m = m, .n = n, .k = k};
  float *stored = make(GRAFT_DTYPE_F32, m * n, true);
  finished f = {make(GRAFT_DTYPE_F32, m * n, true), allocate(m * n, sizeof(float)), n, group};
  memset(f.counts, 0, (size_t)(m * n) * sizeof(float));
  g.a = make_matrix(core->a_type, m, k, false);
  g.b = make_matrix(core->a_type, k, n, false);
  g.out = (graft_gemm_output){.data = stored, .type = GRAFT_DTYPE_F32, .row_stride = n};
  run(&g);
  g.out.data = NULL;
  g.finish = keep;
  g.finish_context = &f;
  g.finish_columns = group;
  run(&g);
  assert_memory_equal(f.sums, stored, (size_t)(m * n) * sizeof(float));
  for (int64_t i = 0; i < m * n; ++i) assert_true(f.counts[i] == 1);
  void *const made[] = {(void *)(uintptr_t)g.a.data, (void *)(uintptr_t)g.b.data, stored, f.sums, f.counts};
  for (size_t i = 0; i < sizeof made / sizeof made[0]; ++i) free(made[i]);
  return true;
}

static void check_finish(const graft_gemm_core *core) {
  static const int64_t rows[] = {0, 1, 3, 15, 97, 288}, groups[] = {1, 2, 6, 24, 32, 64, 71, 96, 128};
  for (int i = 0; i < 100; ++i) {
    (void)check_finished(core, rows[random_below(6)], 1 + random_below(600), 1 + random_below(7),
                         groups[random_below(9)]);
  }
  assert_true(check_finished(core, 30, 20, 9, 64));
  assert_true(check_finished(core, 30, 20, 9, 128));
  assert_true(check_finished(core, 30, 20, 1, 71));  // in one block
  assert_false(graft_gemm_can_finish(core, 71 * 4, 71));
  assert_false(graft_gemm_can_finish(core, core->block_columns + 64, core->block_columns + 64));
}

static void test_blocks_are_finished_in_whole_groups(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof all_cores / sizeof all_cores[0]; ++c) {
    if (can_run(all_cores[c])) check_finish(all_cores[c]);
  }
#if defined(__x86_64__)
  if (can_run(&graft_gemm_core__avx512_bf16)) check_finish(&graft_gemm_core__avx512_bf16);
#endif
}

static double activate(double x, graft_gemm_activation activation) {
  if (activation == GRAFT_GEMM_SILU) return x / (1 + exp(-x));
  if (activation == GRAFT_GEMM_GELU) return 0.5 * x * (1 + erf(x * sqrt(0.5)));
  if (activation == GRAFT_GEMM_GELU_TANH) return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
  return x;
}

static void test_activations(void **state) {
  (void)state;
  for (size_t c = 0; c < sizeof all_cores / sizeof all_cores[0]; ++c) {
    if (!can_run(all_cores[c])) continue;
    for (int f = GRAFT_GEMM_LINEAR; f <= GRAFT_GEMM_GELU_TANH; ++f) {
      float x[257], y[257], one = 1;
      for (int i = 0; i < 257; ++i) x[i] = (float)(i - 128) * 0.0625f;
      graft_gemm g = {.core = all_cores[c], .m = 257, .n = 1, .k = 1};
      g.a = (graft_gemm_matrix){x, GRAFT_DTYPE_F32, 1, 1};
      g.b = (graft_gemm_matrix){&one, GRAFT_DTYPE_F32, 1, 1};
      g.out = (graft_gemm_output){.data = y, .type = GRAFT_DTYPE_F32, .row_stride = 1, .activation = f};
      run(&g);
      for (int i = 0; i < 257; ++i)
        assert_true(fabs((double)y[i] - activate((double)x[i], f)) < 4e-7 * (1 + fabs((double)x[i])));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_are_exact),
      cmocka_unit_test(test_rows_do_not_depend_on_their_company),
      cmocka_unit_test(test_rows_do_not_depend_on_their_distance),
      cmocka_unit_test(test_blocks_are_finished_in_whole_groups),
      cmocka_unit_test(test_activations),
  };
  return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}
