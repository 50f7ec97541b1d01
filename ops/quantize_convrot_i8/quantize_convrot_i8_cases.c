#include "ops/quantize_convrot_i8/quantize_convrot_i8_cases.h"

#include "ops/common/cases.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

#define ATTRS(size, where) (&(const graft_quantize_convrot_i8_attrs){.group = (size), .grid = (where)})
#define CASE(text, size, ...)                                                                                    \
  {                                                                                                              \
    .name = text, .attrs = ATTRS(size, GRAFT_QUANTIZE_F32), .n_inputs = 1, .inputs = {TENSOR(F32, __VA_ARGS__)}, \
    .flags = GRAFT_CASE_EXACT                                                                                    \
  }
#define CASE_BF16(text, size, ...)                                                                                 \
  {                                                                                                                \
    .name = text, .attrs = ATTRS(size, GRAFT_QUANTIZE_BF16), .n_inputs = 1, .inputs = {TENSOR(BF16, __VA_ARGS__)}, \
    .flags = GRAFT_CASE_EXACT                                                                                      \
  }
#define BENCH(text, size, ...)                                                                                   \
  {                                                                                                              \
    .name = text, .attrs = ATTRS(size, GRAFT_QUANTIZE_F32), .n_inputs = 1, .inputs = {TENSOR(F32, __VA_ARGS__)}, \
    .flags = GRAFT_CASE_BENCH                                                                                    \
  }

const graft_op_case graft_quantize_convrot_i8_cases[GRAFT_QUANTIZE_CONVROT_I8_N_CASES] = {
    CASE("odd", 1, 5, 7),
    CASE("vector", 1, 33),
    CASE("one", 1, 1, 1),
    CASE("no_rows", 4, 0, 8),
    CASE("no_columns", 4, 3, 0),
    CASE("group_4", 4, 3, 20),
    CASE("group_16", 16, 2, 3, 48),
    CASE("group_64", 64, 5, 320),
    CASE("group_256", 256, 3, 512),
    CASE("group_1024", 1024, 2, 2048),
    CASE("group_4096", 4096, 1, 1, 2, 4096),
    CASE("long_rows", 4096, 3, 61440),
    {.name = "zero_rows",
     .attrs = ATTRS(16, GRAFT_QUANTIZE_F32),
     .n_inputs = 1,
     .inputs = {{TENSOR_LIKE(F32, 4, 32), .fill = GRAFT_FILL_CONSTANT, .low = 0}},
     .flags = GRAFT_CASE_EXACT},
    CASE_BF16("bf16_plain", 1, 5, 39),
    CASE_BF16("bf16_64", 64, 5, 128),
    CASE_BF16("bf16_256", 256, 7, 256),
    BENCH("zimage_attention", 256, 4224, 3840),
    BENCH("zimage_demo_down", 256, 1, 288, 1024),
};

const graft_op_case graft_quantize_convrot_i8_packed_cases[GRAFT_QUANTIZE_CONVROT_I8_PACKED_N_CASES] = {
    CASE("odd", 1, 5, 7),     CASE("whole", 16, 8, 32),           CASE("one", 4, 1, 4),
    CASE("no_rows", 4, 0, 8), CASE_BF16("bf16", 16, 6, 48),       CASE("rank_3", 16, 2, 3, 16),
    CASE("vector", 4, 20),    CASE("rank_3_no_rows", 4, 2, 0, 8),
};
