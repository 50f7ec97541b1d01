#include "ops/group_norm/group_norm_cases.h"

#include "ops/common/cases.h"
#include "ops/group_norm/group_norm.h"

static const graft_group_norm_attrs one_group = {.n_groups = 1, .eps = 1e-6};
static const graft_group_norm_attrs groups_2 = {.n_groups = 2, .eps = 1e-6};
static const graft_group_norm_attrs groups_16 = {.n_groups = 16, .eps = 1e-5};
static const graft_group_norm_attrs groups_32 = {.n_groups = 32, .eps = 1e-6};

#define NORM(a, n) .attrs = &(a), .n_inputs = 3, .reduction = (n)
#define BENCH .flags = GRAFT_CASE_BENCH
#define LIKE(value, ...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = (value) }
#define AROUND_10000(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = 9998, .high = 10002 }

const graft_op_case graft_group_norm_cases[GRAFT_GROUP_NORM_N_CASES] = {
    {.name = "batch_of_3",
     NORM(groups_16, 105),
     .inputs = {TENSOR(F32, 3, 48, 5, 7), TENSOR(F32, 48), TENSOR(F32, 48)}},
    {.name = "one_dimension",
     NORM(groups_32, 1376),
     .inputs = {TENSOR(F32, 1, 1024, 43), TENSOR(F32, 1024), TENSOR(F32, 1024)}},
    {.name = "no_space", NORM(groups_2, 33), .inputs = {TENSOR(F32, 5, 66), TENSOR(F32, 66), TENSOR(F32, 66)}},
    {.name = "groups_of_one_element", NORM(groups_16, 1), .inputs = {TENSOR(F32, 2, 16, 1), OMITTED, TENSOR(F32, 16)}},
    {.name = "layer", NORM(one_group, 231), .inputs = {TENSOR(F32, 2, 3, 7, 11), OMITTED, OMITTED}},
    {.name = "volume", NORM(groups_2, 315), .inputs = {TENSOR(F32, 1, 6, 5, 7, 3), TENSOR(F32, 6), OMITTED}},
    {.name = "several_chunks",
     NORM(groups_2, 52983),
     .inputs = {TENSOR(F32, 1, 6, 131, 131), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "chunks_of_a_batch",
     NORM(groups_2, 17161),
     .inputs = {TENSOR(F32, 3, 2, 131, 131), CONSTANT(F32, 2), CONSTANT(F32, 2)}},
    {.name = "even_chunks",
     NORM(groups_2, 18432),
     .inputs = {TENSOR(F32, 2, 6, 64, 96), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "constant_groups", NORM(groups_2, 99), .inputs = {LIKE(1e4, 2, 6, 3, 11), TENSOR(F32, 6), OMITTED}},
    {.name = "constant_chunks", NORM(one_group, 34322), .inputs = {LIKE(0.1, 1, 2, 131, 131), OMITTED, TENSOR(F32, 2)}},
    {.name = "large_mean", NORM(groups_2, 99), .inputs = {AROUND_10000(2, 6, 3, 11), OMITTED, OMITTED}},
    {.name = "large_mean_in_chunks",
     NORM(one_group, 34322),
     .inputs = {AROUND_10000(1, 2, 131, 131), OMITTED, OMITTED}},
    {.name = "empty", NORM(groups_2, 21), .inputs = {TENSOR(F32, 0, 6, 7), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "bf16_weights",
     NORM(groups_2, 63),
     .inputs = {TENSOR(F32, 1, 6, 21), CONSTANT(BF16, 6), CONSTANT(F16, 6)}},
    {.name = "f16_all", NORM(groups_2, 63), .inputs = {TENSOR(F16, 1, 6, 21), TENSOR(F16, 6), TENSOR(F16, 6)}},
    {.name = "many_items", NORM(groups_2, 10), .inputs = {TENSOR(F32, 1031, 4, 5), TENSOR(F32, 4), TENSOR(F32, 4)}},
    {.name = "autoencoder_256",
     NORM(groups_32, 262144),
     .inputs = {TENSOR(F32, 1, 128, 256, 256), CONSTANT(F32, 128), CONSTANT(F32, 128)},
     BENCH},
    {.name = "autoencoder_32",
     NORM(groups_32, 16384),
     .inputs = {TENSOR(F32, 1, 512, 32, 32), CONSTANT(BF16, 512), CONSTANT(BF16, 512)},
     BENCH},
    {.name = "autoencoder_512",
     NORM(groups_32, 4194304),
     .inputs = {TENSOR(F32, 1, 512, 512, 512), CONSTANT(BF16, 512), CONSTANT(BF16, 512)},
     BENCH},
};
