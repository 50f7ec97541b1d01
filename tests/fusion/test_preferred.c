// Groups whose fused kernel would be slower than the operators apart stay apart, on either side of where that begins.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_pair.h"
#include "graft/cpu.h"
#include "ops/common/cases.h"
#include "ops/fused/attention_convrot_i8/attention_convrot_i8.h"
#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual.h"
#include "ops/linear_i8/linear_i8_rows_cases.h"

static graft_context *context;

static int open_context(void **state) {
  (void)state;
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 1};
  return graft_context_create(&options, NULL, &context) == GRAFT_OK ? 0 : -1;
}

static int close_context(void **state) {
  (void)state;
  graft_context_destroy(context);
  return 0;
}

static uint32_t count_fused_in(graft_context *in, const char *rule, const graft_op_case *sample) {
  fusion_pair pair;
  fusion_pair_create(in, fusion_rule(in, rule), sample, 1, 0, &pair);
  const uint32_t n = fusion_count(pair.fused, rule);
  fusion_pair_destroy(&pair);
  return n;
}

static uint32_t count_fused(const char *rule, const graft_op_case *sample) {
  return count_fused_in(context, rule, sample);
}

static uint32_t count_upsample(int64_t channels, int64_t filters) {
  const graft_op_case sample = {
      .name = "channels",
      .n_inputs = 3,
      .inputs = {TENSOR(F32, 1, channels, 6, 5), CONSTANT(F32, filters, channels, 3, 3), CONSTANT(F32, filters)}};
  return count_fused("upsample_conv2d", &sample);
}

static void many_filters_of_few_channels_stay_apart(void **state) {
  (void)state;
  assert_int_equal(count_upsample(4, 15), 0);
  assert_int_equal(count_upsample(4, 14), 1);
  assert_int_equal(count_upsample(5, 15), 1);
}

static uint32_t count_rows_in(graft_context *in, int64_t rows, int64_t k) {
  enum { N = 256 };
  const graft_op_case sample = {
      .name = "rows",
      .attrs =
          &(const graft_linear_i8_gated_residual_attrs){
              .product = {.linear = {.group = 1, .packed_rows = rows}, .batch = 1}, .eps = 1e-5},
      .n_inputs = 6,
      .inputs = {PACKED(rows, k + 4), BYTES(-128, 128, N, k), SCALES(N), TENSOR(F32, 1, rows, N), CONSTANT(F32, N),
                 OMITTED}};
  return count_fused_in(in, "linear_i8_gated_residual", &sample);
}

static uint32_t count_rows(int64_t k) {
  return count_rows_in(context, 8, k);
}

// As many rows as are computed at once, or fewer, are one block.
static void products_in_fewer_blocks_than_threads_stay_apart(void **state) {
  (void)state;
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = 2};
  graft_context *two = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &two), GRAFT_OK);
  assert_int_equal(count_rows_in(context, 4, 600), 1);
  assert_int_equal(count_rows_in(two, 4, 600), 0);
  assert_int_equal(count_rows_in(two, 64, 600), 1);
  assert_int_equal(count_rows_in(two, 4, 60), 1);  // so little work that threads would hardly share it
  graft_context_destroy(two);
}

// Eight rows of 256 results beside the weights.
static void products_with_weights_beyond_the_cache_stay_apart(void **state) {
  (void)state;
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const int64_t most = (int64_t)(graft_cpu_describe(device)->l2_bytes / 256) - 8 * (int64_t)sizeof(float);
  assert_true(most > 0);
  assert_int_equal(count_rows(most), 1);
  assert_int_equal(count_rows(most + 1), 0);
}

static uint32_t count_attention(int32_t n_threads, int64_t queries, int64_t value_width) {
  const graft_op_case sample = {.name = "attention",
                                .attrs = &(const graft_attention_convrot_i8_attrs){.quantize = {.group = 1}},
                                .n_inputs = 4,
                                .inputs = {TENSOR(F32, 1, queries, 2, 64), TENSOR(F32, 1, 64, 2, 64),
                                           TENSOR(F32, 1, 64, 2, value_width), OMITTED}};
  const graft_context_options options = {.struct_size = sizeof options, .n_threads = n_threads};
  graft_context *in = NULL;
  assert_int_equal(graft_context_create(&options, NULL, &in), GRAFT_OK);
  const uint32_t n = count_fused_in(in, "attention_convrot_i8", &sample);
  graft_context_destroy(in);
  return n;
}

// 224 queries are two blocks, 448 are four.
static void attention_in_fewer_blocks_than_threads_stays_apart(void **state) {
  (void)state;
  assert_int_equal(count_attention(1, 223, 64), 1);
  assert_int_equal(count_attention(2, 223, 64), 0);
  assert_int_equal(count_attention(2, 224, 64), 1);
  assert_int_equal(count_attention(3, 448, 64), 0);
  assert_int_equal(count_attention(4, 448, 64), 1);
  assert_int_equal(count_attention(3, 8, 64), 1);  // so little work that threads would hardly share it
}

static void attention_whose_rows_leave_the_cache_stays_apart(void **state) {
  (void)state;
  graft_device *device = NULL;
  assert_int_equal(graft_device_open(context, "cpu", &device), GRAFT_OK);
  const int64_t floats = (int64_t)(graft_cpu_describe(device)->l2_bytes / sizeof(float)), queries = 100;
  assert_int_equal(count_attention(1, queries, floats / queries / 2 - 64), 1);
  assert_int_equal(count_attention(1, queries, floats / queries / 2 + 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_filters_of_few_channels_stay_apart),
      cmocka_unit_test(products_with_weights_beyond_the_cache_stay_apart),
      cmocka_unit_test(products_in_fewer_blocks_than_threads_stay_apart),
      cmocka_unit_test(attention_in_fewer_blocks_than_threads_stays_apart),
      cmocka_unit_test(attention_whose_rows_leave_the_cache_stays_apart),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
