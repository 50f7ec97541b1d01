// conv2d.h — two-dimensional convolution over images in planes ("graft.conv2d.v1").
#ifndef GRAFT_OPS_CONV2D_CONV2D_H
#define GRAFT_OPS_CONV2D_CONV2D_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// In elements. Padding is zeros.
typedef struct graft_conv2d_attrs {
  int64_t stride[2];    // down, across
  int64_t padding[4];   // top, bottom, left, right
  int64_t dilation[2];  // down, across
  int64_t groups;
} graft_conv2d_attrs;

// x [N, C, H, W], weight [O, C / groups, kh, kw], bias [O] or graft_graph_none() → [N, O, H', W'] in x's dtype, where
// H' = (H + top + bottom - dilation · (kh - 1) - 1) / stride + 1, rounded down. Any float dtypes, also mixed. The
// kernel is not mirrored, as everywhere in deep learning. |attrs| NULL: stride 1, no padding, dilation 1, one group. A
// stride, dilation or groups of 0 stands for 1. Failures: channels that do not fit together, a kernel larger than the
// padded image, negative attributes.
GRAFT_API graft_tensor *graft_conv2d(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                                     const graft_conv2d_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
