// infer.h — the inference of operators that larger ones are made of.
#ifndef GRAFT_OPS_COMMON_INFER_H
#define GRAFT_OPS_COMMON_INFER_H

#include "graft/op.h"

// As graft_op_def.infer of the operators that they are named after. Thread-safe.
graft_status graft_infer_rms_norm(graft_infer_args *args);
graft_status graft_infer_layer_norm(graft_infer_args *args);
graft_status graft_infer_group_norm(graft_infer_args *args);
graft_status graft_infer_rotary_embedding(graft_infer_args *args);
graft_status graft_infer_concat(graft_infer_args *args);
graft_status graft_infer_linear(graft_infer_args *args);
graft_status graft_infer_linear_i8(graft_infer_args *args);
graft_status graft_infer_conv2d(graft_infer_args *args);
graft_status graft_infer_upsample_nearest(graft_infer_args *args);
graft_status graft_infer_swiglu(graft_infer_args *args);
graft_status graft_infer_scaled_dot_product_attention(graft_infer_args *args);
graft_status graft_infer_quantize_convrot_i8_packed(graft_infer_args *args);
graft_status graft_infer_rms_norm_rotary(graft_infer_args *args);
graft_status graft_infer_gated_residual(graft_infer_args *args);
graft_status graft_infer_gated_convrot_i8(graft_infer_args *args);

// Gives output 0 the plain float dtype |dtype|; NULL: leaves it as it is. Errors: GRAFT_E_INVALID. Thread-safe.
graft_status graft_infer_converted(graft_infer_args *args, graft_dtype dtype);

// Checks that input |input| (may be left out) broadcasts into output 0 without making it larger; |name| is what the
// sentence calls it. Errors: GRAFT_E_SHAPE. Thread-safe.
graft_status graft_infer_fits_output(const graft_infer_args *args, uint32_t input, const char *name);

#endif
