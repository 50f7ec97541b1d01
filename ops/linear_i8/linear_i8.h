// linear_i8.h — y = x · weightᵀ + bias with int8 operands and exact integer sums ("graft.linear_i8.v1").
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_H

#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

#ifdef __cplusplus
extern "C" {
#endif

// How an exact sum becomes a number. All products and sums are float32 and rounded one by one.
typedef enum graft_linear_i8_order {
  GRAFT_LINEAR_I8_PLAIN = 0,  // float(sum) · x_scale · weight_scale + bias
  // float(sum) · (x_scale · weight_scale), rounded to y's dtype, + bias rounded to y's dtype: ComfyUI's
  GRAFT_LINEAR_I8_COMFY,
} graft_linear_i8_order;

typedef struct graft_linear_i8_attrs {
  int64_t group;        // of the rotation of a float x and a float weight; 1: none. Of no effect on int8
  int32_t grid;         // graft_quantize_grid, likewise
  int32_t order;        // graft_linear_i8_order
  graft_dtype y_dtype;  // NULL: x's where that is a float, else f32
  int64_t packed_rows;  // 0, or the number of rows in a packed x
} graft_linear_i8_attrs;

// How attributes begin of operators that go on with the rows of a product.
typedef struct graft_linear_i8_rows_attrs {
  graft_linear_i8_attrs linear;  // of a packed x
  int64_t batch;                 // the product [packed_rows, N] is seen as [batch, packed_rows / batch, N]
} graft_linear_i8_rows_attrs;

typedef struct graft_linear_i8_inputs {
  // One of: any float [..., K], which is quantised row by row; i8 [..., K] with |x_scale|; i8 [P, K + 4] as
  // graft_quantize_convrot_i8_packed makes it, whose first |packed_rows| rows are used.
  graft_tensor *x;
  graft_tensor *x_scale;  // float with as many elements as x has rows, or 1; else none
  // i8 [N, K], rotated; or float [N, K], which is quantised like x: where it is a constant, once when it is packed.
  graft_tensor *weight;
  graft_tensor *weight_scale;  // of an i8 weight: float [N], [N, 1], [1] or []; none: 1
  graft_tensor *bias;          // float [N] or none
} graft_linear_i8_inputs;

// → [..., N], or [packed_rows, N]. Sums are exact for every K and every byte, -128 included.
// Failures: K of x and weight differ, scales or a bias of another size, a scale that is missing or not wanted, a group
// that does not divide K.
GRAFT_API graft_tensor *graft_linear_i8(graft_graph *graph, const graft_linear_i8_inputs *inputs,
                                        const graft_linear_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
