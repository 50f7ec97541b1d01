// References against the definitions of their operators, written out here element by element.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ops/conv2d/conv2d.h"
#include "ops/copy/copy.h"
#include "ops/concat/concat.h"
#include "ops/embedding/embedding.h"
#include "ops/fused/concat_permute/concat_permute.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/timestep_embedding/timestep_embedding.h"
#include "ops/upsample_nearest/upsample_nearest.h"
#include "run_graph.h"

enum { N = 4096 };

static test_graph test;
static float a[N], b[N], c[N], got[N];

// Numbers without a pattern, so that no two elements can be exchanged unnoticed.
static void fill(float *values, uint32_t seed) {
  for (int i = 0; i < N; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
  }
}

static int open_graph(void **state) {
  (void)state;
  fill(a, 1);
  fill(b, 2);
  fill(c, 3);
  test = test_graph_open();
  return 0;
}

static int close_graph(void **state) {
  (void)state;
  test_graph_close(&test);
  return 0;
}

static graft_tensor *constant(const float *values, int32_t rank, const int64_t *shape) {
  return test_constant(&test, GRAFT_F32, rank, shape, values);
}

static void run(graft_tensor *y, int64_t n) {
  assert_non_null(y);
  assert_int_equal(graft_tensor_desc_elements(graft_tensor_describe(y)), n);
  assert_int_equal(test_run(&test, y, GRAFT_PLAN_REFERENCE, got, (size_t)n * sizeof *got), GRAFT_OK);
}

static void assert_close(double value, double want) {
  if (!(fabs(value - want) <= 1e-6 * fmax(1, fabs(want)))) fail_msg("%.9g instead of %.9g", value, want);
}

static void test_linear(void **state) {
  (void)state;
  run(graft_linear(test.graph, constant(a, 2, (int64_t[]){4, 7}), constant(b, 2, (int64_t[]){3, 7}),
                   constant(c, 1, (int64_t[]){3})),
      12);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 3; ++j) {
      double want = (double)c[j];
      for (int k = 0; k < 7; ++k) want += (double)a[i * 7 + k] * (double)b[j * 7 + k];
      assert_close((double)got[i * 3 + j], want);
    }
  }
}

static void test_matmul(void **state) {
  (void)state;
  run(graft_matmul(test.graph, constant(a, 4, (int64_t[]){2, 1, 3, 5}), constant(b, 3, (int64_t[]){3, 5, 4})), 72);
  for (int i = 0; i < 72; ++i) {
    const int column = i % 4, row = i / 4 % 3, inner = i / 12 % 3, outer = i / 36;
    double want = 0;
    for (int k = 0; k < 5; ++k) want += (double)a[outer * 15 + row * 5 + k] * (double)b[inner * 20 + k * 4 + column];
    assert_close((double)got[i], want);
  }
}

// Zero outside of the image [2, 4, 6, 7].
static double pixel(int n, int channel, int64_t y, int64_t x) {
  return y < 0 || y >= 6 || x < 0 || x >= 7 ? 0 : (double)a[((n * 4 + channel) * 6 + y) * 7 + x];
}

static void test_conv2d(void **state) {
  (void)state;
  const graft_conv2d_attrs attrs = {.stride = {2, 1}, .padding = {1, 2, 3, 0}, .dilation = {1, 2}, .groups = 2};
  run(graft_conv2d(test.graph, constant(a, 4, (int64_t[]){2, 4, 6, 7}), constant(b, 4, (int64_t[]){6, 2, 3, 2}),
                   constant(c, 1, (int64_t[]){6}), &attrs),
      2 * 6 * 4 * 8);
  for (int i = 0; i < 2 * 6 * 4 * 8; ++i) {
    const int x = i % 8, y = i / 8 % 4, filter = i / 32 % 6, n = i / 192;
    double want = (double)c[filter];
    for (int k = 0; k < 12; ++k) {
      const int kx = k % 2, ky = k / 2 % 3, channel = k / 6;
      want += (double)b[filter * 12 + k] * pixel(n, filter / 3 * 2 + channel, y * 2 - 1 + ky, x - 3 + kx * 2);
    }
    assert_close((double)got[i], want);
  }
}

typedef struct attention {
  int64_t queries, keys;
  bool is_causal;
  const uint8_t *mask;
  double scale;
} attention;

enum { ITEMS = 2, HEADS = 4, KEY_HEADS = 2, WIDTH = 3, VALUE_WIDTH = 5 };

