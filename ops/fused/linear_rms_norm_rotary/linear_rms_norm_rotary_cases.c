#include "ops/fused/linear_rms_norm_rotary/linear_rms_norm_rotary_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/linear_rms_norm_rotary/linear_rms_norm_rotary.h"

#define ATTRS(heads, ...)                                   \
  .attrs = &(const graft_linear_rms_norm_rotary_attrs) {    \
    .n_heads = (heads), .then = {.eps = 1e-5, __VA_ARGS__ } \
  }
#define PAIRS(heads) ATTRS(heads, .style = GRAFT_ROTARY_INTERLEAVED)
#define HALVES(heads) ATTRS(heads, .style = GRAFT_ROTARY_HALF)
#define TO_F16(heads) ATTRS(heads, .scale = 0.0883883, .dtype = GRAFT_F16)
#define TO_BF16(heads) ATTRS(heads, .style = GRAFT_ROTARY_HALF, .dtype = GRAFT_BF16)
#define SCALED(heads) ATTRS(heads, .scale = -0.3)
#define TABLE(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = -1, .high = 1 }
#define X(...) TENSOR(F32, __VA_ARGS__)
#define W(...) CONSTANT(F32, __VA_ARGS__)
#define HALF_W(...) CONSTANT(BF16, __VA_ARGS__)
#define CASE(text, k, attributes, ...) \
  { .name = text, attributes, .n_inputs = 5, .inputs = {__VA_ARGS__}, .reduction = (k) }
#define BENCH_CASE(text, k, attributes, ...) \
  { .name = text, attributes, .n_inputs = 5, .inputs = {__VA_ARGS__}, .reduction = (k), .flags = GRAFT_CASE_BENCH }

const graft_op_case graft_linear_rms_norm_rotary_cases[GRAFT_LINEAR_RMS_NORM_ROTARY_N_CASES] = {
    CASE("odd", 13, PAIRS(3), X(2, 5, 13), W(18, 13), W(18), X(6), TABLE(5, 3, 2)),
    CASE("no_bias", 13, PAIRS(3), X(2, 5, 13), W(18, 13), OMITTED, X(6), TABLE(5, 3, 2)),
    CASE("no_norm", 13, PAIRS(3), X(2, 5, 13), W(18, 13), W(18), OMITTED, TABLE(5, 3, 2)),
    CASE("half_odd", 13, HALVES(3), X(2, 5, 13), W(18, 13), OMITTED, OMITTED, TABLE(5, 3, 2)),
    CASE("weight_not_constant", 13, PAIRS(3), X(2, 5, 13), X(18, 13), X(18), X(6), TABLE(5, 3, 2)),
    CASE("scaled", 33, SCALED(5), X(1, 9, 33), W(160, 33), W(160), X(32), TABLE(9, 16, 2)),
    CASE("scaled_to_f16", 33, TO_F16(5), X(1, 9, 33), W(160, 33), W(160), X(32), TABLE(9, 16, 2)),
    CASE("to_bf16", 33, TO_BF16(5), X(1, 9, 33), W(160, 33), OMITTED, X(32), TABLE(9, 16, 2)),
    CASE("partial", 65, PAIRS(3), X(1, 17, 65), W(384, 65), W(384), W(128), TABLE(17, 32, 2)),
    CASE("half_partial", 65, HALVES(3), X(1, 17, 65), W(384, 65), OMITTED, OMITTED, TABLE(17, 32, 2)),
    CASE("nothing_rotated", 7, PAIRS(2), X(1, 4, 7), W(16, 7), W(16), X(8), TABLE(4, 0, 2)),
    CASE("ragged", 31, HALVES(2), X(1, 15, 31), W(94, 31), W(94), HALF_W(47), TABLE(15, 11, 2)),
    CASE("heads_between_panels", 40, TO_F16(10), X(1, 15, 40), W(240, 40), W(240), X(24), TABLE(15, 12, 2)),
    CASE("heads_too_odd", 19, PAIRS(7), X(1, 15, 19), W(497, 19), OMITTED, X(71), TABLE(15, 19, 2)),
    CASE("heads_too_long", 19, PAIRS(2), X(1, 5, 19), W(640, 19), OMITTED, X(320), TABLE(5, 160, 2)),
    CASE("one_row", 300, PAIRS(5), X(1, 1, 300), HALF_W(320, 300), W(320), X(64), TABLE(1, 32, 2)),
    CASE("few_rows", 300, HALVES(3), X(1, 3, 300), HALF_W(384, 300), OMITTED, X(128), TABLE(8, 64, 2)),
    CASE("more_than_a_block", 513, PAIRS(5), X(1, 89, 513), W(640, 513), W(640), X(128), TABLE(96, 64, 2)),
    CASE("several_items", 64, SCALED(3), X(3, 67, 64), HALF_W(384, 64), OMITTED, W(128), TABLE(67, 64, 2)),
    CASE("table_per_item", 36, PAIRS(2), X(2, 5, 36), W(64, 36), OMITTED, X(32), TABLE(2, 5, 16, 2)),
    CASE("no_terms", 0, PAIRS(2), X(1, 3, 0), W(16, 0), W(16), X(8), TABLE(3, 4, 2)),
    CASE("no_positions", 8, PAIRS(2), X(2, 0, 8), W(16, 8), W(16), X(8), TABLE(3, 4, 2)),
    CASE("bf16", 77, HALVES(3), TENSOR(BF16, 1, 23, 77), HALF_W(192, 77), HALF_W(192), HALF_W(64), TABLE(23, 32, 2)),
    CASE("bf16_to_f16", 78, TO_F16(5), TENSOR(BF16, 2, 9, 78), HALF_W(640, 78), OMITTED, HALF_W(128), TABLE(9, 64, 2)),
    CASE("f16", 31, PAIRS(2), TENSOR(F16, 2, 5, 31), CONSTANT(F16, 68, 31), CONSTANT(F16, 68), OMITTED,
         TABLE(5, 17, 2)),
    BENCH_CASE("zimage_demo", 384, PAIRS(3), X(1, 288, 384), W(384, 384), OMITTED, W(128), TABLE(288, 64, 2)),
    BENCH_CASE("zimage", 3840, PAIRS(30), X(1, 4224, 3840), HALF_W(3840, 3840), OMITTED, HALF_W(128),
               TABLE(4224, 64, 2)),
};
