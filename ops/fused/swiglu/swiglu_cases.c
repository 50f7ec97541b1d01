#include "ops/fused/swiglu/swiglu_cases.h"

#include "ops/common/cases.h"

#define BOTH(type, ...) .n_inputs = 2, .inputs = {TENSOR(type, __VA_ARGS__), TENSOR(type, __VA_ARGS__)}
#define BETWEEN(lowest, highest, ...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = (lowest), .high = (highest) }

const graft_op_case graft_swiglu_cases[GRAFT_SWIGLU_N_CASES] = {
    {.name = "odd", BOTH(F32, 5, 31)},
    {.name = "one", BOTH(F32, 1)},
    {.name = "rank_4", BOTH(F32, 2, 5, 7, 33)},
    {.name = "size_1_dimensions", BOTH(F32, 1, 132, 1, 3, 1)},
    {.name = "several_items", BOTH(F32, 3, 16387)},
    {.name = "empty", BOTH(F32, 4, 0, 3)},
    // Ends where the results become subnormal, which have no digits to compare.
    {.name = "wide_range", .n_inputs = 2, .inputs = {BETWEEN(-80, 80, 1021), BETWEEN(1, 2, 1021)}},
    {.name = "bf16", BOTH(BF16, 7, 133)},
    {.name = "f16", BOTH(F16, 7, 133)},
    {.name = "feed_forward_demo", BOTH(F32, 1, 288, 1024), .flags = GRAFT_CASE_BENCH},
    {.name = "text_encoder", BOTH(F32, 1, 64, 9728), .flags = GRAFT_CASE_BENCH},
    {.name = "feed_forward", BOTH(F32, 1, 1056, 10240), .flags = GRAFT_CASE_BENCH},
};
