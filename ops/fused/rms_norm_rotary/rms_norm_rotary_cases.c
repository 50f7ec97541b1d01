#include "ops/fused/rms_norm_rotary/rms_norm_rotary_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

static const graft_rms_norm_rotary_attrs pairs = {.eps = 1e-5};
static const graft_rms_norm_rotary_attrs halves = {.eps = 1e-6, .style = GRAFT_ROTARY_HALF};
static const graft_rms_norm_rotary_attrs scaled = {.eps = 1e-5, .scale = 0.125};
static const graft_rms_norm_rotary_attrs to_f16 = {.eps = 1e-5, .dtype = GRAFT_F16};
static const graft_rms_norm_rotary_attrs scaled_to_bf16 = {
    .eps = 1e-6, .style = GRAFT_ROTARY_HALF, .scale = -0.3, .dtype = GRAFT_BF16};
static const graft_rms_norm_rotary_attrs halves_to_f32 = {.eps = 1e-6, .style = GRAFT_ROTARY_HALF, .dtype = GRAFT_F32};
static const graft_rms_norm_rotary_attrs scaled_to_f16 = {.eps = 1e-5, .scale = 0.0883883, .dtype = GRAFT_F16};

#define ROTARY(a, d) .attrs = &(a), .n_inputs = 3, .reduction = (d)
#define TABLE(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = -1, .high = 1 }
#define BENCH .flags = GRAFT_CASE_BENCH

