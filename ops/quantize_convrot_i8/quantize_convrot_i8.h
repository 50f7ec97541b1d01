// quantize_convrot_i8.h — rows rotated in groups and quantised to int8 ("graft.quantize_convrot_i8.v1").
#ifndef GRAFT_OPS_QUANTIZE_CONVROT_I8_QUANTIZE_CONVROT_I8_H
#define GRAFT_OPS_QUANTIZE_CONVROT_I8_QUANTIZE_CONVROT_I8_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// On what grid scales and quotients are rounded before the last rounding.
typedef enum graft_quantize_grid {
  GRAFT_QUANTIZE_F32 = 0,  // none but float32's own: the precise one
  GRAFT_QUANTIZE_BF16,     // rotated values, scale as divisor and quotient are bf16, as ComfyUI computes with bf16
} graft_quantize_grid;

typedef struct graft_quantize_convrot_i8_attrs {
  int64_t group;  // of the rotation (ops/common/hadamard.h); 1: none
  int32_t grid;   // graft_quantize_grid
} graft_quantize_convrot_i8_attrs;

// The two results: q i8 [..., K] and scales f32 [..., 1].
typedef struct graft_quantized_pair {
  graft_tensor *q, *scale;
} graft_quantized_pair;

// x [..., K] of any float dtype. Each row is rotated in groups of |group| in float32; its scale is the largest absolute
// value / 127 and at least 1e-30; q is the quotient by the scale rounded to nearest, ties to even, within -128 … 127.
// A row with infinity or NaN has the scale NaN and q 0, so that products with it are NaN.
// Failures: a group that is no power of four or does not divide K, a dtype that is no float.
GRAFT_API graft_quantized_pair graft_quantize_convrot_i8(graft_graph *graph, graft_tensor *x,
                                                         const graft_quantize_convrot_i8_attrs *attrs);

// The same in one tensor ("graft.quantize_convrot_i8_packed.v1"): the M rows of x padded to P, a multiple of four, with
// rows of zeros, then P scales as f32, 0 behind the last row's. i8 [P, K + 4], which is the same number of bytes.
GRAFT_API graft_tensor *graft_quantize_convrot_i8_packed(graft_graph *graph, graft_tensor *x,
                                                         const graft_quantize_convrot_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
