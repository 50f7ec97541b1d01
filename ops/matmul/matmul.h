// matmul.h — product of two matrices, or of two batches of them ("graft.matmul.v1").
#ifndef GRAFT_OPS_MATMUL_MATMUL_H
#define GRAFT_OPS_MATMUL_MATMUL_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// a [..., M, K], b [..., K, N] → [..., M, N] in a's dtype. The dimensions before the last two are broadcast against
// each other as NumPy does. Any float dtypes, also mixed; sums are float32 or wider. Failures: rank below 2, K differs,
// batch dimensions that do not broadcast, a dtype that is no float.
GRAFT_API graft_tensor *graft_matmul(graft_graph *graph, graft_tensor *a, graft_tensor *b);

#ifdef __cplusplus
}
#endif

#endif
