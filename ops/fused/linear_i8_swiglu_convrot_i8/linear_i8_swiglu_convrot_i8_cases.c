#include "ops/fused/linear_i8_swiglu_convrot_i8/linear_i8_swiglu_convrot_i8_cases.h"

#include "ops/fused/linear_i8_swiglu_convrot_i8/linear_i8_swiglu_convrot_i8.h"
#include "ops/linear_i8/linear_i8_rows.h"
#include "ops/linear_i8/linear_i8_rows_cases.h"

// A last digit of what is quantised may change any byte, so reference and kernels must agree on it exactly: gates are
// positive and so large that their silu is the number itself. tests/fusion/test_convrot_producers.c compares with the
// operators apart on numbers of every kind.
#define LARGE(...) \
  { TENSOR_LIKE(I8, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = 66 }  // as a scale: 48.6
#define GATE(n, k) BYTES(1, 10, n, k)
#define UP(n, k) BYTES(-8, 9, n, k)
#define ATTRS(rows, items, size, where)                                                          \
  .attrs = &(const graft_linear_i8_swiglu_convrot_i8_attrs) {                                    \
    .product = {.linear = {.group = 64, .packed_rows = (rows)}, .batch = (items)}, .quantize = { \
      .group = (size),                                                                           \
      .grid = (where)                                                                            \
    }                                                                                            \
  }
#define CASE(text, attributes, ...) \
  { .name = text, attributes, .n_inputs = 5, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_EXACT }
#define BENCH(text, rows)                                                                                            \
  {                                                                                                                  \
    .name = text, ATTRS(rows, 1, 256, GRAFT_QUANTIZE_F32), .n_inputs = 5,                                            \
    .inputs = {PACKED(rows, 388), FLOATS(1024, 384), OMITTED, FLOATS(1024, 384), OMITTED}, .flags = GRAFT_CASE_BENCH \
  }

const graft_op_case graft_linear_i8_swiglu_convrot_i8_cases[GRAFT_LINEAR_I8_SWIGLU_CONVROT_I8_N_CASES] = {
    CASE("scaled", ATTRS(6, 2, 4, GRAFT_QUANTIZE_F32), LARGE(8, 24), GATE(36, 20), SCALES(36), UP(36, 20), SCALES(36)),
    CASE("unscaled", ATTRS(6, 2, 4, GRAFT_QUANTIZE_F32), LARGE(8, 24), GATE(36, 20), OMITTED, UP(36, 20), OMITTED),
    CASE("odd", ATTRS(7, 1, 1, GRAFT_QUANTIZE_F32), LARGE(8, 41), GATE(31, 37), SCALES(31, 1), UP(31, 37), SCALES(1)),
    CASE("one_row", ATTRS(1, 1, 64, GRAFT_QUANTIZE_F32), LARGE(4, 68), GATE(320, 64), OMITTED, UP(320, 64),
         SCALES(320)),
    CASE("several_items", ATTRS(75, 3, 64, GRAFT_QUANTIZE_F32), LARGE(76, 580), GATE(576, 576), OMITTED, UP(576, 576),
         OMITTED),
    CASE("group_1024", ATTRS(17, 1, 1024, GRAFT_QUANTIZE_F32), LARGE(20, 68), GATE(2048, 64), SCALES(2048),
         UP(2048, 64), OMITTED),
    CASE("bf16_grid", ATTRS(7, 1, 16, GRAFT_QUANTIZE_BF16), LARGE(8, 68), GATE(112, 64), OMITTED, UP(112, 64), OMITTED),
    BENCH("feed_forward_demo", 288),
    BENCH("feed_forward_demo_512", 1056),
};