static double wanted_attention(const attention *t, int64_t item, int64_t query, int64_t head, int64_t channel) {
  const int64_t key_head = head / (HEADS / KEY_HEADS);
  double sum = 0, weights = 0;
  for (int64_t j = 0; j < t->keys; ++j) {
    double score = 0;
    if (t->mask && !t->mask[item * t->keys + j]) continue;
    if (t->is_causal && j > query + t->keys - t->queries) continue;
    for (int64_t k = 0; k < WIDTH; ++k) {
      score += (double)a[((item * t->queries + query) * HEADS + head) * WIDTH + k] *
               (double)b[((item * t->keys + j) * KEY_HEADS + key_head) * WIDTH + k];
    }
    const double weight = exp(score * (t->scale != 0 ? t->scale : 1 / sqrt(WIDTH)));
    weights += weight;
    sum += weight * (double)c[((item * t->keys + j) * KEY_HEADS + key_head) * VALUE_WIDTH + channel];
  }
  return weights > 0 ? sum / weights : 0;
}

static void check_attention(const attention *t) {
  const graft_attention_attrs attrs = {.scale = t->scale, .is_causal = t->is_causal};
  graft_tensor *mask =
      t->mask ? test_constant(&test, GRAFT_BOOL, 2, (int64_t[]){ITEMS, t->keys}, t->mask) : graft_graph_none();
  const int64_t n = ITEMS * t->queries * HEADS * VALUE_WIDTH;
  run(graft_scaled_dot_product_attention(test.graph, constant(a, 4, (int64_t[]){ITEMS, t->queries, HEADS, WIDTH}),
                                         constant(b, 4, (int64_t[]){ITEMS, t->keys, KEY_HEADS, WIDTH}),
                                         constant(c, 4, (int64_t[]){ITEMS, t->keys, KEY_HEADS, VALUE_WIDTH}), mask,
                                         &attrs),
      n);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t channel = i % VALUE_WIDTH, head = i / VALUE_WIDTH % HEADS, row = i / VALUE_WIDTH / HEADS;
    assert_close((double)got[i], wanted_attention(t, row / t->queries, row % t->queries, head, channel));
  }
}

static void test_attention(void **state) {
  (void)state;
  check_attention(&(attention){.queries = 5, .keys = 7});
}

static void test_attention_scale(void **state) {
  (void)state;
  check_attention(&(attention){.queries = 5, .keys = 7, .scale = 2.5});
}

static void test_attention_causal(void **state) {
  (void)state;
  check_attention(&(attention){.queries = 5, .keys = 5, .is_causal = true});
}

static void test_attention_causal_after_a_prefix(void **state) {
  (void)state;
  check_attention(&(attention){.queries = 3, .keys = 7, .is_causal = true});
}

static void test_attention_causal_without_keys_for_all(void **state) {
  (void)state;
  check_attention(&(attention){.queries = 7, .keys = 3, .is_causal = true});
  for (int i = 0; i < 4 * HEADS * VALUE_WIDTH; ++i) assert_true(got[i] == 0);
}

static void test_attention_mask(void **state) {
  (void)state;
  const uint8_t mask[ITEMS * 4] = {1, 0, 1, 0, 0, 0, 0, 0};
  check_attention(&(attention){.queries = 3, .keys = 4, .mask = mask});
  for (int i = 3 * HEADS * VALUE_WIDTH; i < 6 * HEADS * VALUE_WIDTH; ++i) assert_true(got[i] == 0);
}

static void check_rotary(graft_rotary_style style) {
  const int pairs = 2, width = 5, heads = 2, positions = 3;
  run(graft_rotary_embedding(test.graph, constant(a, 4, (int64_t[]){2, positions, heads, width}),
                             constant(b, 4, (int64_t[]){2, positions + 1, pairs, 2}), style),
      60);
  for (int i = 0; i < 2 * positions * heads; ++i) {
    const float *x = a + i * width, *y = got + i * width;
    const float *row = b + (i / (positions * heads) * (positions + 1) + i / heads % positions) * pairs * 2;
    for (int p = 0; p < pairs; ++p) {
      const int first = style == GRAFT_ROTARY_HALF ? p : 2 * p,
                second = style == GRAFT_ROTARY_HALF ? p + pairs : 2 * p + 1;
      const double cosine = (double)row[2 * p], sine = (double)row[2 * p + 1];
      assert_close((double)y[first], (double)x[first] * cosine - (double)x[second] * sine);
      assert_close((double)y[second], (double)x[first] * sine + (double)x[second] * cosine);
    }
    assert_memory_equal(y + 4, x + 4, sizeof *x);
  }
}

