#include "ops/fused/matmul_attention/matmul_attention_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/matmul_attention/matmul_attention.h"

static const graft_matmul_attention_attrs eighth = {.scale = 0.125};
static const graft_matmul_attention_attrs plain = {.scale = 1};

#define ATTENTION(a, n) .attrs = &(a), .n_inputs = 4, .reduction = (n)
#define BENCH .flags = GRAFT_CASE_BENCH
#define X(...) TENSOR(F32, __VA_ARGS__)
// Queries whose scores are not scaled, or are rounded to 16 bits on the way: scores stay small however long heads are
// drawn at random, and with them their rounding, which exp turns into relative errors.
#define SMALL(type, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = -0.25, .high = 0.25 }

const graft_op_case graft_matmul_attention_cases[GRAFT_MATMUL_ATTENTION_N_CASES] = {
    {.name = "scaled", ATTENTION(eighth, 37), .inputs = {X(2, 3, 9, 8), X(2, 3, 8, 37), X(2, 3, 37, 5), OMITTED}},
    {.name = "masked", ATTENTION(eighth, 37), .inputs = {X(2, 3, 9, 8), X(2, 3, 8, 37), X(2, 3, 37, 5), X(9, 37)}},
    {.name = "unscaled",
     ATTENTION(plain, 21),
     .inputs = {SMALL(F32, 2, 3, 9, 4), X(2, 3, 4, 21), X(2, 3, 21, 5), OMITTED}},
    {.name = "unscaled_masked",
     ATTENTION(plain, 21),
     .inputs = {SMALL(F32, 2, 3, 9, 4), X(2, 3, 4, 21), X(2, 3, 21, 5), X(9, 21)}},
    {.name = "no_batch", ATTENTION(eighth, 130), .inputs = {X(3, 33, 16), X(3, 16, 130), X(3, 130, 16), X(3, 1, 130)}},
    {.name = "no_heads", ATTENTION(eighth, 65), .inputs = {X(33, 16), X(16, 65), X(65, 16), X(65)}},
    {.name = "mask_per_item",
     ATTENTION(eighth, 33),
     .inputs = {X(2, 2, 5, 8), X(2, 2, 8, 33), X(2, 2, 33, 8), X(2, 1, 5, 33)}},
    {.name = "mask_per_query",
     ATTENTION(eighth, 33),
     .inputs = {X(2, 2, 5, 8), X(2, 2, 8, 33), X(2, 2, 33, 8), X(5, 1)}},
    {.name = "one_of_each",
     ATTENTION(plain, 1),
     .inputs = {SMALL(F32, 1, 1, 1, 1), X(1, 1, 1, 1), X(1, 1, 1, 1), OMITTED}},
    {.name = "several_blocks",
     ATTENTION(eighth, 700),
     .inputs = {X(1, 2, 40, 24), X(1, 2, 24, 700), X(1, 2, 700, 24), X(40, 700)}},
    {.name = "empty", ATTENTION(eighth, 8), .inputs = {X(1, 2, 0, 8), X(1, 2, 8, 9), X(1, 2, 9, 8), OMITTED}},
    {.name = "bf16",
     ATTENTION(eighth, 37),
     .inputs = {SMALL(BF16, 1, 2, 9, 8), TENSOR(BF16, 1, 2, 8, 37), TENSOR(BF16, 1, 2, 37, 8), OMITTED}},
    {.name = "zimage_demo",
     ATTENTION(eighth, 288),
     .inputs = {X(1, 3, 288, 128), X(1, 3, 128, 288), X(1, 3, 288, 128), OMITTED},
     BENCH},
    {.name = "zimage",
     ATTENTION(eighth, 1056),
     .inputs = {X(1, 30, 1056, 128), X(1, 30, 128, 1056), X(1, 30, 1056, 128), OMITTED},
     BENCH},
};
