#include "ops/linear_i8/linear_i8_cases.h"

#include "ops/common/cases.h"
#include "ops/linear_i8/linear_i8.h"

// Sums are exact and every rounding is prescribed: kernels give the reference's bytes.
#define ATTRS(...) (&(const graft_linear_i8_attrs){__VA_ARGS__})
#define BYTES(...) INTEGERS(I8, -128, 128, __VA_ARGS__)
#define SCALES(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = 0.001, .high = 0.02 }
#define WEIGHT(...) \
  { TENSOR_LIKE(I8, __VA_ARGS__), .fill = GRAFT_FILL_INTEGERS, .low = -128, .high = 128, .is_constant = true }
#define WEIGHT_SCALES(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = 0.001, .high = 0.02, .is_constant = true }
#define ALL_LOWEST(...) \
  { TENSOR_LIKE(I8, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = -128 }
#define LOWEST_WEIGHT(...) \
  { TENSOR_LIKE(I8, __VA_ARGS__), .fill = GRAFT_FILL_CONSTANT, .low = -128, .is_constant = true }
#define SCALAR \
  { .dtype = GRAFT_F32, .fill = GRAFT_FILL_UNIFORM, .low = 0.001, .high = 0.02, .is_constant = true }
#define CASE(text, attributes, ...) \
  { .name = text, .attrs = attributes, .n_inputs = 5, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_EXACT }
#define BENCH(text, ...) \
  { .name = text, .attrs = ATTRS(.group = 256), .n_inputs = 5, .inputs = {__VA_ARGS__}, .flags = GRAFT_CASE_BENCH }

const graft_op_case graft_linear_i8_cases[GRAFT_LINEAR_I8_N_CASES] = {
    CASE("separate", ATTRS(.group = 1), BYTES(5, 7), SCALES(5, 1), WEIGHT(3, 7), WEIGHT_SCALES(3), CONSTANT(F32, 3)),
    CASE("scales_as_vector", ATTRS(.group = 1), BYTES(2, 3, 16), SCALES(6), WEIGHT(33, 16), WEIGHT_SCALES(33, 1),
         OMITTED),
    CASE("one_scale", ATTRS(.group = 1), BYTES(9, 40), SCALES(1), WEIGHT(17, 40), WEIGHT_SCALES(1), CONSTANT(F32, 17)),
    CASE("scalars", ATTRS(.group = 1), BYTES(3, 20), SCALES(1), WEIGHT(8, 20), SCALAR, OMITTED),
    CASE("no_weight_scale", ATTRS(.group = 1), BYTES(4, 129), SCALES(4, 1), WEIGHT(67, 129), OMITTED,
         CONSTANT(F32, 67)),
    CASE("vector", ATTRS(.group = 1), BYTES(37), SCALES(1), WEIGHT(13, 37), WEIGHT_SCALES(13), OMITTED),
    CASE("computed_weight", ATTRS(.group = 1), BYTES(21, 65), SCALES(21, 1), BYTES(39, 65), SCALES(39), OMITTED),
    CASE("lowest_bytes", ATTRS(.group = 1), ALL_LOWEST(15, 260), SCALES(15, 1), LOWEST_WEIGHT(35, 260),
         WEIGHT_SCALES(35), OMITTED),
    // The longest row whose sum fits in 32 bits, one more, and several chunks, all of -128.
    CASE("longest_in_32_bits", ATTRS(.group = 1), ALL_LOWEST(2, 131071), SCALES(2, 1), LOWEST_WEIGHT(2, 131071),
         WEIGHT_SCALES(2), OMITTED),
    CASE("beyond_32_bits", ATTRS(.group = 1), ALL_LOWEST(1, 131072), SCALES(1, 1), LOWEST_WEIGHT(3, 131072), OMITTED,
         OMITTED),
    CASE("several_chunks", ATTRS(.group = 1), BYTES(3, 300007), SCALES(3, 1), WEIGHT(5, 300007), WEIGHT_SCALES(5),
         CONSTANT(F32, 5)),
    CASE("more_than_a_block", ATTRS(.group = 1), BYTES(67, 2049), SCALES(67, 1), WEIGHT(259, 2049), WEIGHT_SCALES(259),
         CONSTANT(F32, 259)),
    CASE("several_tiles", ATTRS(.group = 1), BYTES(150, 208), SCALES(150, 1), WEIGHT(262, 208), WEIGHT_SCALES(262),
         CONSTANT(F32, 262)),
    CASE("no_rows", ATTRS(.group = 1), BYTES(0, 8), SCALES(0, 1), WEIGHT(5, 8), WEIGHT_SCALES(5), OMITTED),
    CASE("no_columns", ATTRS(.group = 1), BYTES(3, 8), SCALES(3, 1), WEIGHT(0, 8), OMITTED, OMITTED),
    CASE("no_terms", ATTRS(.group = 1), BYTES(3, 0), SCALES(3, 1), WEIGHT(5, 0), WEIGHT_SCALES(5), CONSTANT(F32, 5)),
    CASE("packed", ATTRS(.group = 1, .packed_rows = 6), BYTES(8, 40), OMITTED, WEIGHT(11, 36), WEIGHT_SCALES(11),
         CONSTANT(F32, 11)),
    CASE("packed_16", ATTRS(.group = 1, .packed_rows = 5), BYTES(8, 36), OMITTED, WEIGHT(70, 32), WEIGHT_SCALES(70),
         OMITTED),
    CASE("floats", ATTRS(.group = 1), TENSOR(F32, 5, 33), OMITTED, WEIGHT(19, 33), WEIGHT_SCALES(19),
         CONSTANT(F32, 19)),
    CASE("rotated_16", ATTRS(.group = 16), TENSOR(F32, 2, 9, 48), OMITTED, WEIGHT(35, 48), WEIGHT_SCALES(35, 1),
         OMITTED),
    CASE("rotated_256", ATTRS(.group = 256), TENSOR(F32, 30, 512), OMITTED, WEIGHT(70, 512), WEIGHT_SCALES(70),
         CONSTANT(BF16, 70)),
    CASE("to_bf16", ATTRS(.group = 4, .y_dtype = GRAFT_BF16), TENSOR(F32, 3, 20), OMITTED, WEIGHT(18, 20),
         WEIGHT_SCALES(18), CONSTANT(F32, 18)),
    CASE("from_f16", ATTRS(.group = 4), TENSOR(F16, 3, 20), OMITTED, WEIGHT(18, 20), WEIGHT_SCALES(18),
         CONSTANT(F16, 18)),
    CASE("comfy", ATTRS(.group = 64, .grid = GRAFT_QUANTIZE_BF16, .order = GRAFT_LINEAR_I8_COMFY), TENSOR(BF16, 6, 128),
         OMITTED, WEIGHT(37, 128), WEIGHT_SCALES(37, 1), CONSTANT(BF16, 37)),
    CASE("comfy_f32", ATTRS(.group = 1, .order = GRAFT_LINEAR_I8_COMFY), BYTES(6, 24), SCALES(6, 1), WEIGHT(37, 24),
         WEIGHT_SCALES(37, 1), CONSTANT(F32, 37)),
    CASE("float_weight", ATTRS(.group = 16), TENSOR(F32, 9, 48), OMITTED, CONSTANT(F32, 71, 48), OMITTED,
         CONSTANT(F32, 71)),
    CASE("float_weight_only", ATTRS(.group = 4), BYTES(5, 20), SCALES(5, 1), CONSTANT(BF16, 33, 20), OMITTED, OMITTED),
    CASE("float_weight_comfy", ATTRS(.group = 64, .grid = GRAFT_QUANTIZE_BF16, .order = GRAFT_LINEAR_I8_COMFY),
         TENSOR(BF16, 3, 64), OMITTED, CONSTANT(BF16, 40, 64), OMITTED, CONSTANT(BF16, 40)),
    CASE("computed_float_weight", ATTRS(.group = 1), TENSOR(F32, 4, 17), OMITTED, TENSOR(F32, 6, 17), OMITTED, OMITTED),
    BENCH("zimage_attention", TENSOR(F32, 1, 4224, 3840), OMITTED, WEIGHT(3840, 3840), WEIGHT_SCALES(3840, 1), OMITTED),
    BENCH("zimage_attention_512", TENSOR(F32, 1, 512, 3840), OMITTED, WEIGHT(3840, 3840), WEIGHT_SCALES(3840, 1),
          OMITTED),
    BENCH("zimage_up", TENSOR(F32, 1, 4224, 3840), OMITTED, WEIGHT(10240, 3840), WEIGHT_SCALES(10240, 1), OMITTED),
    BENCH("zimage_quantized", BYTES(1, 512, 3840), SCALES(512, 1), WEIGHT(3840, 3840), WEIGHT_SCALES(3840, 1), OMITTED),
    BENCH("zimage_up_quantized", BYTES(1, 4224, 3840), SCALES(4224, 1), WEIGHT(10240, 3840), WEIGHT_SCALES(10240, 1),
          OMITTED),
    BENCH("rows_300_quantized", BYTES(1, 300, 384), SCALES(300, 1), WEIGHT(1024, 384), WEIGHT_SCALES(1024, 1), OMITTED),
    BENCH("zimage_demo_up", TENSOR(F32, 1, 288, 256), OMITTED, WEIGHT(1024, 256), WEIGHT_SCALES(1024, 1), OMITTED),
    BENCH("zimage_demo_down", TENSOR(F32, 1, 288, 1024), OMITTED, WEIGHT(384, 1024), WEIGHT_SCALES(384, 1), OMITTED),
    BENCH("zimage_demo_modulation", TENSOR(F32, 1, 256), OMITTED, WEIGHT(1536, 256), WEIGHT_SCALES(1536, 1),
          CONSTANT(F32, 1536)),
};
