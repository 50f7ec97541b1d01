#include "ops/fused/layer_norm_modulate/layer_norm_modulate_cases.h"

#include "ops/common/cases.h"
#include "ops/layer_norm/layer_norm.h"

static const graft_layer_norm_attrs eps_5 = {.eps = 1e-5};
static const graft_layer_norm_attrs eps_6 = {.eps = 1e-6};

#define NORM(a, n) .attrs = &(a), .n_inputs = 5, .reduction = (n)
#define BENCH .flags = GRAFT_CASE_BENCH
#define ROWS(...) TENSOR(F32, __VA_ARGS__)

const graft_op_case graft_layer_norm_modulate_cases[GRAFT_LAYER_NORM_MODULATE_N_CASES] = {
    {.name = "modulated",
     NORM(eps_6, 31),
     .inputs = {ROWS(5, 4, 31), OMITTED, OMITTED, ROWS(5, 1, 31), ROWS(5, 1, 31)}},
    {.name = "no_shift", NORM(eps_6, 33), .inputs = {ROWS(3, 33), OMITTED, OMITTED, ROWS(33), OMITTED}},
    {.name = "weighted", NORM(eps_5, 33), .inputs = {ROWS(3, 33), ROWS(33), ROWS(33), ROWS(33), ROWS(33)}},
    {.name = "weighted_no_shift", NORM(eps_5, 33), .inputs = {ROWS(3, 33), ROWS(33), ROWS(33), ROWS(33), OMITTED}},
    {.name = "row_1", NORM(eps_5, 1), .inputs = {ROWS(5, 1), ROWS(1), ROWS(1), ROWS(1), ROWS(1)}},
    {.name = "row_132",
     NORM(eps_6, 132),
     .inputs = {ROWS(2, 4, 3, 132), OMITTED, OMITTED, ROWS(4, 1, 132), ROWS(2, 1, 1, 132)}},
    {.name = "scale_per_row", NORM(eps_6, 67), .inputs = {ROWS(3, 5, 67), OMITTED, OMITTED, ROWS(3, 5, 67), ROWS(67)}},
    {.name = "scalar_scale", NORM(eps_6, 67), .inputs = {ROWS(3, 67), OMITTED, OMITTED, {.dtype = GRAFT_F32}, OMITTED}},
    {.name = "row_3073", NORM(eps_5, 3073), .inputs = {ROWS(3, 3073), OMITTED, OMITTED, ROWS(1, 3073), ROWS(1, 3073)}},
    {.name = "several_items",
     NORM(eps_5, 131),
     .inputs = {ROWS(2, 257, 131), OMITTED, OMITTED, ROWS(2, 1, 131), OMITTED}},
    {.name = "empty", NORM(eps_5, 33), .inputs = {ROWS(0, 33), OMITTED, OMITTED, ROWS(33), ROWS(33)}},
    {.name = "bf16_weight",
     NORM(eps_6, 67),
     .inputs = {ROWS(5, 67), CONSTANT(BF16, 67), CONSTANT(BF16, 67), ROWS(67), ROWS(67)}},
    {.name = "bf16_all",
     NORM(eps_6, 67),
     .inputs = {TENSOR(BF16, 5, 67), OMITTED, OMITTED, TENSOR(BF16, 67), TENSOR(BF16, 67)}},
    {.name = "final_demo",
     NORM(eps_6, 384),
     .inputs = {ROWS(1, 288, 384), OMITTED, OMITTED, ROWS(1, 1, 384), OMITTED},
     BENCH},
    {.name = "final_demo_512",
     NORM(eps_6, 384),
     .inputs = {ROWS(1, 1056, 384), OMITTED, OMITTED, ROWS(1, 1, 384), OMITTED},
     BENCH},
    {.name = "final",
     NORM(eps_6, 3840),
     .inputs = {ROWS(1, 4224, 3840), OMITTED, OMITTED, ROWS(1, 1, 3840), OMITTED},
     BENCH},
};
