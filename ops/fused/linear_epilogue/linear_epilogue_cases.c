#include "ops/fused/linear_epilogue/linear_epilogue_cases.h"

#include "ops/common/cases.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"

static const graft_linear_epilogue_attrs plain = {.activation = GRAFT_EPILOGUE_LINEAR};
static const graft_linear_epilogue_attrs silu = {.activation = GRAFT_EPILOGUE_SILU};
static const graft_linear_epilogue_attrs gelu = {.activation = GRAFT_EPILOGUE_GELU};
static const graft_linear_epilogue_attrs gelu_tanh = {.activation = GRAFT_EPILOGUE_GELU_TANH};
static const graft_linear_epilogue_attrs to_bf16 = {.dtype = GRAFT_BF16};
static const graft_linear_epilogue_attrs silu_to_f16 = {.activation = GRAFT_EPILOGUE_SILU, .dtype = GRAFT_F16};

#define LINEAR(a, k) .attrs = &(a), .n_inputs = 5, .reduction = (k)
#define BENCH .flags = GRAFT_CASE_BENCH
#define X(...) TENSOR(F32, __VA_ARGS__)
#define W(...) CONSTANT(F32, __VA_ARGS__)
#define HALF_W(...) CONSTANT(BF16, __VA_ARGS__)

const graft_op_case graft_linear_epilogue_cases[GRAFT_LINEAR_EPILOGUE_N_CASES] = {
    {.name = "silu", LINEAR(silu, 7), .inputs = {X(5, 7), W(33, 7), W(33), OMITTED, OMITTED}},
    {.name = "gelu", LINEAR(gelu, 31), .inputs = {X(5, 31), W(17, 31), W(17), OMITTED, OMITTED}},
    {.name = "gelu_tanh", LINEAR(gelu_tanh, 31), .inputs = {X(5, 31), W(17, 31), OMITTED, OMITTED, OMITTED}},
    {.name = "residual", LINEAR(plain, 65), .inputs = {X(2, 9, 65), W(67, 65), OMITTED, OMITTED, X(2, 9, 67)}},
    {.name = "gate", LINEAR(plain, 65), .inputs = {X(2, 9, 65), W(67, 65), OMITTED, X(2, 9, 67), OMITTED}},
    {.name = "repeated_rows", LINEAR(plain, 65), .inputs = {X(1, 9, 65), W(67, 65), W(67), X(1, 1, 67), X(67)}},
    {.name = "gate_per_item", LINEAR(plain, 65), .inputs = {X(2, 9, 65), W(67, 65), W(67), X(2, 1, 67), X(2, 9, 67)}},
    {.name = "everything", LINEAR(silu_to_f16, 129), .inputs = {X(19, 129), W(35, 129), W(35), X(19, 35), X(19, 35)}},
    {.name = "to_bf16", LINEAR(to_bf16, 33), .inputs = {X(19, 33), HALF_W(35, 33), OMITTED, OMITTED, OMITTED}},
    {.name = "swiglu", LINEAR(silu, 33), .inputs = {X(2, 9, 33), W(67, 33), OMITTED, X(2, 9, 67), OMITTED}},
    {.name = "one_row", LINEAR(silu, 300), .inputs = {X(1, 300), W(67, 300), W(67), OMITTED, X(1, 67)}},
    {.name = "more_than_a_block", LINEAR(plain, 513), .inputs = {X(67, 513), W(259, 513), W(259), OMITTED, X(67, 259)}},
    {.name = "no_terms", LINEAR(silu, 0), .inputs = {X(3, 0), W(5, 0), W(5), OMITTED, X(3, 5)}},
    {.name = "empty", LINEAR(silu, 8), .inputs = {X(0, 8), W(5, 8), W(5), OMITTED, X(0, 5)}},
    {.name = "bf16_all",
     LINEAR(silu, 77),
     .inputs = {TENSOR(BF16, 23, 77), HALF_W(41, 77), HALF_W(41), OMITTED, TENSOR(BF16, 23, 41)}},
    {.name = "text_encoder_demo_down",
     LINEAR(plain, 768),
     .inputs = {X(1, 64, 768), W(256, 768), OMITTED, OMITTED, X(1, 64, 256)},
     BENCH},
    {.name = "zimage_time", LINEAR(silu, 256), .inputs = {X(1, 256), W(1024, 256), W(1024), OMITTED, OMITTED}, BENCH},
    {.name = "zimage_demo_swiglu",
     LINEAR(silu, 384),
     .inputs = {X(1, 288, 384), W(1024, 384), OMITTED, X(1, 288, 1024), OMITTED},
     BENCH},
    {.name = "zimage_swiglu",
     LINEAR(silu, 3840),
     .inputs = {X(1, 1056, 3840), HALF_W(2560, 3840), OMITTED, X(1, 1056, 2560), OMITTED},
     BENCH},
    {.name = "text_encoder_down",
     LINEAR(plain, 9728),
     .inputs = {X(1, 512, 9728), HALF_W(2560, 9728), OMITTED, OMITTED, X(1, 512, 2560)},
     BENCH},
    {.name = "feed_forward_silu",
     LINEAR(silu, 3840),
     .inputs = {X(1, 1056, 3840), HALF_W(2560, 3840), OMITTED, OMITTED, OMITTED},
     BENCH},
};
