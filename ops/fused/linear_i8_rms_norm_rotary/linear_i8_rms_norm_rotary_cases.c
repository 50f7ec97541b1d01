#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary_cases.h"

#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary.h"
#include "ops/linear_i8/linear_i8_rows.h"
#include "ops/linear_i8/linear_i8_rows_cases.h"

#define ATTRS(rows, items, heads, size)                                                                              \
  .attrs = &(const graft_linear_i8_rms_norm_rotary_attrs) {                                                          \
    .product = {.linear = {.group = (size), .packed_rows = (rows)}, .batch = (items)}, .n_heads = (heads), .then = { \
      .eps = 1e-5                                                                                                    \
    }                                                                                                                \
  }
#define HALVES(rows, heads)                                                                               \
  .attrs = &(const graft_linear_i8_rms_norm_rotary_attrs) {                                               \
    .product = {.linear = {.group = 1, .packed_rows = (rows)}, .batch = 1}, .n_heads = (heads), .then = { \
      .eps = 1e-6,                                                                                        \
      .style = GRAFT_ROTARY_HALF                                                                          \
    }                                                                                                     \
  }
#define TO_F16(rows, heads)                                                                               \
  .attrs = &(const graft_linear_i8_rms_norm_rotary_attrs) {                                               \
    .product = {.linear = {.group = 1, .packed_rows = (rows)}, .batch = 1}, .n_heads = (heads), .then = { \
      .eps = 1e-5,                                                                                        \
      .scale = 0.0883883,                                                                                 \
      .dtype = GRAFT_F16                                                                                  \
    }                                                                                                     \
  }
#define SCALED(rows, heads)                                                                               \
  .attrs = &(const graft_linear_i8_rms_norm_rotary_attrs) {                                               \
    .product = {.linear = {.group = 1, .packed_rows = (rows)}, .batch = 1}, .n_heads = (heads), .then = { \
      .scale = -0.3                                                                                       \
    }                                                                                                     \
  }
#define TABLE(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = -1, .high = 1 }
#define WEIGHT(n, k) BYTES(-128, 128, n, k)
#define CASE(text, d, attributes, ...) \
  { .name = text, attributes, .n_inputs = 5, .inputs = {__VA_ARGS__}, .reduction = (d) }

const graft_op_case graft_linear_i8_rms_norm_rotary_cases[GRAFT_LINEAR_I8_RMS_NORM_ROTARY_N_CASES] = {
    CASE("bytes", 8, ATTRS(6, 2, 3, 1), PACKED(8, 24), WEIGHT(24, 20), SCALES(24), TENSOR(F32, 8), TABLE(3, 4, 2)),
    CASE("bytes_no_norm", 8, ATTRS(6, 2, 3, 1), PACKED(8, 24), WEIGHT(24, 20), SCALES(24), OMITTED, TABLE(3, 4, 2)),
    CASE("floats", 8, ATTRS(6, 1, 3, 4), PACKED(8, 24), FLOATS(24, 20), OMITTED, TENSOR(F32, 8), TABLE(6, 4, 2)),
    CASE("floats_no_norm", 8, ATTRS(6, 1, 3, 4), PACKED(8, 24), FLOATS(24, 20), OMITTED, OMITTED, TABLE(6, 4, 2)),
    CASE("odd", 6, ATTRS(7, 1, 3, 1), PACKED(8, 17), WEIGHT(18, 13), SCALES(18, 1), TENSOR(F32, 6), TABLE(7, 3, 2)),
    CASE("half", 34, HALVES(9, 2), PACKED(12, 40), WEIGHT(68, 36), SCALES(1), CONSTANT(BF16, 34), TABLE(9, 17, 2)),
    CASE("partial", 71, ATTRS(5, 1, 2, 1), PACKED(8, 40), WEIGHT(142, 36), OMITTED, TENSOR(F32, 71), TABLE(5, 19, 2)),
    CASE("one_row", 64, ATTRS(1, 1, 5, 1), PACKED(4, 68), WEIGHT(320, 64), SCALES(320), TENSOR(F32, 64),
         TABLE(1, 32, 2)),
    CASE("several_items", 64, ATTRS(75, 3, 5, 64), PACKED(76, 580), FLOATS(320, 576), OMITTED, CONSTANT(F32, 64),
         TABLE(25, 32, 2)),
    CASE("table_per_item", 32, ATTRS(10, 2, 2, 1), PACKED(12, 36), WEIGHT(64, 32), SCALES(64), TENSOR(F32, 32),
         TABLE(2, 5, 16, 2)),
    CASE("scaled", 34, SCALED(9, 2), PACKED(12, 40), WEIGHT(68, 36), SCALES(1), OMITTED, TABLE(9, 17, 2)),
    CASE("scaled_to_f16", 71, TO_F16(31, 2), PACKED(32, 40), WEIGHT(142, 36), SCALES(142), TENSOR(F32, 71),
         TABLE(31, 19, 2)),
    {.name = "zimage_demo",
     ATTRS(288, 1, 3, 64),
     .n_inputs = 5,
     .inputs = {PACKED(288, 388), FLOATS(384, 384), OMITTED, CONSTANT(BF16, 128), TABLE(288, 64, 2)},
     .reduction = 128,
     .flags = GRAFT_CASE_BENCH},
};
