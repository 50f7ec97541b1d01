// What convolutions give where weights or pixels are infinite or NaN: docs/numerics.md.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/conv2d/conv2d.h"
#include "ops/fused/upsample_conv2d/upsample_conv2d.h"
#include "run_graph.h"

enum { CHANNELS = 2, FILTERS = 3, HEIGHT = 4, WIDTH = 37, AREA = 9, LONGEST = FILTERS * 4 * HEIGHT * WIDTH };

typedef graft_tensor *build_fn(graft_graph *graph, graft_tensor *x, graft_tensor *weight);

static float x[CHANNELS * HEIGHT * WIDTH], weight[FILTERS * CHANNELS * AREA], want[LONGEST], got[LONGEST];

static graft_tensor *upsample_conv2d(graft_graph *graph, graft_tensor *image, graft_tensor *filters) {
  return graft_upsample_conv2d(graph, image, filters, graft_graph_none());
}

static graft_tensor *conv2d(graft_graph *graph, graft_tensor *image, graft_tensor *filters) {
  const graft_conv2d_attrs padded = {.padding = {1, 1, 1, 1}};
  return graft_conv2d(graph, image, filters, graft_graph_none(), &padded);
}

static void run(build_fn *build, uint32_t plan_flags, size_t n, float *out) {
  test_graph test = test_graph_open();
  graft_tensor *image = test_constant(&test, GRAFT_F32, 4, (int64_t[]){1, CHANNELS, HEIGHT, WIDTH}, x);
  graft_tensor *filters = test_constant(&test, GRAFT_F32, 4, (int64_t[]){FILTERS, CHANNELS, 3, 3}, weight);
  assert_int_equal(test_run(&test, build(test.graph, image, filters), plan_flags, out, n * sizeof *out), GRAFT_OK);
  test_graph_close(&test);
}

static bool is_same(float a, float b) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return isinf(a) || isinf(b) ? a == b : fabsf(a - b) < 1e-4f;
}

// Whether the kernel, whose centre is at element |i| of planes that are |width| wide, reaches beyond them.
static bool is_at_border(int i, int height, int width) {
  const int row = i / width % height, column = i % width;
  return row == 0 || row == height - 1 || column == 0 || column == width - 1;
}

static void compare(build_fn *build, int scale, bool is_exact_at_borders) {
  const int height = scale * HEIGHT, width = scale * WIDTH, n = FILTERS * height * width;
  run(build, GRAFT_PLAN_REFERENCE, (size_t)n, want);
  run(build, 0, (size_t)n, got);
  for (int i = 0; i < n; ++i) {
    if (is_same(got[i], want[i])) continue;
    const bool is_expected = !is_exact_at_borders && isnan(got[i]) && is_at_border(i, height, width);
    if (!is_expected) fail_msg("element %d is %g instead of %g", i, (double)got[i], (double)want[i]);
  }
}

static int fill(void **state) {
  (void)state;
  for (int i = 0; i < CHANNELS * HEIGHT * WIDTH; ++i) x[i] = 1.0f + (float)(i * 7 % 13);
  for (int i = 0; i < FILTERS * CHANNELS * AREA; ++i) weight[i] = (float)(i * 5 % 11) - 5.5f;
  return 0;
}

// One element at a time, so that what it spreads to is seen.
static void compare_all(build_fn *build, int scale, bool is_exact_at_borders) {
  const float values[] = {INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
    for (int tap = 0; tap < AREA; ++tap) {
      fill(NULL);
      weight[AREA + tap] = values[i];
      compare(build, scale, is_exact_at_borders);
    }
    const int pixels[] = {0, WIDTH - 1, WIDTH + 5, HEIGHT * WIDTH - 1, (HEIGHT + 2) * WIDTH};
    for (size_t pixel = 0; pixel < sizeof pixels / sizeof pixels[0]; ++pixel) {
      fill(NULL);
      x[pixels[pixel]] = values[i];
      compare(build, scale, true);
    }
  }
}

static void test_upsample_conv2d(void **state) {
  (void)state;
  compare_all(upsample_conv2d, 2, true);
}

static void test_conv2d(void **state) {
  (void)state;
  compare_all(conv2d, 1, false);
}

static void test_infinities_cancel(void **state) {
  (void)state;
  fill(NULL);
  x[3] = INFINITY;
  x[4] = -INFINITY;
  compare(upsample_conv2d, 2, true);
  compare(conv2d, 1, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_upsample_conv2d),
      cmocka_unit_test(test_conv2d),
      cmocka_unit_test(test_infinities_cancel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
