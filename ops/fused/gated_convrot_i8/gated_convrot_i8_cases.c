#include "ops/fused/gated_convrot_i8/gated_convrot_i8_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/gated_convrot_i8/gated_convrot_i8.h"

// A last digit of what is quantised may change any byte, so reference and kernels must agree on it exactly: the silu of
// numbers so large is the number itself, their sigmoid 1, and products of integers are exact.
// tests/fusion/test_convrot_producers.c compares with the operators apart on numbers of every kind.
#define GATE(...) INTEGERS(F32, 40, 57, __VA_ARGS__)
#define FACTOR(...) INTEGERS(F32, -8, 9, __VA_ARGS__)
#define BOTH(...) .n_inputs = 2, .inputs = {GATE(__VA_ARGS__), FACTOR(__VA_ARGS__)}
#define ATTRS(kind, size, where)                                     \
  .attrs = &(const graft_gated_convrot_i8_attrs) {                   \
    .quantize = {.group = (size), .grid = (where)}, .gating = (kind) \
  }
#define CASE(text, kind, size, ...) \
  { .name = text, ATTRS(kind, size, GRAFT_QUANTIZE_F32), BOTH(__VA_ARGS__), .flags = GRAFT_CASE_EXACT }
#define SCALED(text, size, ...)                                                                     \
  {                                                                                                 \
    .name = text,                                                                                   \
    .attrs =                                                                                        \
        &(const graft_gated_convrot_i8_attrs){                                                      \
            .quantize = {.group = (size)}, .gating = GRAFT_GATING_SCALE, .scale = 0.25, .bias = 2}, \
    .n_inputs = 2, .inputs = {OMITTED, FACTOR(__VA_ARGS__)}, .flags = GRAFT_CASE_EXACT              \
  }
#define BENCH(text, kind, ...) \
  { .name = text, ATTRS(kind, 256, GRAFT_QUANTIZE_F32), BOTH(__VA_ARGS__), .flags = GRAFT_CASE_BENCH }

const graft_op_case graft_gated_convrot_i8_cases[GRAFT_GATED_CONVROT_I8_N_CASES] = {
    CASE("silu", GRAFT_GATING_SILU, 1, 5, 31),
    CASE("sigmoid", GRAFT_GATING_SIGMOID, 1, 5, 31),
    CASE("product", GRAFT_GATING_PRODUCT, 1, 5, 31),
    SCALED("scale", 1, 5, 31),
    CASE("one", GRAFT_GATING_SILU, 1, 1),
    CASE("vector", GRAFT_GATING_SILU, 4, 20),
    CASE("group_4", GRAFT_GATING_SIGMOID, 4, 2, 3, 36),
    CASE("group_16", GRAFT_GATING_SILU, 16, 6, 48),
    CASE("group_64", GRAFT_GATING_PRODUCT, 64, 1, 5, 192),
    CASE("group_256", GRAFT_GATING_SILU, 256, 3, 768),
    CASE("group_1024", GRAFT_GATING_SILU, 1024, 2, 2048),
    CASE("several_items", GRAFT_GATING_SILU, 64, 3, 131, 320),
    SCALED("scaled_items", 64, 3, 131, 320),
    CASE("long_rows", GRAFT_GATING_SILU, 16, 3, 20480),
    CASE("empty", GRAFT_GATING_SILU, 4, 3, 0, 8),
    {.name = "bf16_grid", ATTRS(GRAFT_GATING_SILU, 16, GRAFT_QUANTIZE_BF16), BOTH(7, 112), .flags = GRAFT_CASE_EXACT},
    BENCH("feed_forward_demo", GRAFT_GATING_SILU, 1, 288, 1024),
    BENCH("feed_forward_demo_512", GRAFT_GATING_SILU, 1, 1056, 1024),
    BENCH("gate_demo_512", GRAFT_GATING_SIGMOID, 1, 1056, 1024),
    BENCH("feed_forward", GRAFT_GATING_SILU, 1, 1056, 10240),
};