static void test_rotary_interleaved(void **state) {
  (void)state;
  check_rotary(GRAFT_ROTARY_INTERLEAVED);
}

static void test_rotary_half(void **state) {
  (void)state;
  check_rotary(GRAFT_ROTARY_HALF);
}

static void test_upsample(void **state) {
  (void)state;
  run(graft_upsample_nearest(test.graph, constant(a, 4, (int64_t[]){2, 2, 3, 4}), 2, 3), 288);
  for (int i = 0; i < 288; ++i) assert_true(got[i] == a[i / 72 * 12 + i / 12 % 6 / 2 * 4 + i % 12 / 3]);
}

static void test_concat(void **state) {
  (void)state;
  graft_tensor *const parts[] = {constant(a, 3, (int64_t[]){2, 3, 4}), constant(b, 3, (int64_t[]){2, 1, 4}),
                                 constant(c, 3, (int64_t[]){2, 2, 4})};
  run(graft_concat(test.graph, parts, 3, -2), 48);
  for (int i = 0; i < 2; ++i) {
    assert_memory_equal(got + i * 24, a + i * 12, 12 * sizeof *a);
    assert_memory_equal(got + i * 24 + 12, b + i * 4, 4 * sizeof *a);
    assert_memory_equal(got + i * 24 + 16, c + i * 8, 8 * sizeof *a);
  }
}

// A decomposition may hand on a view of nothing, whose strides say nothing.
static void test_concat_permute_of_nothing(void **state) {
  (void)state;
  graft_tensor *x = constant(a, 3, (int64_t[]){3, 2, 0});
  const graft_concat_permute_attrs attrs = {.factor = 1, .order = {1, 2, 0}, .rank = 3};
  run(graft_concat_permute(test.graph, &x, 1, &attrs), 0);
}

static void test_embedding(void **state) {
  (void)state;
  const int64_t ids[4] = {3, 0, 4, 3};
  run(graft_embedding(test.graph, test_constant(&test, GRAFT_I64, 2, (int64_t[]){2, 2}, ids),
                      constant(a, 2, (int64_t[]){5, 6}), GRAFT_F32),
      24);
  for (int i = 0; i < 4; ++i) assert_memory_equal(got + i * 6, a + ids[i] * 6, 6 * sizeof *a);
}

static void test_timestep(void **state) {
  (void)state;
  const float t[2] = {0.5f, 999};
  run(graft_timestep_embedding(test.graph, constant(t, 1, (int64_t[]){2}), 15, 10000, 0.25), 30);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 7; ++j) {
      const double angle = 0.25 * (double)t[i] / pow(10000, j / 7.0);
      assert_close((double)got[i * 15 + j], cos(angle));
      assert_close((double)got[i * 15 + 7 + j], sin(angle));
    }
    assert_true(got[i * 15 + 14] == 0);
  }
}

static void test_cast_rounds_and_saturates(void **state) {
  (void)state;
  const float x[4] = {1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 1e6f, -1e6f};
  uint16_t halves[4];
  graft_tensor *y = graft_cast(test.graph, constant(x, 1, (int64_t[]){4}), GRAFT_F16);
  assert_int_equal(test_run(&test, y, GRAFT_PLAN_REFERENCE, halves, sizeof halves), GRAFT_OK);
  assert_memory_equal(halves, ((uint16_t[]){0x3c00, 0x3c02, 0x7bff, 0xfbff}), sizeof halves);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_graph, close_graph)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_linear),
      TEST(test_matmul),
      TEST(test_conv2d),
      TEST(test_attention),
      TEST(test_attention_scale),
      TEST(test_attention_causal),
      TEST(test_attention_causal_after_a_prefix),
      TEST(test_attention_causal_without_keys_for_all),
      TEST(test_attention_mask),
      TEST(test_rotary_interleaved),
      TEST(test_rotary_half),
      TEST(test_upsample),
      TEST(test_concat),
      TEST(test_concat_permute_of_nothing),
      TEST(test_embedding),
      TEST(test_timestep),
      TEST(test_cast_rounds_and_saturates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
