#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual_cases.h"

#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual.h"
#include "ops/linear_i8/linear_i8_rows.h"
#include "ops/linear_i8/linear_i8_rows_cases.h"

#define ATTRS(rows, items, size)                                                                   \
  .attrs = &(const graft_linear_i8_gated_residual_attrs) {                                         \
    .product = {.linear = {.group = (size), .packed_rows = (rows)}, .batch = (items)}, .eps = 1e-5 \
  }
#define WEIGHT(n, k) BYTES(-128, 128, n, k)
#define CASE(text, n, attributes, ...) \
  { .name = text, attributes, .n_inputs = 6, .inputs = {__VA_ARGS__}, .reduction = (n) }
#define BENCH(text, rows, k)                                                            \
  {                                                                                     \
    .name = text, ATTRS(rows, 1, 64), .n_inputs = 6,                                    \
    .inputs = {PACKED(rows, (k) + 4),     FLOATS(384, k),      OMITTED,                 \
               TENSOR(F32, 1, rows, 384), CONSTANT(BF16, 384), TENSOR(F32, 1, 1, 384)}, \
    .reduction = 384, .flags = GRAFT_CASE_BENCH                                         \
  }

const graft_op_case graft_linear_i8_gated_residual_cases[GRAFT_LINEAR_I8_GATED_RESIDUAL_N_CASES] = {
    CASE("bytes", 24, ATTRS(6, 2, 1), PACKED(8, 24), WEIGHT(24, 20), SCALES(24), TENSOR(F32, 2, 3, 24), TENSOR(F32, 24),
         TENSOR(F32, 2, 1, 24)),
    CASE("bytes_no_gate", 24, ATTRS(6, 2, 1), PACKED(8, 24), WEIGHT(24, 20), SCALES(24), TENSOR(F32, 2, 3, 24),
         TENSOR(F32, 24), OMITTED),
    CASE("floats", 24, ATTRS(6, 1, 4), PACKED(8, 24), FLOATS(24, 20), OMITTED, TENSOR(F32, 1, 6, 24), TENSOR(F32, 24),
         TENSOR(F32, 1, 1, 24)),
    CASE("floats_no_gate", 24, ATTRS(6, 1, 4), PACKED(8, 24), FLOATS(24, 20), OMITTED, TENSOR(F32, 1, 6, 24),
         TENSOR(F32, 24), OMITTED),
    CASE("odd", 31, ATTRS(7, 1, 1), PACKED(8, 17), WEIGHT(31, 13), SCALES(31, 1), TENSOR(F32, 1, 7, 31),
         CONSTANT(BF16, 31), TENSOR(F32, 31)),
    CASE("no_norm", 40, ATTRS(5, 1, 1), PACKED(8, 24), WEIGHT(40, 20), SCALES(1), TENSOR(F32, 1, 5, 40), OMITTED,
         TENSOR(F32, 1, 5, 40)),
    CASE("one_row", 67, ATTRS(1, 1, 1), PACKED(4, 68), WEIGHT(67, 64), OMITTED, TENSOR(F32, 1, 1, 67), TENSOR(F32, 67),
         TENSOR(F32, 67)),
    CASE("several_items", 320, ATTRS(75, 3, 64), PACKED(76, 580), FLOATS(320, 576), OMITTED, TENSOR(F32, 3, 25, 320),
         CONSTANT(F16, 320), TENSOR(F32, 3, 1, 320)),
    BENCH("attention_demo", 288, 384),
    BENCH("feed_forward_demo", 288, 1024),
};
