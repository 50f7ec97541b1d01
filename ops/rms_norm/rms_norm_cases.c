#include "ops/rms_norm/rms_norm_cases.h"

#include "ops/common/cases.h"
#include "ops/rms_norm/rms_norm.h"

static const graft_rms_norm_attrs eps_5 = {.eps = 1e-5};
static const graft_rms_norm_attrs eps_6 = {.eps = 1e-6};

#define NORM(a, n) .attrs = &(a), .n_inputs = 2, .reduction = (n)
#define BENCH .flags = GRAFT_CASE_BENCH
#define LIKE(value, ...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = (value) }
#define AROUND_10000(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = 9998, .high = 10002 }

const graft_op_case graft_rms_norm_cases[GRAFT_RMS_NORM_N_CASES] = {
    {.name = "row_1", NORM(eps_5, 1), .inputs = {TENSOR(F32, 5, 1), TENSOR(F32, 1)}},
    {.name = "row_31", NORM(eps_5, 31), .inputs = {TENSOR(F32, 5, 4, 31), TENSOR(F32, 31)}},
    {.name = "row_33", NORM(eps_5, 33), .inputs = {TENSOR(F32, 3, 33), OMITTED}},
    {.name = "row_132", NORM(eps_6, 132), .inputs = {TENSOR(F32, 5, 4, 3, 132), TENSOR(F32, 132)}},
    {.name = "row_260", NORM(eps_5, 260), .inputs = {TENSOR(F32, 260), TENSOR(F32, 260)}},
    {.name = "row_320", NORM(eps_5, 320), .inputs = {TENSOR(F32, 7, 320), TENSOR(F32, 320)}},
    {.name = "row_3073", NORM(eps_5, 3073), .inputs = {TENSOR(F32, 3, 3073), CONSTANT(F32, 3073)}},
    {.name = "several_items", NORM(eps_5, 131), .inputs = {TENSOR(F32, 257, 131), TENSOR(F32, 131)}},
    {.name = "constant_rows", NORM(eps_5, 132), .inputs = {LIKE(1e4, 4, 132), TENSOR(F32, 132)}},
    {.name = "zero_rows", NORM(eps_5, 33), .inputs = {LIKE(0, 4, 33), TENSOR(F32, 33)}},
    {.name = "large_mean", NORM(eps_5, 260), .inputs = {AROUND_10000(4, 260), TENSOR(F32, 260)}},
    {.name = "empty", NORM(eps_5, 33), .inputs = {TENSOR(F32, 0, 33), TENSOR(F32, 33)}},
    {.name = "bf16_weight", NORM(eps_6, 67), .inputs = {TENSOR(F32, 5, 67), CONSTANT(BF16, 67)}},
    {.name = "rows_64", NORM(eps_6, 64), .inputs = {TENSOR(F32, 37, 64), CONSTANT(F32, 64)}},
    {.name = "row_1032", NORM(eps_6, 1032), .inputs = {TENSOR(F32, 3, 1032), CONSTANT(F32, 1032)}},
    {.name = "f16_weight", NORM(eps_6, 67), .inputs = {TENSOR(F32, 5, 67), CONSTANT(F16, 67)}},
    {.name = "bf16_all", NORM(eps_6, 67), .inputs = {TENSOR(BF16, 5, 67), TENSOR(BF16, 67)}},
    {.name = "block_demo", NORM(eps_5, 384), .inputs = {TENSOR(F32, 1, 288, 384), CONSTANT(F32, 384)}, BENCH},
    {.name = "heads", NORM(eps_5, 128), .inputs = {TENSOR(F32, 1, 4224, 30, 128), CONSTANT(BF16, 128)}, BENCH},
    {.name = "heads_of_4", NORM(eps_5, 128), .inputs = {TENSOR(F32, 4, 4224, 30, 128), CONSTANT(BF16, 128)}, BENCH},
};
