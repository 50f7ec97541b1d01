#include "ops/fused/swiglu_convrot_i8/swiglu_convrot_i8_cases.h"

#include "ops/common/cases.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

// A last digit of what is quantised may change any byte, so reference and kernels must agree on it exactly: the silu of
// numbers so large is the number itself, and products of integers are exact. tests/fusion/test_convrot_producers.c
// compares with the operators apart on numbers of every kind.
#define BOTH(...) .n_inputs = 2, .inputs = {INTEGERS(F32, 40, 57, __VA_ARGS__), INTEGERS(F32, -8, 9, __VA_ARGS__)}
#define ATTRS(size, where)                            \
  .attrs = &(const graft_quantize_convrot_i8_attrs) { \
    .group = (size), .grid = (where)                  \
  }
#define CASE(text, size, ...) \
  { .name = text, ATTRS(size, GRAFT_QUANTIZE_F32), BOTH(__VA_ARGS__), .flags = GRAFT_CASE_EXACT }
#define CASE_BF16(text, size, ...) \
  { .name = text, ATTRS(size, GRAFT_QUANTIZE_BF16), BOTH(__VA_ARGS__), .flags = GRAFT_CASE_EXACT }
#define BENCH(text, ...) \
  { .name = text, ATTRS(256, GRAFT_QUANTIZE_F32), BOTH(__VA_ARGS__), .flags = GRAFT_CASE_BENCH }

const graft_op_case graft_swiglu_convrot_i8_cases[GRAFT_SWIGLU_CONVROT_I8_N_CASES] = {
    CASE("odd", 1, 5, 31),
    CASE("one", 1, 1),
    CASE("vector", 4, 20),
    CASE("group_4", 4, 2, 3, 36),
    CASE("group_16", 16, 6, 48),
    CASE("group_64", 64, 1, 5, 192),
    CASE("group_256", 256, 3, 768),
    CASE("group_1024", 1024, 2, 2048),
    CASE("several_items", 64, 3, 131, 320),
    CASE("long_rows", 16, 3, 20480),
    CASE("empty", 4, 3, 0, 8),
    CASE_BF16("bf16_grid", 16, 7, 112),
    BENCH("feed_forward_demo", 1, 288, 1024),
    BENCH("feed_forward_demo_512", 1, 1056, 1024),
    BENCH("feed_forward", 1, 1056, 10240),
};
