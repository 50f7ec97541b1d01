// upsample_conv2d.h — images enlarged twice and convolved, without the enlarged images ("graft.upsample_conv2d.v1").
#ifndef GRAFT_OPS_FUSED_UPSAMPLE_CONV2D_UPSAMPLE_CONV2D_H
#define GRAFT_OPS_FUSED_UPSAMPLE_CONV2D_UPSAMPLE_CONV2D_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// conv2d(upsample_nearest(x, 2, 2), weight, bias) padded by 1 all around: x [N, C, H, W], weight [O, C, 3, 3], bias [O]
// or graft_graph_none() → [N, O, 2 · H, 2 · W] in x's dtype. Any float dtypes, also mixed. Whether an infinite or NaN
// weight counts where it lies beyond the image is not promised (docs/numerics.md). Fusion rule "upsample_conv2d".
// Failures: those of upsample_nearest and of conv2d, a kernel that is not 3 × 3.
GRAFT_API graft_tensor *graft_upsample_conv2d(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                              graft_tensor *bias);

#ifdef __cplusplus
}
#endif

#endif
