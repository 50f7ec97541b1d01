// upsample_nearest.h — enlarges images by repeating pixels ("graft.upsample_nearest.v1").
#ifndef GRAFT_OPS_UPSAMPLE_NEAREST_UPSAMPLE_NEAREST_H
#define GRAFT_OPS_UPSAMPLE_NEAREST_UPSAMPLE_NEAREST_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_upsample_attrs {
  int64_t scale_h, scale_w;
} graft_upsample_attrs;

// x [N, C, H, W] → [N, C, H · scale_h, W · scale_w] with y[…, i, j] = x[…, i / scale_h, j / scale_w]. Any dtype whose
// elements are stored one by one; bytes are kept.
// Failures: rank other than 4, a scale below 1, the size overflows.
GRAFT_API graft_tensor *graft_upsample_nearest(graft_graph *graph, graft_tensor *x, int64_t scale_h, int64_t scale_w);

#ifdef __cplusplus
}
#endif

#endif
