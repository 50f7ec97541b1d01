// timestep_embedding.h — sinusoidal embedding of time steps ("graft.timestep_embedding.v1").
#ifndef GRAFT_OPS_TIMESTEP_EMBEDDING_TIMESTEP_EMBEDDING_H
#define GRAFT_OPS_TIMESTEP_EMBEDDING_TIMESTEP_EMBEDDING_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_timestep_attrs {
  int64_t dim;
  double max_period;
  double scale;
} graft_timestep_attrs;

// t f32 [B] → f32 [B, dim] = [cos | sin] of scale · t · exp(-ln(max_period) · i / half) for i = 0 … half - 1, with
// half = dim / 2 rounded down. The last element of an odd dim is 0.
// Failures: dim below 1, max_period not positive or not finite, scale not finite, t no f32 vector.
GRAFT_API graft_tensor *graft_timestep_embedding(graft_graph *graph, graft_tensor *t, int64_t dim, double max_period,
                                                 double scale);

#ifdef __cplusplus
}
#endif

#endif
