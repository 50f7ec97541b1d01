// Quantising gives the numbers of ComfyUI's own arithmetic (int8_convrot.json), by references and by kernels.
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "formats/json.h"
#include "ops/common/hadamard.h"
#include "ops/linear_i8/linear_i8.h"
#include "run_graph.h"

enum { MAX_ELEMENTS = 2048, MAX_ROWS = 8 };

static graft_json *open_vectors(void) {
  graft_error error = {0};
  graft_json *json = NULL;
  if (graft_json_open(GRAFT_TEST_QUANT "/int8_convrot.json", 1 << 20, &error, &json) != GRAFT_OK)
    fail_msg("%s", error.message);
  return json;
}

// Numbers of a list or a list of lists; returns how many.
static size_t load_numbers(const json_t *list, double *out, size_t n) {
  size_t i;
  json_t *item;
  json_array_foreach(list, i, item) {
    if (json_is_array(item)) n = load_numbers(item, out, n);
    else out[n++] = json_number_value(item);
  }
  return n;
}

static void expect_matrix(const json_t *root, const char *key, int64_t size) {
  double want[256];
  assert_int_equal(load_numbers(json_object_get(root, key), want, 0), size * size);
  for (int64_t i = 0; i < size; ++i) {
    float unit[16] = {0};
    unit[i] = 1 / graft_hadamard_factor(size);
    graft_hadamard_rotate(unit, size, size);
    for (int64_t k = 0; k < size; ++k) assert_true((double)unit[k] == want[i * size + k]);
  }
}

static void matrices(void **state) {
  (void)state;
  graft_json *json = open_vectors();
  expect_matrix(graft_json_root(json), "H4", 4);
  expect_matrix(graft_json_root(json), "H16", 16);
  graft_json_close(json);
  for (int64_t group = 4; group <= 1024; group *= 4) {
    float ones[1024];
    for (int64_t i = 0; i < group; ++i) ones[i] = 3;
    graft_hadamard_rotate(ones, group, group);
    for (int64_t i = 0; i < group; ++i) assert_true(ones[i] == 3);
  }
}

// One case of the file.
typedef struct vector_case {
  bool is_bf16;
  int64_t rows, columns, group;
  float x[MAX_ELEMENTS];
  double q[MAX_ELEMENTS];
  float scales[MAX_ROWS];
} vector_case;

static void load_case(const json_t *object, vector_case *c) {
  double x[MAX_ELEMENTS];
  c->is_bf16 = strcmp(json_string_value(json_object_get(object, "dtype")), "BF16") == 0;
  c->group = json_integer_value(json_object_get(object, "group"));
  c->columns = json_integer_value(json_object_get(object, "K"));
  const size_t n = load_numbers(json_object_get(object, "x64"), x, 0);
  assert_true(n > 0 && n <= MAX_ELEMENTS);
  assert_int_equal(load_numbers(json_object_get(object, "q"), c->q, 0), n);
  c->rows = (int64_t)n / c->columns;
  for (size_t i = 0; i < n; ++i) c->x[i] = (float)(x[i] / 64);
  for (int64_t i = 0; i < c->rows; ++i) {
    const char *hexadecimal = json_string_value(json_array_get(json_object_get(object, "scale_f32_bits"), (size_t)i));
    const uint32_t bits = (uint32_t)strtoul(hexadecimal, NULL, 16);
    memcpy(&c->scales[i], &bits, sizeof bits);
  }
}

static void expect_scale(float got, float want) {
  if (!(got == want || nextafterf(got, want) == want)) fail_msg("scale %.9g, not %.9g", (double)got, (double)want);
}

// Distance of x / scale, as the case computes it, from the middle between two integers.
static double from_tie(const vector_case *c, int64_t row, int64_t column) {
  float values[MAX_ELEMENTS];
  memcpy(values, c->x + row * c->columns, (size_t)c->columns * sizeof values[0]);
  graft_hadamard_rotate(values, c->columns, c->group);
  const double y = fabs((double)values[column] / (double)c->scales[row]);
  return fabs(y - floor(y) - 0.5);
}

// One result of quantising rows: q, or with |out_scales| the scales.
static void quantize(const float *x, const int64_t shape[2], const graft_quantize_convrot_i8_attrs *attrs,
                     uint32_t plan_flags, int8_t *out_q, float *out_scales) {
  test_graph test = test_graph_open();
  const graft_quantized_pair pair =
      graft_quantize_convrot_i8(test.graph, test_constant(&test, GRAFT_F32, 2, shape, x), attrs);
  const graft_status status =
      out_scales ? test_run(&test, pair.scale, plan_flags, out_scales, (size_t)shape[0] * sizeof(float))
                 : test_run(&test, pair.q, plan_flags, out_q, (size_t)(shape[0] * shape[1]));
  assert_int_equal(status, GRAFT_OK);
  test_graph_close(&test);
}

