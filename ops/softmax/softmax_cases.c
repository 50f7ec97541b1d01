#include "ops/softmax/softmax_cases.h"

#include "ops/common/cases.h"

#define SOFTMAX(n) .n_inputs = 1, .reduction = (n)
#define BENCH .flags = GRAFT_CASE_BENCH
#define LIKE(value, ...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = (value) }
#define BETWEEN(lowest, highest, ...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = (lowest), .high = (highest) }

const graft_op_case graft_softmax_cases[GRAFT_SOFTMAX_N_CASES] = {
    {.name = "row_1", SOFTMAX(1), .inputs = {TENSOR(F32, 5, 1)}},
    {.name = "row_31", SOFTMAX(31), .inputs = {TENSOR(F32, 5, 4, 31)}},
    {.name = "row_33", SOFTMAX(33), .inputs = {TENSOR(F32, 33)}},
    {.name = "row_132", SOFTMAX(132), .inputs = {TENSOR(F32, 5, 4, 3, 132)}},
    {.name = "row_3073", SOFTMAX(3073), .inputs = {TENSOR(F32, 3, 3073)}},
    {.name = "several_items", SOFTMAX(131), .inputs = {TENSOR(F32, 257, 131)}},
    {.name = "equal_values", SOFTMAX(260), .inputs = {LIKE(1e4, 3, 260)}},
    {.name = "wide_range", SOFTMAX(320), .inputs = {BETWEEN(-200, 200, 7, 320)}},
    {.name = "far_from_zero", SOFTMAX(320), .inputs = {BETWEEN(-1010, -1000, 7, 320)}},
    {.name = "empty", SOFTMAX(33), .inputs = {TENSOR(F32, 0, 33)}},
    {.name = "bf16", SOFTMAX(67), .inputs = {TENSOR(BF16, 5, 67)}},
    {.name = "f16", SOFTMAX(67), .inputs = {TENSOR(F16, 5, 67)}},
    {.name = "scores_demo", SOFTMAX(288), .inputs = {TENSOR(F32, 3, 288, 288)}, BENCH},
    {.name = "scores", SOFTMAX(4224), .inputs = {TENSOR(F32, 1, 4224, 4224)}, BENCH},
};
