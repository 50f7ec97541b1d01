#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8.h"

// A last digit of what is quantised may change any byte, so reference and kernels must agree on it exactly: rows of
// twos have the root mean square 2, and products of integers are exact. tests/fusion/test_convrot_producers.c compares
// with the operators apart on numbers of every kind.
#define X(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = 2 }
#define WEIGHT(type, n) \
  { TENSOR_LIKE(type, n), .fill = GRAFT_FILL_INTEGERS, .low = -8, .high = 9, .is_constant = true }
#define SCALE(...) INTEGERS(F32, -4, 5, __VA_ARGS__)
#define ATTRS(size, where)                                    \
  .attrs = &(const graft_rms_norm_convrot_i8_attrs) {         \
    .eps = 0, .quantize = {.group = (size), .grid = (where) } \
  }
#define CASE(text, size, ...) \
  { .name = text, ATTRS(size, GRAFT_QUANTIZE_F32), .n_inputs = 4, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_EXACT }
#define SHIFT(...) INTEGERS(F32, -9, 7, __VA_ARGS__)
#define FACTOR(text, size, ...)                                                                                    \
  {                                                                                                                \
    .name = text,                                                                                                  \
    .attrs = &(const graft_rms_norm_convrot_i8_attrs){.eps = 0, .quantize = {.group = (size)}, .is_factor = true}, \
    .n_inputs = 4, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_EXACT                                              \
  }
#define BENCH(text, ...) \
  { .name = text, ATTRS(256, GRAFT_QUANTIZE_F32), .n_inputs = 4, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_BENCH }

const graft_op_case graft_rms_norm_convrot_i8_cases[GRAFT_RMS_NORM_CONVROT_I8_N_CASES] = {
    CASE("modulated", 4, X(5, 4, 36), WEIGHT(F32, 36), SCALE(5, 1, 36), OMITTED),
    CASE("modulated_no_weight", 4, X(3, 36), OMITTED, SCALE(36), OMITTED),
    CASE("plain", 4, X(2, 3, 36), WEIGHT(F32, 36), OMITTED, OMITTED),
    CASE("plain_no_weight", 4, X(7, 36), OMITTED, OMITTED, OMITTED),
    CASE("shifted", 4, X(5, 4, 36), WEIGHT(F32, 36), SCALE(5, 1, 36), SHIFT(5, 1, 36)),
    CASE("shifted_no_weight", 4, X(3, 36), OMITTED, SCALE(36), SHIFT(3, 36)),
    FACTOR("factor", 4, X(5, 4, 36), WEIGHT(F32, 36), SCALE(5, 1, 36), OMITTED),
    FACTOR("factor_no_weight", 1, X(3, 31), OMITTED, SCALE(31), OMITTED),
    FACTOR("factor_shifted", 16, X(3, 5, 112), WEIGHT(F32, 112), SCALE(112), SHIFT(3, 1, 112)),
    CASE("odd", 1, X(5, 31), WEIGHT(F32, 31), SCALE(31), OMITTED),
    CASE("row_1", 1, X(5, 1), WEIGHT(F32, 1), SCALE(1), OMITTED),
    CASE("scale_per_row", 16, X(3, 5, 112), WEIGHT(F32, 112), SCALE(3, 5, 112), OMITTED),
    CASE("scalar_scale", 1, X(3, 67), WEIGHT(F32, 67), {.dtype = GRAFT_F32, .fill = GRAFT_FILL_CONSTANT, .low = 2},
         OMITTED),
    CASE("vector", 64, X(192), WEIGHT(F32, 192), SCALE(192), OMITTED),
    CASE("group_256", 256, X(3, 768), WEIGHT(BF16, 768), SCALE(3, 768), OMITTED),
    CASE("group_1024", 1024, X(2, 2048), WEIGHT(F16, 2048), OMITTED, OMITTED),
    CASE("several_items", 16, X(2, 257, 144), WEIGHT(F32, 144), SCALE(2, 1, 144), OMITTED),
    CASE("empty", 4, X(3, 0, 8), WEIGHT(F32, 8), OMITTED, OMITTED),
    {.name = "bf16_grid",
     ATTRS(16, GRAFT_QUANTIZE_BF16),
     .n_inputs = 4,
     .inputs = {X(7, 112), WEIGHT(F32, 112), SCALE(7, 112), OMITTED},
     .flags = GRAFT_CASE_EXACT},
    BENCH("block_demo", X(1, 288, 512), WEIGHT(F32, 512), SCALE(1, 1, 512), OMITTED),
    BENCH("refiner", X(1, 512, 3840), WEIGHT(BF16, 3840), OMITTED, OMITTED),
    BENCH("block", X(1, 4224, 3840), WEIGHT(BF16, 3840), SCALE(1, 1, 3840), OMITTED),
};
