#include "ops/fused/concat_permute/concat_permute_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/concat_permute/concat_permute.h"

#define ATTRS(axis_, factor_, dtype_, ...)                                        \
  .attrs = &(const graft_concat_permute_attrs) {                                  \
    .axis = (axis_), .factor = (factor_), .order = {__VA_ARGS__},                 \
    .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dtype = (dtype_) \
  }
#define ONE(...) .n_inputs = 1, .inputs = {__VA_ARGS__}
#define TWO(...) .n_inputs = 2, .inputs = {__VA_ARGS__}
#define THREE(...) .n_inputs = 3, .inputs = {__VA_ARGS__}

const graft_op_case graft_concat_permute_cases[GRAFT_CONCAT_PERMUTE_N_CASES] = {
    {.name = "heads", ATTRS(1, 1, GRAFT_F16, 0, 2, 1, 3), TWO(TENSOR(F32, 1, 5, 3, 33), TENSOR(F32, 1, 7, 3, 33))},
    {.name = "heads_scaled",
     ATTRS(1, 0.125, GRAFT_BF16, 0, 2, 1, 3),
     TWO(TENSOR(F32, 2, 5, 3, 16), TENSOR(F32, 2, 1, 3, 16))},
    {.name = "turned",
     ATTRS(1, 1, GRAFT_F16, 0, 2, 1),
     THREE(TENSOR(F32, 2, 35, 71), TENSOR(F32, 2, 1, 71), TENSOR(F32, 2, 20, 71))},
    {.name = "turned_in_channels",
     ATTRS(2, 1, GRAFT_BF16, 0, 2, 1),
     THREE(TENSOR(F32, 2, 70, 37), TENSOR(F32, 2, 70, 1), TENSOR(F32, 2, 70, 3))},
    {.name = "turned_one", ATTRS(0, 0.3, GRAFT_F16, 1, 0), ONE(TENSOR(F32, 67, 129))},
    {.name = "one_without_axis", ATTRS(7, 0.3, GRAFT_F16, 1, 0), ONE(TENSOR(F32, 5, 9))},
    {.name = "turned_whole_lines", ATTRS(0, 1, GRAFT_F16, 1, 0), TWO(TENSOR(F32, 64, 48), TENSOR(F32, 32, 48))},
    {.name = "turned_same_type", ATTRS(0, 1, NULL, 1, 0), TWO(TENSOR(F32, 21, 19), TENSOR(F32, 3, 19))},
    {.name = "scaled_same_type", ATTRS(0, -2, NULL, 1, 0), ONE(TENSOR(F32, 21, 40))},
    {.name = "not_permuted", ATTRS(1, 1, GRAFT_F16, 0, 1), TWO(TENSOR(F32, 3, 18), TENSOR(F32, 3, 5))},
    {.name = "halves", ATTRS(0, 1, GRAFT_F32, 1, 0, 2), TWO(TENSOR(F16, 3, 4, 17), TENSOR(F16, 2, 4, 17))},
    {.name = "halves_turned", ATTRS(0, 0.5, GRAFT_BF16, 1, 0), TWO(TENSOR(F16, 40, 50), TENSOR(F16, 8, 50))},
    {.name = "bf16_turned", ATTRS(1, 1, GRAFT_F32, 1, 0), TWO(TENSOR(BF16, 40, 30), TENSOR(BF16, 40, 33))},
    {.name = "rank_5",
     ATTRS(2, 1, GRAFT_F16, 4, 0, 3, 1, 2),
     TWO(TENSOR(F32, 2, 3, 4, 5, 6), TENSOR(F32, 2, 3, 1, 5, 6))},
    {.name = "last_of_one", ATTRS(0, 1, GRAFT_F16, 1, 0), TWO(TENSOR(F32, 1, 37), TENSOR(F32, 1, 37))},
    {.name = "with_empty",
     ATTRS(1, 1, GRAFT_F16, 1, 0),
     THREE(TENSOR(F32, 3, 0), TENSOR(F32, 3, 4), TENSOR(F32, 3, 0))},
    {.name = "all_empty", ATTRS(0, 2, GRAFT_F16, 1, 0), TWO(TENSOR(F32, 0, 4), TENSOR(F32, 0, 4))},
    {.name = "keys_behind_a_prefix",
     ATTRS(1, 1, GRAFT_F16, 0, 2, 1, 3),
     TWO(TENSOR(F32, 1, 512, 30, 128), TENSOR(F32, 1, 4096, 30, 128)),
     .flags = GRAFT_CASE_BENCH},
    {.name = "tokens_to_channels",
     ATTRS(1, 1, GRAFT_F16, 0, 2, 1),
     TWO(TENSOR(F32, 1, 512, 3840), TENSOR(F32, 1, 4096, 3840)),
     .flags = GRAFT_CASE_BENCH},
    {.name = "scaled_heads",
     ATTRS(0, 0.125, GRAFT_F16, 0, 2, 1, 3),
     ONE(TENSOR(F32, 1, 4096, 30, 128)),
     .flags = GRAFT_CASE_BENCH},
    {.name = "scaled_tokens_to_channels",
     ATTRS(0, 0.125, GRAFT_F16, 0, 2, 1),
     ONE(TENSOR(F32, 1, 4096, 3840)),
     .flags = GRAFT_CASE_BENCH},
};
