#include "ops/fused/affine/affine_cases.h"

#include "ops/common/cases.h"

#define THREE(...) .n_inputs = 3, .inputs = {__VA_ARGS__}
#define BENCH .flags = GRAFT_CASE_BENCH

const graft_op_case graft_affine_cases[GRAFT_AFFINE_N_CASES] = {
    {.name = "gate_per_channel", THREE(TENSOR(F32, 3, 5, 33), TENSOR(F32, 33), TENSOR(F32, 3, 5, 33))},
    {.name = "gate_per_item", THREE(TENSOR(F32, 3, 5, 31), TENSOR(F32, 3, 1, 31), TENSOR(F32, 3, 5, 31))},
    {.name = "gate_per_row", THREE(TENSOR(F32, 7, 67), TENSOR(F32, 7, 1), TENSOR(F32, 67))},
    {.name = "scalars", THREE(TENSOR(F32, 7, 67), TENSOR(F32, 1), TENSOR(F32, 1, 1))},
    {.name = "whole_gate", THREE(TENSOR(F32, 5, 19), TENSOR(F32, 5, 19), TENSOR(F32, 5, 19))},
    {.name = "bf16", THREE(TENSOR(BF16, 9, 600), TENSOR(BF16, 600), TENSOR(BF16, 9, 600))},
    {.name = "f16_gate_f32", THREE(TENSOR(F16, 9, 67), TENSOR(F32, 67), TENSOR(F16, 9, 67))},
    {.name = "several_items", THREE(TENSOR(F32, 2, 257, 131), TENSOR(F32, 2, 1, 131), TENSOR(F32, 2, 257, 131))},
    {.name = "empty", THREE(TENSOR(F32, 0, 33), TENSOR(F32, 33), TENSOR(F32, 0, 33))},
    {.name = "block", THREE(TENSOR(F32, 1, 4096, 3840), TENSOR(F32, 1, 1, 3840), TENSOR(F32, 1, 4096, 3840)), BENCH},
};

const graft_op_case graft_modulate_cases[GRAFT_MODULATE_N_CASES] = {
    {.name = "shifted", THREE(TENSOR(F32, 3, 5, 31), TENSOR(F32, 3, 1, 31), TENSOR(F32, 3, 1, 31))},
    {.name = "no_shift", THREE(TENSOR(F32, 5, 33), TENSOR(F32, 33), OMITTED)},
    {.name = "per_row", THREE(TENSOR(F32, 7, 67), TENSOR(F32, 7, 1), TENSOR(F32, 7, 1))},
    {.name = "whole", THREE(TENSOR(F32, 5, 19), TENSOR(F32, 5, 19), TENSOR(F32, 5, 19))},
    {.name = "bf16", THREE(TENSOR(BF16, 9, 600), TENSOR(BF16, 600), TENSOR(BF16, 600))},
    {.name = "f16_no_shift", THREE(TENSOR(F16, 9, 67), TENSOR(F16, 67), OMITTED)},
    {.name = "several_items", THREE(TENSOR(F32, 2, 257, 131), TENSOR(F32, 2, 1, 131), TENSOR(F32, 131))},
    {.name = "empty", THREE(TENSOR(F32, 0, 33), TENSOR(F32, 33), OMITTED)},
    {.name = "block", THREE(TENSOR(F32, 1, 4096, 3840), TENSOR(F32, 1, 1, 3840), TENSOR(F32, 1, 1, 3840)), BENCH},
};
