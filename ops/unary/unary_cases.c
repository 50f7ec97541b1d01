#include "ops/unary/unary_cases.h"

#include "ops/common/cases.h"
#include "ops/unary/unary.h"

#define BETWEEN(type, lowest, highest, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = (lowest), .high = (highest) }

// Ranges end where results would become subnormal, which have no digits to compare.
const graft_op_case graft_unary_cases[GRAFT_UNARY_N_CASES] = {
    {.name = "scalar", .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32}}},
    {.name = "one", .n_inputs = 1, .inputs = {TENSOR(F32, 1)}},
    {.name = "odd", .n_inputs = 1, .inputs = {TENSOR(F32, 31)}},
    {.name = "rank_4", .n_inputs = 1, .inputs = {TENSOR(F32, 2, 5, 7, 33)}},
    {.name = "size_1_dimensions", .n_inputs = 1, .inputs = {TENSOR(F32, 1, 132, 1, 3, 1)}},
    {.name = "several_items", .n_inputs = 1, .inputs = {TENSOR(F32, 3, 16387)}},
    {.name = "empty", .n_inputs = 1, .inputs = {TENSOR(F32, 4, 0, 3)}},
    {.name = "wide_range", .n_inputs = 1, .inputs = {BETWEEN(F32, -85, 85, 1021)}},
    {.name = "bf16", .n_inputs = 1, .inputs = {TENSOR(BF16, 7, 133)}},
    {.name = "f16", .n_inputs = 1, .inputs = {TENSOR(F16, 7, 1031)}},
    {.name = "feed_forward_demo", .n_inputs = 1, .inputs = {TENSOR(F32, 1, 288, 1024)}, .flags = GRAFT_CASE_BENCH},
    {.name = "autoencoder_256", .n_inputs = 1, .inputs = {TENSOR(F32, 1, 128, 256, 256)}, .flags = GRAFT_CASE_BENCH},
};

static const graft_gelu_attrs exact = {.tanh_approximation = false};
static const graft_gelu_attrs approximate = {.tanh_approximation = true};

const graft_op_case graft_gelu_cases[GRAFT_GELU_N_CASES] = {
    {.name = "odd", .attrs = &exact, .n_inputs = 1, .inputs = {TENSOR(F32, 5, 31)}},
    {.name = "odd_tanh", .attrs = &approximate, .n_inputs = 1, .inputs = {TENSOR(F32, 5, 31)}},
    {.name = "wide_range", .attrs = &exact, .n_inputs = 1, .inputs = {BETWEEN(F32, -12, 12, 1021)}},
    {.name = "wide_range_tanh", .attrs = &approximate, .n_inputs = 1, .inputs = {BETWEEN(F32, -9, 9, 1021)}},
    {.name = "size_1_dimensions", .attrs = &exact, .n_inputs = 1, .inputs = {TENSOR(F32, 1, 7, 1)}},
    {.name = "empty", .attrs = &exact, .n_inputs = 1, .inputs = {TENSOR(F32, 0)}},
    {.name = "bf16_tanh", .attrs = &approximate, .n_inputs = 1, .inputs = {TENSOR(BF16, 3, 67)}},
    {.name = "f16", .attrs = &exact, .n_inputs = 1, .inputs = {TENSOR(F16, 3, 67)}},
    {.name = "feed_forward",
     .attrs = &exact,
     .n_inputs = 1,
     .inputs = {TENSOR(F32, 288, 4096)},
     .flags = GRAFT_CASE_BENCH},
    {.name = "feed_forward_tanh",
     .attrs = &approximate,
     .n_inputs = 1,
     .inputs = {TENSOR(F32, 288, 4096)},
     .flags = GRAFT_CASE_BENCH},
};

static const graft_scale_attrs halved = {.scale = 0.5};
static const graft_scale_attrs negated = {.scale = -1};
static const graft_scale_attrs to_latent = {.scale = 1 / 0.3611, .bias = 0.1159};
static const graft_scale_attrs shifted = {.scale = 1, .bias = -1};

const graft_op_case graft_scale_cases[GRAFT_SCALE_N_CASES] = {
    {.name = "odd", .attrs = &halved, .n_inputs = 1, .inputs = {TENSOR(F32, 7, 33)}},
    {.name = "negated", .attrs = &negated, .n_inputs = 1, .inputs = {TENSOR(F32, 260)}},
    {.name = "latent", .attrs = &to_latent, .n_inputs = 1, .inputs = {TENSOR(F32, 1, 16, 9, 11)}},
    {.name = "shifted", .attrs = &shifted, .n_inputs = 1, .inputs = {TENSOR(F32, 5, 4, 3)}},
    {.name = "scalar", .attrs = &shifted, .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32}}},
    {.name = "empty", .attrs = &halved, .n_inputs = 1, .inputs = {TENSOR(F32, 3, 0)}},
    {.name = "bf16", .attrs = &to_latent, .n_inputs = 1, .inputs = {TENSOR(BF16, 131)}},
    {.name = "f16", .attrs = &to_latent, .n_inputs = 1, .inputs = {TENSOR(F16, 131)}},
    {.name = "several_items", .attrs = &halved, .n_inputs = 1, .inputs = {TENSOR(F32, 2, 16387)}},
    {.name = "large",
     .attrs = &to_latent,
     .n_inputs = 1,
     .inputs = {TENSOR(F32, 1, 128, 256, 256)},
     .flags = GRAFT_CASE_BENCH},
};
