#include "ops/fused/upsample_conv2d/upsample_conv2d_cases.h"

#include "ops/common/cases.h"

#define CASE(text, channels, ...) \
  { .name = text, .n_inputs = 3, .inputs = {__VA_ARGS__}, .reduction = 9 * (channels) }
#define BENCH(text, channels, filters, size)                                                                          \
  {                                                                                                                   \
    .name = text, .n_inputs = 3,                                                                                      \
    .inputs = {TENSOR(F32, 1, channels, size, size), CONSTANT(F16, filters, channels, 3, 3), CONSTANT(F16, filters)}, \
    .reduction = 9 * (channels), .flags = GRAFT_CASE_BENCH                                                            \
  }

const graft_op_case graft_upsample_conv2d_cases[GRAFT_UPSAMPLE_CONV2D_N_CASES] = {
    CASE("bias", 3, TENSOR(F32, 2, 3, 5, 7), CONSTANT(F32, 4, 3, 3, 3), CONSTANT(F32, 4)),
    CASE("no_bias", 3, TENSOR(F32, 1, 3, 4, 6), CONSTANT(F32, 5, 3, 3, 3), OMITTED),
    CASE("one_pixel", 3, TENSOR(F32, 1, 3, 1, 1), CONSTANT(F32, 2, 3, 3, 3), CONSTANT(F32, 2)),
    CASE("one_column", 2, TENSOR(F32, 1, 2, 9, 1), CONSTANT(F32, 3, 2, 3, 3), CONSTANT(F32, 3)),
    CASE("one_row", 2, TENSOR(F32, 1, 2, 1, 33), CONSTANT(F32, 3, 2, 3, 3), CONSTANT(F32, 3)),
    CASE("many_channels", 67, TENSOR(F32, 1, 67, 9, 11), CONSTANT(BF16, 35, 67, 3, 3), CONSTANT(F32, 35)),
    CASE("many_pixels", 9, TENSOR(F32, 1, 9, 70, 66), CONSTANT(F16, 17, 9, 3, 3), CONSTANT(F16, 17)),
    CASE("no_images", 3, TENSOR(F32, 0, 3, 5, 5), CONSTANT(F32, 2, 3, 3, 3), CONSTANT(F32, 2)),
    CASE("computed_weight", 3, TENSOR(F32, 1, 3, 5, 6), TENSOR(F32, 4, 3, 3, 3), TENSOR(F32, 4)),
    CASE("bf16_all", 6, TENSOR(BF16, 1, 6, 7, 9), CONSTANT(BF16, 5, 6, 3, 3), CONSTANT(BF16, 5)),
    BENCH("vae_demo_at_32", 128, 128, 32),
    BENCH("vae_demo_at_64", 128, 128, 64),
    BENCH("vae_512_at_64", 512, 512, 64),
    BENCH("vae_demo_at_128", 64, 64, 128),  // several bands of rows and several portions of filters
};