const graft_op_case graft_rms_norm_rotary_cases[GRAFT_RMS_NORM_ROTARY_N_CASES] = {
    {.name = "odd", ROTARY(pairs, 6), .inputs = {TENSOR(F32, 2, 5, 3, 6), TENSOR(F32, 6), TABLE(5, 3, 2)}},
    {.name = "no_weight", ROTARY(pairs, 6), .inputs = {TENSOR(F32, 2, 5, 3, 6), OMITTED, TABLE(5, 3, 2)}},
    {.name = "half_odd", ROTARY(halves, 6), .inputs = {TENSOR(F32, 2, 5, 3, 6), TENSOR(F32, 6), TABLE(5, 3, 2)}},
    {.name = "pair", ROTARY(pairs, 2), .inputs = {TENSOR(F32, 1, 1, 1, 2), TENSOR(F32, 2), TABLE(1, 1, 2)}},
    {.name = "longer_table",
     ROTARY(pairs, 64),
     .inputs = {TENSOR(F32, 1, 33, 2, 64), TENSOR(F32, 64), TABLE(64, 32, 2)}},
    {.name = "half_longer_table",
     ROTARY(halves, 64),
     .inputs = {TENSOR(F32, 1, 33, 2, 64), CONSTANT(F32, 64), TABLE(64, 32, 2)}},
    {.name = "partial", ROTARY(pairs, 128), .inputs = {TENSOR(F32, 1, 7, 2, 128), TENSOR(F32, 128), TABLE(7, 32, 2)}},
    {.name = "half_partial", ROTARY(halves, 128), .inputs = {TENSOR(F32, 1, 7, 2, 128), OMITTED, TABLE(7, 32, 2)}},
    {.name = "ragged", ROTARY(pairs, 71), .inputs = {TENSOR(F32, 1, 3, 2, 71), TENSOR(F32, 71), TABLE(3, 19, 2)}},
    {.name = "half_ragged", ROTARY(halves, 71), .inputs = {TENSOR(F32, 1, 3, 2, 71), TENSOR(F32, 71), TABLE(3, 19, 2)}},
    {.name = "table_per_item",
     ROTARY(pairs, 32),
     .inputs = {TENSOR(F32, 3, 5, 2, 32), TENSOR(F32, 32), TABLE(3, 5, 16, 2)}},
    {.name = "nothing_rotated", ROTARY(pairs, 8), .inputs = {TENSOR(F32, 1, 4, 2, 8), TENSOR(F32, 8), TABLE(4, 0, 2)}},
    {.name = "many_heads", ROTARY(pairs, 8), .inputs = {TENSOR(F32, 1, 3, 131, 8), TENSOR(F32, 8), TABLE(3, 4, 2)}},
    {.name = "no_positions", ROTARY(pairs, 8), .inputs = {TENSOR(F32, 1, 0, 2, 8), TENSOR(F32, 8), TABLE(3, 4, 2)}},
    {.name = "bf16_weight",
     ROTARY(halves, 34),
     .inputs = {TENSOR(F32, 1, 9, 2, 34), CONSTANT(BF16, 34), TABLE(9, 17, 2)}},
    {.name = "bf16", ROTARY(pairs, 32), .inputs = {TENSOR(BF16, 1, 9, 2, 32), TENSOR(BF16, 32), TABLE(9, 16, 2)}},
    {.name = "scaled", ROTARY(scaled, 71), .inputs = {TENSOR(F32, 1, 5, 3, 71), TENSOR(F32, 71), TABLE(5, 19, 2)}},
    {.name = "scaled_no_weight", ROTARY(scaled, 6), .inputs = {TENSOR(F32, 2, 5, 3, 6), OMITTED, TABLE(5, 3, 2)}},
    {.name = "to_f16", ROTARY(to_f16, 38), .inputs = {TENSOR(F32, 2, 5, 5, 38), CONSTANT(F32, 38), TABLE(5, 17, 2)}},
    {.name = "bf16_to_f16", ROTARY(to_f16, 6), .inputs = {TENSOR(BF16, 2, 5, 3, 6), TENSOR(BF16, 6), TABLE(5, 3, 2)}},
    {.name = "scaled_to_bf16",
     ROTARY(scaled_to_bf16, 71),
     .inputs = {TENSOR(F32, 1, 7, 2, 71), TENSOR(F16, 71), TABLE(7, 19, 2)}},
    {.name = "scaled_to_f16",
     ROTARY(scaled_to_f16, 128),
     .inputs = {TENSOR(F32, 2, 3, 2, 128), OMITTED, TABLE(2, 3, 64, 2)}},
    {.name = "halves_to_bf16",
     ROTARY(scaled_to_bf16, 64),
     .inputs = {TENSOR(F32, 1, 7, 3, 64), TENSOR(F32, 64), TABLE(7, 32, 2)}},
    {.name = "bf16_pairs_to_f16",
     ROTARY(to_f16, 32),
     .inputs = {TENSOR(BF16, 1, 9, 5, 32), TENSOR(BF16, 32), TABLE(9, 16, 2)}},
    {.name = "f16_halves_to_f32",
     ROTARY(halves_to_f32, 32),
     .inputs = {TENSOR(F16, 2, 3, 2, 32), OMITTED, TABLE(3, 16, 2)}},
    {.name = "zimage_demo",
     ROTARY(pairs, 128),
     .inputs = {TENSOR(F32, 1, 288, 3, 128), CONSTANT(F32, 128), TABLE(288, 64, 2)},
     BENCH},
    {.name = "text_encoder",
     ROTARY(halves, 128),
     .inputs = {TENSOR(F32, 1, 512, 32, 128), CONSTANT(BF16, 128), TABLE(512, 64, 2)},
     BENCH},
    {.name = "zimage",
     ROTARY(pairs, 128),
     .inputs = {TENSOR(F32, 1, 4224, 30, 128), CONSTANT(BF16, 128), TABLE(4224, 64, 2)},
     BENCH},
    {.name = "zimage_to_f16",
     ROTARY(scaled_to_f16, 128),
     .inputs = {TENSOR(F32, 1, 4224, 30, 128), CONSTANT(BF16, 128), TABLE(4224, 64, 2)},
     BENCH},
    {.name = "zimage_of_4",
     ROTARY(pairs, 128),
     .inputs = {TENSOR(F32, 4, 4224, 30, 128), CONSTANT(BF16, 128), TABLE(4224, 64, 2)},
     BENCH},
};
