#include "ops/timestep_embedding/timestep_embedding_cases.h"

#include "ops/common/cases.h"
#include "ops/timestep_embedding/timestep_embedding.h"

static const graft_timestep_attrs dim_1 = {.dim = 1, .max_period = 10000, .scale = 1};
static const graft_timestep_attrs dim_2 = {.dim = 2, .max_period = 10000, .scale = 1};
static const graft_timestep_attrs dim_15 = {.dim = 15, .max_period = 10000, .scale = 1};
static const graft_timestep_attrs dim_16 = {.dim = 16, .max_period = 10000, .scale = 1};
static const graft_timestep_attrs dim_320 = {.dim = 320, .max_period = 10000, .scale = 1};
static const graft_timestep_attrs dim_256 = {.dim = 256, .max_period = 10000, .scale = 1};
static const graft_timestep_attrs scaled = {.dim = 256, .max_period = 10000, .scale = 1000};
static const graft_timestep_attrs short_period = {.dim = 7, .max_period = 3.5, .scale = -2};

const graft_op_case graft_timestep_embedding_cases[GRAFT_TIMESTEP_EMBEDDING_N_CASES] = {
    {.name = "dim_1",
     .attrs = &dim_1,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 3), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "dim_2",
     .attrs = &dim_2,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 3), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "dim_15",
     .attrs = &dim_15,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 3), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "dim_16",
     .attrs = &dim_16,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 3), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "dim_320",
     .attrs = &dim_320,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 3), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "dim_256",
     .attrs = &dim_256,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 3), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "scaled",
     .attrs = &scaled,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 2), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 1}}},
    {.name = "short_period",
     .attrs = &short_period,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 5), .fill = GRAFT_FILL_UNIFORM, .low = -3, .high = 3}}},
    {.name = "none",
     .attrs = &dim_16,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 0), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "many",
     .attrs = &dim_15,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 67), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 999}}},
    {.name = "defaults", .n_inputs = 1, .inputs = {TENSOR(F32, 3)}},
    {.name = "zimage",
     .attrs = &scaled,
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 1), .fill = GRAFT_FILL_UNIFORM, .low = 0, .high = 1}},
     .flags = GRAFT_CASE_BENCH},
};
