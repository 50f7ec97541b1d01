// matmul_attention.h — attention as it is written out with matrix products, without ever holding all scores
// ("graft.matmul_attention.v1").
#ifndef GRAFT_OPS_FUSED_MATMUL_ATTENTION_MATMUL_ATTENTION_H
#define GRAFT_OPS_FUSED_MATMUL_ATTENTION_MATMUL_ATTENTION_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_matmul_attention_attrs {
  double scale;  // of the scores; a finite float32 number; default 1
} graft_matmul_attention_attrs;

// matmul(softmax(scale · matmul(q, k) + mask), v): q [..., Lq, D], k [..., D, Lk], that is, transposed, v [..., Lk,
// Dv], with the same dimensions before the last two, at most two of them; |mask| broadcasts into the scores [..., Lq,
// Lk], or is graft_graph_none(). Maths in f32. Where a query's scores are -∞ throughout, kernels may give 0 instead of
// the NaN of the operators apart. Fusion rule "matmul_attention". Failures: sizes that do not fit together, a mask that
// does not broadcast, a scale that is no finite float32 number.
GRAFT_API graft_tensor *graft_matmul_attention(graft_graph *graph, graft_tensor *q, graft_tensor *k, graft_tensor *v,
                                               graft_tensor *mask, double scale);

#ifdef __cplusplus
}
#endif

#endif
