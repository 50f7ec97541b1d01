// rms_norm.h — scales each row to a root mean square of one: y = x / √(mean(x²) + eps) · weight, over the last
// dimension. Any float dtypes; the output has shape and dtype of |x|.
#ifndef GRAFT_OPS_RMS_NORM_H
#define GRAFT_OPS_RMS_NORM_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_rms_norm_attrs {
  double eps;  // finite, not negative; default 1e-5
} graft_rms_norm_attrs;

// |x| has shape [..., C], |weight| [C] or is graft_graph_none(). Operator "graft.rms_norm.v1". Failures stick to the
// graph (graph.h): shapes that do not fit, an eps that is negative or not finite.
GRAFT_API graft_tensor *graft_rms_norm(graft_graph *graph, graft_tensor *x, graft_tensor *weight, double eps);

#ifdef __cplusplus
}
#endif

#endif
