// Operators that quantise what they make, and those that go on with rows of a product, give the bytes of the operators
// apart, on numbers of every kind and for every instruction set of this machine. The operators' own cases
// (test_FU6_equal) hold numbers on which references agree.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fusion_pair.h"
#include "graft/cpu.h"
#include "ops/fused/attention_convrot_i8/attention_convrot_i8.h"
#include "ops/fused/gated_convrot_i8/gated_convrot_i8.h"
#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual.h"
#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary.h"
#include "ops/fused/linear_i8_swiglu_convrot_i8/linear_i8_swiglu_convrot_i8.h"
#include "ops/fused/linear_rms_norm_rotary/linear_rms_norm_rotary.h"
#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8.h"
#include "testing/helper_ops.h"

#define TENSOR(...)                                                                                          \
  {                                                                                                          \
    .dtype = GRAFT_F32, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .shape = { __VA_ARGS__ } \
  }
#define WEIGHT(type, n) \
  { .dtype = type, .rank = 1, .shape = {n}, .is_constant = true }
#define GATED(text, kind, size, ...)                                                                               \
  {                                                                                                                \
    .name = text, .attrs = &(const graft_gated_convrot_i8_attrs){.quantize = {.group = (size)}, .gating = (kind)}, \
    .n_inputs = 2, .inputs = {                                                                                     \
      TENSOR(__VA_ARGS__),                                                                                         \
      TENSOR(__VA_ARGS__)                                                                                          \
    }                                                                                                              \
  }
#define SWIGLU(text, size, ...) GATED(text, GRAFT_GATING_SILU, size, __VA_ARGS__)
#define SCALED(text, size, factor, ...)                                                                    \
  {                                                                                                        \
    .name = text,                                                                                          \
    .attrs =                                                                                               \
        &(const graft_gated_convrot_i8_attrs){                                                             \
            .quantize = {.group = (size)}, .gating = GRAFT_GATING_SCALE, .scale = (factor), .bias = -0.1}, \
    .n_inputs = 2, .inputs = {                                                                             \
      OMITTED,                                                                                             \
      TENSOR(__VA_ARGS__)                                                                                  \
    }                                                                                                      \
  }
#define NORM_OF(text, size, factor, ...)                                                                             \
  {                                                                                                                  \
    .name = text,                                                                                                    \
    .attrs =                                                                                                         \
        &(const graft_rms_norm_convrot_i8_attrs){.eps = 1e-5, .quantize = {.group = (size)}, .is_factor = (factor)}, \
    .n_inputs = 4, .inputs = {                                                                                       \
      __VA_ARGS__                                                                                                    \
    }                                                                                                                \
  }
#define NORM(text, size, ...) NORM_OF(text, size, false, __VA_ARGS__, OMITTED)
#define OMITTED \
  { .dtype = NULL }

// With the next smaller groups on the other side: what products fuse with has roundings of its own.
static void check(graft_context *context, const char *name, const graft_op_case *sample, uint64_t seed) {
  fusion_pair pair;
  char others[64];
  snprintf(others, sizeof others, "-%s", name);
  fusion_pair_create(context, fusion_rule(context, name), sample, seed, seed % 2 ? 0 : FUSION_PAIR_INTERMEDIATES,
                     &pair);
  if (strncmp(name, "linear_", 7) == 0) fusion_pair_compare_with(&pair, others);
  if (fusion_count(pair.fused, name) != 1 && !fusion_has_no_room(pair.fused))
    fail_msg("%s: case %s is not fused", name, sample->name);
  fusion_pair_run(&pair);
  if (memcmp(pair.got, pair.want, graft_tensor_desc_bytes(&pair.example->outputs[0])) != 0) {
    fail_msg("%s: case %s, seed %llu: other bytes than apart", name, sample->name, (unsigned long long)seed);
  }
  fusion_pair_destroy(&pair);
}

