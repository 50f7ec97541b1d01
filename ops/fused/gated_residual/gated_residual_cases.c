#include "ops/fused/gated_residual/gated_residual_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/gated_residual/gated_residual.h"

static const graft_gated_residual_attrs eps_5 = {.eps = 1e-5};
static const graft_gated_residual_attrs eps_6 = {.eps = 1e-6};

#define NORM(a, n) .attrs = &(a), .n_inputs = 4, .reduction = (n)
#define BOTH(...) TENSOR(F32, __VA_ARGS__), TENSOR(F32, __VA_ARGS__)
#define BENCH .flags = GRAFT_CASE_BENCH

const graft_op_case graft_gated_residual_cases[GRAFT_GATED_RESIDUAL_N_CASES] = {
    {.name = "row_31", NORM(eps_5, 31), .inputs = {BOTH(5, 4, 31), TENSOR(F32, 31), TENSOR(F32, 5, 1, 31)}},
    {.name = "no_gate", NORM(eps_5, 33), .inputs = {BOTH(3, 33), TENSOR(F32, 33), OMITTED}},
    {.name = "no_weight", NORM(eps_5, 33), .inputs = {BOTH(3, 33), OMITTED, TENSOR(F32, 33)}},
    {.name = "neither", NORM(eps_5, 33), .inputs = {BOTH(3, 33), OMITTED, OMITTED}},
    {.name = "row_1", NORM(eps_5, 1), .inputs = {BOTH(5, 1), TENSOR(F32, 1), TENSOR(F32, 1)}},
    {.name = "row_132", NORM(eps_6, 132), .inputs = {BOTH(2, 4, 3, 132), TENSOR(F32, 132), TENSOR(F32, 4, 1, 132)}},
    {.name = "gate_per_row", NORM(eps_6, 67), .inputs = {BOTH(3, 5, 67), TENSOR(F32, 67), TENSOR(F32, 3, 5, 67)}},
    {.name = "scalar_gate", NORM(eps_6, 67), .inputs = {BOTH(3, 67), TENSOR(F32, 67), {.dtype = GRAFT_F32}}},
    {.name = "one_row", NORM(eps_5, 260), .inputs = {BOTH(260), TENSOR(F32, 260), TENSOR(F32, 260)}},
    {.name = "row_3073", NORM(eps_5, 3073), .inputs = {BOTH(3, 3073), CONSTANT(F32, 3073), TENSOR(F32, 1, 3073)}},
    {.name = "several_items",
     NORM(eps_5, 131),
     .inputs = {BOTH(2, 257, 131), TENSOR(F32, 131), TENSOR(F32, 2, 1, 131)}},
    {.name = "empty", NORM(eps_5, 33), .inputs = {BOTH(0, 33), TENSOR(F32, 33), TENSOR(F32, 33)}},
    {.name = "bf16_weight", NORM(eps_6, 67), .inputs = {BOTH(5, 67), CONSTANT(BF16, 67), TENSOR(F32, 67)}},
    {.name = "f16_weight", NORM(eps_6, 67), .inputs = {BOTH(5, 67), CONSTANT(F16, 67), TENSOR(F32, 67)}},
    {.name = "bf16_all",
     NORM(eps_6, 67),
     .inputs = {TENSOR(BF16, 5, 67), TENSOR(BF16, 5, 67), TENSOR(BF16, 67), TENSOR(BF16, 67)}},
    {.name = "block_demo",
     NORM(eps_5, 384),
     .inputs = {BOTH(1, 288, 384), CONSTANT(F32, 384), TENSOR(F32, 1, 1, 384)},
     BENCH},
    {.name = "block_demo_512",
     NORM(eps_5, 384),
     .inputs = {BOTH(1, 1056, 384), CONSTANT(F32, 384), TENSOR(F32, 1, 1, 384)},
     BENCH},
    {.name = "block",
     NORM(eps_5, 3840),
     .inputs = {BOTH(1, 4224, 3840), CONSTANT(BF16, 3840), TENSOR(F32, 1, 1, 3840)},
     BENCH},
    {.name = "block_of_4",
     NORM(eps_5, 3840),
     .inputs = {BOTH(4, 4224, 3840), CONSTANT(BF16, 3840), TENSOR(F32, 4, 1, 3840)},
     BENCH},
};