static void check_case(const vector_case *c, uint32_t plan_flags) {
  int8_t q[MAX_ELEMENTS];
  float scales[MAX_ROWS];
  const int64_t n = c->rows * c->columns;
  const graft_quantize_convrot_i8_attrs attrs = {.group = c->group,
                                                 .grid = c->is_bf16 ? GRAFT_QUANTIZE_BF16 : GRAFT_QUANTIZE_F32};
  const int64_t shape[2] = {c->rows, c->columns};
  quantize(c->x, shape, &attrs, plan_flags, q, NULL);
  quantize(c->x, shape, &attrs, plan_flags, NULL, scales);
  for (int64_t i = 0; i < c->rows; ++i) expect_scale(scales[i], c->scales[i]);
  for (int64_t i = 0; i < n; ++i) {
    if ((double)q[i] == c->q[i]) continue;
    const double tie = from_tie(c, i / c->columns, i % c->columns);
    if (fabs(q[i] - c->q[i]) > 1 || c->is_bf16 || tie > 1e-5)
      fail_msg("group %d, element %d: %d, not %g (%g from a tie)", (int)c->group, (int)i, q[i], c->q[i], tie);
  }
}

static void rows(void **state) {
  (void)state;
  graft_json *json = open_vectors();
  const json_t *cases = json_object_get(graft_json_root(json), "cases");
  assert_int_equal(json_array_size(cases), 8);
  for (size_t i = 0; i < json_array_size(cases); ++i) {
    vector_case c = {0};
    load_case(json_array_get(cases, i), &c);
    check_case(&c, GRAFT_PLAN_REFERENCE);
    check_case(&c, 0);
  }
  graft_json_close(json);
}

static void ties_go_to_even(void **state) {
  (void)state;
  graft_json *json = open_vectors();
  const json_t *micro = json_object_get(graft_json_root(json), "micro");
  vector_case c = {.rows = 1, .columns = 8, .group = 1, .scales = {1}};
  double x[8];
  assert_int_equal(load_numbers(json_object_get(micro, "x"), x, 0), 8);
  assert_int_equal(load_numbers(json_object_get(micro, "q"), c.q, 0), 8);
  for (int i = 0; i < 8; ++i) c.x[i] = (float)x[i];
  check_case(&c, GRAFT_PLAN_REFERENCE);
  check_case(&c, 0);
  graft_json_close(json);
}

// bf16 scales may be rounded down, so that quotients reach 127.5: above, that stays 127; below, it becomes -128.
static void bf16_reaches_minus_128(void **state) {
  (void)state;
  const float x[2][4] = {{1.375f, -1.375f, 0, 1}, {1.4375f, -1.4375f, 0.25f, 0}};
  const graft_quantize_convrot_i8_attrs attrs = {.group = 1, .grid = GRAFT_QUANTIZE_BF16};
  int8_t kernel[8], reference[8];
  quantize(x[0], (int64_t[]){2, 4}, &attrs, 0, kernel, NULL);
  quantize(x[0], (int64_t[]){2, 4}, &attrs, GRAFT_PLAN_REFERENCE, reference, NULL);
  assert_memory_equal(kernel, reference, 8);
  for (int row = 0; row < 2; ++row) {
    assert_int_equal(kernel[4 * row], 127);
    assert_int_equal(kernel[4 * row + 1], -128);
  }
}

// What is no number stays visible: it must not become a plausible product.
static void not_finite(void **state) {
  (void)state;
  const float x[3][4] = {{1, NAN, 2, 3}, {1, INFINITY, 2, 3}, {1, 2, 3, 4}};
  const int8_t weight[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  float y[6];
  test_graph test = test_graph_open();
  const graft_linear_i8_inputs inputs = {.x = test_constant(&test, GRAFT_F32, 2, (int64_t[]){3, 4}, x),
                                         .x_scale = graft_graph_none(),
                                         .weight = test_constant(&test, GRAFT_I8, 2, (int64_t[]){2, 4}, weight),
                                         .weight_scale = graft_graph_none(),
                                         .bias = graft_graph_none()};
  graft_tensor *out = graft_linear_i8(test.graph, &inputs, &(graft_linear_i8_attrs){.group = 4});
  assert_int_equal(test_run(&test, out, 0, y, sizeof y), GRAFT_OK);
  test_graph_close(&test);
  for (int i = 0; i < 4; ++i) assert_true(isnan(y[i]));
  assert_true(isfinite(y[4]) && isfinite(y[5]));
}

static void refusals(void **state) {
  (void)state;
  static const float values[24];
  const struct {
    int64_t group;
    const char *sentence;
  } groups[] = {{2, "power of four"}, {0, "power of four"}, {-4, "power of four"}, {16, "no whole number of groups"}};
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    test_graph test = test_graph_open();
    graft_tensor *x = test_constant(&test, GRAFT_F32, 2, (int64_t[]){1, 24}, values);
    const graft_quantize_convrot_i8_attrs attrs = {.group = groups[i].group};
    assert_null(graft_quantize_convrot_i8(test.graph, x, &attrs).q);
    test_assert_refused(&test, groups[i].group == 16 ? GRAFT_E_SHAPE : GRAFT_E_INVALID, groups[i].sentence);
    test_graph_close(&test);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(matrices),        cmocka_unit_test(rows),
      cmocka_unit_test(ties_go_to_even), cmocka_unit_test(bf16_reaches_minus_128),
      cmocka_unit_test(not_finite),      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests_name("quant.vectors", tests, NULL, NULL);
}
