#include "ops/fused/group_norm_silu/group_norm_silu_cases.h"

#include "ops/common/cases.h"
#include "ops/group_norm/group_norm.h"

static const graft_group_norm_attrs one = {.n_groups = 1, .eps = 1e-6};
static const graft_group_norm_attrs three = {.n_groups = 3, .eps = 1e-6};
static const graft_group_norm_attrs many = {.n_groups = 32, .eps = 1e-6};

#define NORM(a, n) .attrs = &(a), .n_inputs = 3, .reduction = (n)
#define BENCH .flags = GRAFT_CASE_BENCH

const graft_op_case graft_group_norm_silu_cases[GRAFT_GROUP_NORM_SILU_N_CASES] = {
    {.name = "odd", NORM(three, 70), .inputs = {TENSOR(F32, 2, 6, 5, 7), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "plain", NORM(three, 70), .inputs = {TENSOR(F32, 2, 6, 5, 7), OMITTED, OMITTED}},
    {.name = "one_group", NORM(one, 60), .inputs = {TENSOR(F32, 3, 4, 15), CONSTANT(F32, 4), CONSTANT(F32, 4)}},
    {.name = "single_pixels", NORM(three, 2), .inputs = {TENSOR(F32, 2, 6), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "several_items", NORM(three, 1998), .inputs = {TENSOR(F32, 9, 6, 27, 37), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "several_chunks",
     NORM(three, 33800),
     .inputs = {TENSOR(F32, 1, 6, 130, 130), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "empty", NORM(three, 2), .inputs = {TENSOR(F32, 0, 6, 5), TENSOR(F32, 6), TENSOR(F32, 6)}},
    {.name = "bf16_weight", NORM(three, 22), .inputs = {TENSOR(F32, 2, 6, 11), CONSTANT(BF16, 6), CONSTANT(BF16, 6)}},
    {.name = "bf16_all", NORM(three, 22), .inputs = {TENSOR(BF16, 2, 6, 11), TENSOR(BF16, 6), TENSOR(BF16, 6)}},
    {.name = "autoencoder_demo",
     NORM(many, 131072),
     .inputs = {TENSOR(F32, 1, 64, 256, 256), CONSTANT(F32, 64), CONSTANT(F32, 64)},
     BENCH},
    {.name = "autoencoder_256",
     NORM(many, 65536),
     .inputs = {TENSOR(F32, 1, 512, 64, 64), CONSTANT(F32, 512), CONSTANT(F32, 512)},
     BENCH},
    {.name = "autoencoder_1024",
     NORM(many, 4194304),
     .inputs = {TENSOR(F32, 1, 128, 512, 512), CONSTANT(F32, 128), CONSTANT(F32, 128)},
     BENCH},
};
