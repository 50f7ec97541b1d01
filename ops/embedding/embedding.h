// embedding.h — rows of a table by index ("graft.embedding.v1").
#ifndef GRAFT_OPS_EMBEDDING_EMBEDDING_H
#define GRAFT_OPS_EMBEDDING_EMBEDDING_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_embedding_attrs {
  graft_dtype dtype;  // of the result
} graft_embedding_attrs;

// ids i32 or i64 [...], table [V, D] of any float dtype → |dtype| (a float) [..., D].
// Failures: other dtypes or ranks. An index outside 0 … V - 1 fails the run with GRAFT_E_INVALID, naming index and V.
GRAFT_API graft_tensor *graft_embedding(graft_graph *graph, graft_tensor *ids, graft_tensor *table, graft_dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