// The last sample is too large for the caches.
static void check_all(const char *name, const graft_op_case *samples, size_t n_samples) {
  const char *const targets[] = {"baseline", "avx2", "avx512"};
  for (size_t t = 0; t < 3; ++t) {
    const graft_context_options options = {
        .struct_size = sizeof options, .n_threads = 1 + (int32_t)t, .cpu_target = targets[t]};
    graft_context *context = NULL;
    assert_int_equal(graft_context_create(&options, NULL, &context), GRAFT_OK);
    graft_device *device = NULL;
    const graft_status status = graft_device_open(context, "cpu", &device);
    if (status == GRAFT_E_UNSUPPORTED && t > 0) {  // this machine lacks the instructions
      graft_context_destroy(context);
      continue;
    }
    assert_int_equal(status, GRAFT_OK);
    assert_int_equal(graft_context_register(context, graft_testing_helper_ops()), GRAFT_OK);
    for (size_t i = 0; i < n_samples; ++i) {
      const uint64_t n_seeds = i + 1 < n_samples ? 2 : 1;
      for (uint64_t seed = 1; seed <= n_seeds; ++seed) check(context, name, &samples[i], seed);
    }
    graft_context_destroy(context);
  }
}

static void swiglu_gives_the_same_bytes(void **state) {
  (void)state;
  const graft_op_case samples[] = {
      SWIGLU("odd", 1, 5, 31),           SWIGLU("group_4", 4, 2, 3, 36),         SWIGLU("group_16", 16, 3, 48),
      SWIGLU("group_64", 64, 1, 5, 320), SWIGLU("demo", 256, 1, 288, 1024),      SWIGLU("image", 256, 1, 37, 10240),
      SWIGLU("one_row", 1024, 1, 1024),  SWIGLU("past_caches", 256, 650, 10240),
  };
  check_all("gated_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

static void gates_and_scales_give_the_same_bytes(void **state) {
  (void)state;
  const graft_op_case samples[] = {
      GATED("sigmoid", GRAFT_GATING_SIGMOID, 1, 5, 31),
      GATED("sigmoid_64", GRAFT_GATING_SIGMOID, 64, 1, 67, 320),
      GATED("product", GRAFT_GATING_PRODUCT, 4, 5, 36),
      GATED("product_256", GRAFT_GATING_PRODUCT, 256, 19, 1280),
      SCALED("scale", 16, 0.37, 2, 7, 48),
      SCALED("scale_256", 256, 3.1, 37, 1280),
      GATED("past_caches", GRAFT_GATING_PRODUCT, 256, 650, 10240),
  };
  check_all("gated_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

static void norms_give_the_same_bytes(void **state) {
  (void)state;
  const graft_op_case samples[] = {
      NORM("odd", 1, TENSOR(5, 31), WEIGHT(GRAFT_F32, 31), TENSOR(31)),
      NORM("no_weight", 4, TENSOR(2, 3, 36), OMITTED, TENSOR(2, 1, 36)),
      NORM("plain", 16, TENSOR(2, 3, 48), WEIGHT(GRAFT_F32, 48), OMITTED),
      NORM("plain_bf16", 64, TENSOR(3, 320), WEIGHT(GRAFT_BF16, 320), OMITTED),
      NORM("plain_no_weight", 1, TENSOR(3, 67), OMITTED, OMITTED),
      NORM("f16", 64, TENSOR(2, 5, 192), WEIGHT(GRAFT_F16, 192), TENSOR(2, 5, 192)),
      NORM("demo", 64, TENSOR(1, 288, 384), WEIGHT(GRAFT_F32, 384), TENSOR(1, 1, 384)),
      NORM("batch", 64, TENSOR(2, 67, 384), WEIGHT(GRAFT_BF16, 384), TENSOR(2, 1, 384)),
      NORM("image", 256, TENSOR(1, 67, 3840), WEIGHT(GRAFT_BF16, 3840), TENSOR(1, 1, 3840)),
      NORM("refiner", 256, TENSOR(1, 67, 3840), WEIGHT(GRAFT_F32, 3840), OMITTED),
      NORM_OF("shifted", 64, false, TENSOR(2, 67, 384), WEIGHT(GRAFT_BF16, 384), TENSOR(2, 1, 384), TENSOR(2, 1, 384)),
      NORM_OF("shifted_odd", 1, false, TENSOR(5, 31), OMITTED, TENSOR(31), TENSOR(5, 31)),
      NORM_OF("factor", 64, true, TENSOR(2, 67, 384), WEIGHT(GRAFT_F32, 384), TENSOR(2, 1, 384), OMITTED),
      NORM_OF("factor_no_weight", 1, true, TENSOR(5, 31), OMITTED, TENSOR(31), OMITTED),
      NORM_OF("factor_shifted", 16, true, TENSOR(3, 112), WEIGHT(GRAFT_F16, 112), TENSOR(112), TENSOR(3, 112)),
      NORM("past_caches", 256, TENSOR(1, 1700, 3840), WEIGHT(GRAFT_BF16, 3840), TENSOR(1, 1, 3840)),
  };
  check_all("rms_norm_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

// Packed activations whose scales are between 0.01 and 0.75.
#define PACKED(...) \
  { .dtype = GRAFT_I8, .rank = 2, .shape = {__VA_ARGS__}, .fill = GRAFT_FILL_INTEGERS, .low = 60, .high = 64 }
#define BYTES(n, k)                                                                                       \
  {                                                                                                       \
    .dtype = GRAFT_I8, .rank = 2, .shape = {n, k}, .fill = GRAFT_FILL_INTEGERS, .low = -128, .high = 128, \
    .is_constant = true                                                                                   \
  }
#define FLOATS(n, k) \
  { .dtype = GRAFT_BF16, .rank = 2, .shape = {n, k}, .is_constant = true }
#define SCALES(n)                                                                                          \
  {                                                                                                        \
    .dtype = GRAFT_F32, .rank = 1, .shape = {n}, .fill = GRAFT_FILL_UNIFORM, .low = 0.0001, .high = 0.003, \
    .is_constant = true                                                                                    \
  }
#define ROWS(rows, items, size) \
  { .linear = {.group = (size), .packed_rows = (rows)}, .batch = (items) }

static void swiglu_of_products_gives_the_same_bytes(void **state) {
  (void)state;
  typedef graft_linear_i8_swiglu_convrot_i8_attrs attrs;
  const graft_op_case samples[] = {
      {.name = "odd",
       .attrs = &(const attrs){.product = ROWS(7, 1, 1), .quantize = {.group = 1}},
       .n_inputs = 5,
       .inputs = {PACKED(8, 41), BYTES(31, 37), SCALES(31), BYTES(31, 37), SCALES(1)}},
      {.name = "group_4",
       .attrs = &(const attrs){.product = ROWS(13, 1, 1), .quantize = {.group = 4}},
       .n_inputs = 5,
       .inputs = {PACKED(16, 68), BYTES(36, 64), SCALES(36), BYTES(36, 64), SCALES(36)}},
      {.name = "batch",
       .attrs = &(const attrs){.product = ROWS(66, 3, 64), .quantize = {.group = 64}},
       .n_inputs = 5,
       .inputs = {PACKED(68, 580), FLOATS(320, 576), OMITTED, FLOATS(320, 576), OMITTED}},
      {.name = "group_1024",
       .attrs = &(const attrs){.product = ROWS(35, 1, 16), .quantize = {.group = 1024}},
       .n_inputs = 5,
       .inputs = {PACKED(36, 52), FLOATS(2048, 48), OMITTED, FLOATS(2048, 48), OMITTED}},
      {.name = "demo",
       .attrs = &(const attrs){.product = ROWS(288, 1, 64), .quantize = {.group = 256}},
       .n_inputs = 5,
       .inputs = {PACKED(288, 388), FLOATS(1024, 384), OMITTED, FLOATS(1024, 384), OMITTED}},
  };
  check_all("linear_i8_swiglu_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

static void heads_of_products_give_the_same_bytes(void **state) {
  (void)state;
  typedef graft_linear_i8_rms_norm_rotary_attrs attrs;
  const graft_op_case samples[] = {
      {.name = "odd",
       .attrs = &(const attrs){.product = ROWS(7, 1, 1), .n_heads = 3, .then = {.eps = 1e-6}},
       .n_inputs = 5,
       .inputs = {PACKED(8, 17), BYTES(18, 13), SCALES(18), WEIGHT(GRAFT_F32, 6), TENSOR(7, 3, 2)}},
      {.name = "half",
       .attrs = &(const attrs){.product = ROWS(66, 3, 64), .n_heads = 5, .then = {.style = GRAFT_ROTARY_HALF}},
       .n_inputs = 5,
       .inputs = {PACKED(68, 580), FLOATS(320, 576), OMITTED, WEIGHT(GRAFT_F16, 64), TENSOR(3, 22, 32, 2)}},
      {.name = "partial",
       .attrs = &(const attrs){.product = ROWS(31, 1, 1), .n_heads = 2, .then = {.eps = 1e-5, .dtype = GRAFT_BF16}},
       .n_inputs = 5,
       .inputs = {PACKED(32, 68), BYTES(142, 64), SCALES(1), OMITTED, TENSOR(31, 19, 2)}},
      {.name = "demo",
       .attrs = &(const attrs){.product = ROWS(166, 1, 64), .n_heads = 3, .then = {.eps = 1e-5}},
       .n_inputs = 5,
       .inputs = {PACKED(168, 388), FLOATS(384, 384), OMITTED, WEIGHT(GRAFT_BF16, 128), TENSOR(166, 64, 2)}},
  };
  check_all("linear_i8_rms_norm_rotary", samples, sizeof samples / sizeof samples[0]);
}

static void heads_of_float_products_give_the_same_bytes(void **state) {
  (void)state;
  typedef graft_linear_rms_norm_rotary_attrs attrs;
  const graft_op_case samples[] = {
      {.name = "odd",
       .attrs = &(const attrs){.n_heads = 3, .then = {.eps = 1e-6}},
       .n_inputs = 5,
       .inputs = {TENSOR(2, 7, 13), FLOATS(18, 13), WEIGHT(GRAFT_F32, 18), WEIGHT(GRAFT_F32, 6), TENSOR(7, 3, 2)}},
      {.name = "half",
       .attrs = &(const attrs){.n_heads = 5, .then = {.style = GRAFT_ROTARY_HALF, .dtype = GRAFT_F16}},
       .n_inputs = 5,
       .inputs = {TENSOR(3, 22, 576), FLOATS(320, 576), OMITTED, WEIGHT(GRAFT_F16, 64), TENSOR(3, 22, 32, 2)}},
      {.name = "partial",
       .attrs = &(const attrs){.n_heads = 3, .then = {.eps = 1e-5, .dtype = GRAFT_BF16}},
       .n_inputs = 5,
       .inputs = {TENSOR(1, 31, 64), FLOATS(384, 64), WEIGHT(GRAFT_BF16, 384), OMITTED, TENSOR(31, 19, 2)}},
      {.name = "demo",
       .attrs = &(const attrs){.n_heads = 3, .then = {.eps = 1e-5}},
       .n_inputs = 5,
       .inputs = {TENSOR(1, 166, 384), FLOATS(384, 384), OMITTED, WEIGHT(GRAFT_BF16, 128), TENSOR(166, 64, 2)}},
  };
  check_all("linear_rms_norm_rotary", samples, sizeof samples / sizeof samples[0]);
}

static void residuals_of_products_give_the_same_bytes(void **state) {
  (void)state;
  typedef graft_linear_i8_gated_residual_attrs attrs;
  const graft_op_case samples[] = {
      {.name = "odd",
       .attrs = &(const attrs){.product = ROWS(7, 1, 1), .eps = 1e-6},
       .n_inputs = 6,
       .inputs = {PACKED(8, 17), BYTES(31, 13), SCALES(31), TENSOR(1, 7, 31), WEIGHT(GRAFT_F32, 31), TENSOR(31)}},
      {.name = "batch",
       .attrs = &(const attrs){.product = ROWS(66, 3, 64), .eps = 1e-5},
       .n_inputs = 6,
       .inputs = {PACKED(68, 1156), FLOATS(320, 1152), OMITTED, TENSOR(3, 22, 320), WEIGHT(GRAFT_F16, 320),
                  TENSOR(3, 1, 320)}},
      {.name = "no_gate",
       .attrs = &(const attrs){.product = ROWS(31, 1, 1), .eps = 1e-5},
       .n_inputs = 6,
       .inputs = {PACKED(32, 68), BYTES(71, 64), SCALES(1), TENSOR(1, 31, 71), WEIGHT(GRAFT_F32, 71), OMITTED}},
      {.name = "demo",
       .attrs = &(const attrs){.product = ROWS(66, 1, 64), .eps = 1e-5},
       .n_inputs = 6,
       .inputs = {PACKED(68, 1028), FLOATS(384, 1024), OMITTED, TENSOR(1, 66, 384), WEIGHT(GRAFT_BF16, 384),
                  TENSOR(1, 1, 384)}},
  };
  check_all("linear_i8_gated_residual", samples, sizeof samples / sizeof samples[0]);
}

static void affine_gives_the_same_bytes(void **state) {
  (void)state;
#define AFFINE(text, gate, ...)                                                               \
  {                                                                                           \
    .name = text, .n_inputs = 3, .inputs = { TENSOR(__VA_ARGS__), gate, TENSOR(__VA_ARGS__) } \
  }
  const graft_op_case samples[] = {
      AFFINE("odd", TENSOR(31), 5, 31),
      AFFINE("per_item", TENSOR(3, 1, 67), 3, 5, 67),
      AFFINE("per_row", TENSOR(37, 1), 37, 600),
      AFFINE("one", TENSOR(1), 4, 160),
      AFFINE("past_caches", TENSOR(3840), 2600, 3840),
  };
#undef AFFINE
  check_all("affine", samples, sizeof samples / sizeof samples[0]);
}

static void modulate_gives_the_same_bytes(void **state) {
  (void)state;
#define MODULATE(text, scale, shift, ...)                                        \
  {                                                                              \
    .name = text, .n_inputs = 3, .inputs = { TENSOR(__VA_ARGS__), scale, shift } \
  }
  const graft_op_case samples[] = {
      MODULATE("odd", TENSOR(31), OMITTED, 5, 31),
      MODULATE("per_item", TENSOR(3, 1, 67), TENSOR(3, 1, 67), 3, 5, 67),
      MODULATE("per_row", TENSOR(37, 1), TENSOR(600), 37, 600),
      MODULATE("past_caches", TENSOR(3840), TENSOR(3840), 2600, 3840),
  };
#undef MODULATE
  check_all("modulate", samples, sizeof samples / sizeof samples[0]);
}

#define HEADS(type, ...)                               \
  {                                                    \
    .dtype = type, .rank = 4, .shape = { __VA_ARGS__ } \
  }
#define MASK(batch, keys) \
  { .dtype = GRAFT_BOOL, .rank = 2, .shape = {batch, keys}, .fill = GRAFT_FILL_INTEGERS, .low = 0, .high = 2 }
#define ATTENTION(text, type, attributes, mask, batch, queries, heads, keys, key_heads, width, value_width) \
  {                                                                                                         \
    .name = text, .attrs = &(const graft_attention_convrot_i8_attrs)attributes, .n_inputs = 4, .inputs = {  \
      HEADS(type, batch, queries, heads, width),                                                            \
      HEADS(type, batch, keys, key_heads, width),                                                           \
      HEADS(type, batch, keys, key_heads, value_width),                                                     \
      mask                                                                                                  \
    }                                                                                                       \
  }
#define ATTRS(...) \
  { __VA_ARGS__ }

static void attention_gives_the_same_bytes(void **state) {
  (void)state;
#define ROWS_OF(size, ...) ATTRS(.quantize = {.group = (size)}, __VA_ARGS__)
#define CAUSAL .attention = {.scale = 0.3, .is_causal = true }
  const graft_op_case samples[] = {
      ATTENTION("odd", GRAFT_F32, ROWS_OF(1, .factor = 0), OMITTED, 2, 5, 3, 7, 3, 11, 13),
      ATTENTION("masked", GRAFT_F32, ROWS_OF(4, .factor = 0.37), MASK(2, 21), 2, 9, 2, 21, 2, 16, 30),
      ATTENTION("causal", GRAFT_F32, ROWS_OF(16, CAUSAL), OMITTED, 2, 13, 2, 19, 1, 16, 24),
      ATTENTION("masked_causal", GRAFT_F32, ROWS_OF(64, CAUSAL), MASK(3, 21), 3, 21, 4, 21, 2, 16, 32),
      ATTENTION("grouped", GRAFT_F32, ROWS_OF(16, .factor = -3.1, .scales_heads = true), OMITTED, 1, 6, 24, 9, 8, 16,
                10),
      // A factor that is no float but 0 makes zeros: it is not none.
      ATTENTION("vanishing", GRAFT_F32, ROWS_OF(4, .factor = 1e-60), OMITTED, 1, 5, 2, 7, 2, 16, 10),
      ATTENTION("group_256", GRAFT_F32, ROWS_OF(256, .factor = 0), OMITTED, 1, 17, 4, 35, 2, 40, 128),
      ATTENTION("bf16_grid", GRAFT_F32, ATTRS(.quantize = {.group = 16, .grid = GRAFT_QUANTIZE_BF16}, .factor = 0.7),
                OMITTED, 1, 19, 2, 23, 2, 24, 24),
      ATTENTION("bf16", GRAFT_BF16, ROWS_OF(64, .factor = 0.37), MASK(2, 23), 2, 19, 4, 23, 2, 64, 80),
      ATTENTION("f16", GRAFT_F16, ROWS_OF(4, .factor = 0.37, .scales_heads = true), OMITTED, 1, 19, 4, 23, 2, 36, 37),
      ATTENTION("several_items", GRAFT_F32, ROWS_OF(64, .factor = 0), MASK(6, 300), 6, 131, 3, 300, 1, 24, 64),
      ATTENTION("causal_items", GRAFT_F32, ROWS_OF(64, CAUSAL), OMITTED, 3, 250, 2, 530, 2, 24, 32),
      ATTENTION("demo", GRAFT_F32, ROWS_OF(64, .factor = 0), OMITTED, 3, 288, 3, 288, 3, 128, 128),
      ATTENTION("bf16_demo", GRAFT_BF16, ROWS_OF(64, .factor = 0), OMITTED, 3, 288, 3, 288, 3, 128, 128),
      ATTENTION("past_caches", GRAFT_F32, ROWS_OF(64, .factor = 0), OMITTED, 112, 220, 4, 5, 4, 8, 64),
  };
#undef CAUSAL
#undef ROWS_OF
  check_all("attention_convrot_i8", samples, sizeof samples / sizeof samples[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(swiglu_gives_the_same_bytes),
      cmocka_unit_test(gates_and_scales_give_the_same_bytes),
      cmocka_unit_test(norms_give_the_same_bytes),
      cmocka_unit_test(attention_gives_the_same_bytes),
      cmocka_unit_test(swiglu_of_products_gives_the_same_bytes),
      cmocka_unit_test(heads_of_products_give_the_same_bytes),
      cmocka_unit_test(heads_of_float_products_give_the_same_bytes),
      cmocka_unit_test(residuals_of_products_give_the_same_bytes),
      cmocka_unit_test(affine_gives_the_same_bytes),
      cmocka_unit_test(modulate_gives_the_same_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
