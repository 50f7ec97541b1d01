#include "ops/fused/conv2d_epilogue/conv2d_epilogue_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/conv2d_epilogue/conv2d_epilogue.h"

#define SAME .stride = {1, 1}, .padding = {1, 1, 1, 1}, .dilation = {1, 1}

static const graft_conv2d_epilogue_attrs same = {.conv = {SAME, .groups = 1}};
static const graft_conv2d_epilogue_attrs silu = {.conv = {SAME, .groups = 1}, .activation = GRAFT_EPILOGUE_SILU};
static const graft_conv2d_epilogue_attrs gelu = {.conv = {SAME, .groups = 1}, .activation = GRAFT_EPILOGUE_GELU};
static const graft_conv2d_epilogue_attrs grouped = {.conv = {SAME, .groups = 2}};
static const graft_conv2d_epilogue_attrs halved = {
    .conv = {.stride = {2, 2}, .padding = {0, 1, 0, 1}, .dilation = {1, 1}, .groups = 1}, .dtype = GRAFT_BF16};
static const graft_conv2d_epilogue_attrs pointwise = {.conv = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1},
                                                      .activation = GRAFT_EPILOGUE_GELU_TANH};

#define CONV(a, k) .attrs = &(a), .n_inputs = 5, .reduction = (k)
#define BENCH .flags = GRAFT_CASE_BENCH
#define X(...) TENSOR(F32, __VA_ARGS__)
#define W(...) CONSTANT(F32, __VA_ARGS__)

const graft_op_case graft_conv2d_epilogue_cases[GRAFT_CONV2D_EPILOGUE_N_CASES] = {
    {.name = "residual", CONV(same, 27), .inputs = {X(2, 3, 7, 9), W(5, 3, 3, 3), W(5), OMITTED, X(2, 5, 7, 9)}},
    {.name = "silu", CONV(silu, 27), .inputs = {X(1, 3, 7, 9), W(5, 3, 3, 3), W(5), OMITTED, OMITTED}},
    {.name = "gelu_residual",
     CONV(gelu, 36),
     .inputs = {X(1, 4, 5, 6), W(7, 4, 3, 3), OMITTED, OMITTED, X(1, 7, 5, 6)}},
    {.name = "pointwise",
     CONV(pointwise, 11),
     .inputs = {X(2, 11, 5, 6), W(7, 11, 1, 1), W(7), OMITTED, X(2, 7, 5, 6)}},
    {.name = "grouped", CONV(grouped, 27), .inputs = {X(2, 6, 7, 5), W(4, 3, 3, 3), W(4), OMITTED, X(2, 4, 7, 5)}},
    {.name = "halved_to_bf16", CONV(halved, 27), .inputs = {X(1, 3, 8, 10), W(5, 3, 3, 3), W(5), OMITTED, OMITTED}},
    {.name = "gate", CONV(same, 27), .inputs = {X(2, 3, 7, 9), W(5, 3, 3, 3), W(5), X(2, 5, 7, 9), X(2, 5, 7, 9)}},
    {.name = "gate_per_channel", CONV(same, 27), .inputs = {X(2, 3, 7, 9), W(5, 3, 3, 3), W(5), X(5, 1, 1), OMITTED}},
    {.name = "silu_residual",
     CONV(silu, 27),
     .inputs = {X(2, 3, 6, 8), W(67, 3, 3, 3), W(67), OMITTED, X(2, 67, 6, 8)}},
    {.name = "no_images", CONV(same, 27), .inputs = {X(0, 3, 7, 9), W(5, 3, 3, 3), W(5), OMITTED, X(0, 5, 7, 9)}},
    {.name = "autoencoder_demo",
     CONV(same, 576),
     .inputs = {X(1, 64, 64, 64), W(64, 64, 3, 3), W(64), OMITTED, X(1, 64, 64, 64)},
     BENCH},
    {.name = "autoencoder_256",
     CONV(same, 2304),
     .inputs = {X(1, 256, 128, 128), W(256, 256, 3, 3), W(256), OMITTED, X(1, 256, 128, 128)},
     BENCH},
};
