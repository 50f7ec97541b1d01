#include "ops/fused/attention_convrot_i8/attention_convrot_i8_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/attention_convrot_i8/attention_convrot_i8.h"

// A last digit of what is quantised may change any byte, so reference and kernels must agree on it exactly: queries of
// zeros attend to all keys alike, and the mean of as few twos as there are keys is two; where queries see different
// keys there are zeros only.
// tests/fusion/test_convrot_producers.c compares with the operators apart on numbers of every kind.
#define FILLED(type, with, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = (with) }
#define ALL_OF(type, value, batch, queries, heads, keys, key_heads, width, value_width)              \
  FILLED(type, 0, batch, queries, heads, width), FILLED(type, value, batch, keys, key_heads, width), \
      FILLED(type, value, batch, keys, key_heads, value_width)
#define ATTRS(size, ...)                                                   \
  .attrs = &(const graft_attention_convrot_i8_attrs) {                     \
    .quantize = {.group = (size), .grid = GRAFT_QUANTIZE_F32}, __VA_ARGS__ \
  }
#define CASE(text, attributes, ...) \
  { .name = text, attributes, .n_inputs = 4, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_EXACT }
#define PLAIN(size) ATTRS(size, .factor = 0)
#define SCALED_HEADS(size) ATTRS(size, .factor = 0.75, .scales_heads = true)
#define F32S(...) ALL_OF(F32, 2, __VA_ARGS__)
#define ZEROS(...) ALL_OF(F32, 0, __VA_ARGS__)
#define BENCH(text, size, queries, heads)                                                \
  {                                                                                      \
    .name = text, PLAIN(size), .n_inputs = 4,                                            \
    .inputs = {TENSOR(F32, 1, queries, heads, 128), TENSOR(F32, 1, queries, heads, 128), \
               TENSOR(F32, 1, queries, heads, 128), OMITTED},                            \
    .flags = GRAFT_CASE_BENCH                                                            \
  }
#define ALL_KEYS(...) INTEGERS(BOOL, 1, 2, __VA_ARGS__)
#define NO_KEYS(...) INTEGERS(BOOL, 0, 1, __VA_ARGS__)

const graft_op_case graft_attention_convrot_i8_cases[GRAFT_ATTENTION_CONVROT_I8_N_CASES] = {
    CASE("plain", PLAIN(4), F32S(2, 5, 3, 7, 3, 11, 12), OMITTED),
    CASE("masked", PLAIN(4), F32S(2, 5, 3, 7, 3, 11, 12), ALL_KEYS(2, 7)),
    CASE("scaled_rows", ATTRS(4, .factor = -3), F32S(2, 5, 3, 7, 3, 11, 12), OMITTED),
    CASE("scaled_rows_masked", ATTRS(4, .factor = 0.625), F32S(2, 5, 3, 7, 3, 11, 12), ALL_KEYS(2, 7)),
    CASE("scaled_heads", SCALED_HEADS(4), F32S(2, 5, 3, 7, 3, 11, 12), OMITTED),
    CASE("scaled_heads_masked", SCALED_HEADS(4), F32S(2, 5, 3, 7, 3, 11, 12), ALL_KEYS(2, 7)),
    CASE("one", PLAIN(1), F32S(1, 1, 1, 1, 1, 1, 1), OMITTED),
    CASE("odd", PLAIN(1), F32S(3, 7, 1, 11, 1, 5, 31), OMITTED),
    CASE("all_masked", PLAIN(1), F32S(1, 5, 2, 7, 2, 16, 9), NO_KEYS(1, 7)),
    CASE("causal", ATTRS(16, .attention = {.scale = 0.5, .is_causal = true}), ZEROS(1, 13, 2, 13, 2, 16, 24), OMITTED),
    CASE("causal_more_keys", ATTRS(1, .attention = {.is_causal = true}), ZEROS(2, 3, 2, 9, 2, 16, 5), OMITTED),
    CASE("grouped", PLAIN(16), F32S(1, 6, 24, 9, 8, 16, 2), OMITTED),
    CASE("one_key_head", PLAIN(64), F32S(2, 9, 8, 5, 1, 32, 40), OMITTED),
    CASE("group_256", PLAIN(256), F32S(1, 33, 4, 12, 2, 40, 128), OMITTED),
    CASE("several_items", PLAIN(64), F32S(3, 131, 5, 12, 5, 40, 64), OMITTED),
    CASE("no_queries", PLAIN(4), F32S(1, 0, 2, 5, 2, 16, 8), OMITTED),
    CASE("no_keys", PLAIN(4), F32S(1, 3, 2, 0, 2, 16, 8), OMITTED),
    CASE("no_batch", PLAIN(4), F32S(0, 3, 2, 5, 2, 16, 8), OMITTED),
    {.name = "bf16_grid",
     .attrs = &(const graft_attention_convrot_i8_attrs){.quantize = {.group = 16, .grid = GRAFT_QUANTIZE_BF16}},
     .n_inputs = 4,
     .inputs = {F32S(1, 7, 2, 3, 2, 16, 56), OMITTED},
     .flags = GRAFT_CASE_EXACT},
    CASE("bf16", SCALED_HEADS(16), ALL_OF(BF16, 2, 2, 19, 4, 12, 2, 64, 64), OMITTED),
    CASE("f16", ATTRS(4, .factor = 0.75), ALL_OF(F16, 2, 2, 19, 4, 12, 2, 24, 20), OMITTED),
    BENCH("zimage_demo", 64, 288, 3),
    BENCH("zimage_demo_512", 64, 1056, 3),
    BENCH("zimage", 256, 4224, 30),
};
