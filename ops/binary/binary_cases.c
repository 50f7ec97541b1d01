#include "ops/binary/binary_cases.h"

#include "ops/common/cases.h"

#define PAIR(a, b) .n_inputs = 2, .inputs = {a, b}
#define BENCH .flags = GRAFT_CASE_BENCH
#define DIVISOR(type, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = 0.5, .high = 4 }
#define SCALAR(type) \
  { .dtype = GRAFT_##type, .fill = GRAFT_FILL_UNIFORM, .low = 0.5, .high = 4 }

const graft_op_case graft_binary_cases[GRAFT_BINARY_N_CASES] = {
    {.name = "odd", PAIR(TENSOR(F32, 3, 31), TENSOR(F32, 3, 31))},
    {.name = "rows_repeated", PAIR(TENSOR(F32, 5, 33), TENSOR(F32, 33))},
    {.name = "rows_of_a_repeated", PAIR(TENSOR(F32, 33), TENSOR(F32, 5, 33))},
    {.name = "columns_repeated", PAIR(TENSOR(F32, 7, 132), TENSOR(F32, 7, 1))},
    {.name = "columns_of_a_repeated", PAIR(TENSOR(F32, 7, 1), TENSOR(F32, 7, 132))},
    {.name = "scalar_b", PAIR(TENSOR(F32, 2, 3, 5), SCALAR(F32))},
    {.name = "scalar_a", PAIR(SCALAR(F32), TENSOR(F32, 2, 3, 5))},
    {.name = "scalars", PAIR(SCALAR(F32), SCALAR(F32))},
    {.name = "outer_product", PAIR(TENSOR(F32, 67, 1), TENSOR(F32, 1, 19))},
    {.name = "channels", PAIR(TENSOR(F32, 2, 5, 3, 7), TENSOR(F32, 5, 1, 1))},
    {.name = "both_ways", PAIR(TENSOR(F32, 2, 1, 3, 1, 5), TENSOR(F32, 7, 1, 4, 1))},
    {.name = "size_1_dimensions", PAIR(TENSOR(F32, 1, 1, 17, 1), TENSOR(F32, 1, 17, 1))},
    {.name = "several_items", PAIR(TENSOR(F32, 3, 16387), TENSOR(F32, 3, 1))},
    {.name = "empty", PAIR(TENSOR(F32, 0, 5), TENSOR(F32, 5))},
    {.name = "bf16_b", PAIR(TENSOR(F32, 9, 131), CONSTANT(BF16, 131))},
    {.name = "f16_a", PAIR(TENSOR(F16, 9, 1031), TENSOR(F32, 9, 1))},
    {.name = "bf16_all", PAIR(TENSOR(BF16, 9, 31), TENSOR(BF16, 9, 31))},
    {.name = "residual_demo", PAIR(TENSOR(F32, 1, 288, 384), TENSOR(F32, 1, 288, 384)), BENCH},
    {.name = "modulate_demo", PAIR(TENSOR(F32, 1, 4224, 3840), TENSOR(F32, 1, 1, 3840)), BENCH},
    {.name = "autoencoder_256", PAIR(TENSOR(F32, 1, 128, 256, 256), TENSOR(F32, 1, 128, 256, 256)), BENCH},
};

const graft_op_case graft_div_cases[GRAFT_DIV_N_CASES] = {
    {.name = "odd", PAIR(TENSOR(F32, 3, 31), DIVISOR(F32, 3, 31))},
    {.name = "rows_repeated", PAIR(TENSOR(F32, 5, 33), DIVISOR(F32, 33))},
    {.name = "columns_of_a_repeated", PAIR(TENSOR(F32, 7, 1), DIVISOR(F32, 7, 132))},
    {.name = "scalar_a", PAIR(SCALAR(F32), DIVISOR(F32, 2, 3, 5))},
    {.name = "both_ways", PAIR(TENSOR(F32, 2, 1, 3, 1, 5), DIVISOR(F32, 7, 1, 4, 1))},
    {.name = "empty", PAIR(TENSOR(F32, 5, 0), DIVISOR(F32, 1))},
    {.name = "f16_by_bf16", PAIR(TENSOR(F16, 9, 31), DIVISOR(BF16, 9, 31))},
    {.name = "large", PAIR(TENSOR(F32, 1, 288, 4096), DIVISOR(F32, 1, 288, 4096)), BENCH},
};
