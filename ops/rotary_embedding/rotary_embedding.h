// rotary_embedding.h — rotates pairs of channels by angles from a table ("graft.rotary_embedding.v1").
#ifndef GRAFT_OPS_ROTARY_EMBEDDING_ROTARY_EMBEDDING_H
#define GRAFT_OPS_ROTARY_EMBEDDING_ROTARY_EMBEDDING_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum graft_rotary_style {
  GRAFT_ROTARY_INTERLEAVED = 0,  // pair i is channels 2i and 2i + 1
  GRAFT_ROTARY_HALF,             // pair i is channels i and i + R / 2
} graft_rotary_style;

typedef struct graft_rotary_attrs {
  int32_t style;  // graft_rotary_style
} graft_rotary_attrs;

// x [B, L, H, D], table f32 [T, R / 2, 2] or [B, T, R / 2, 2] of (cosine, sine) → x's shape and dtype:
// (a, b) becomes (a · cos - b · sin, a · sin + b · cos), row l of the table serving position l of x. T may exceed L;
// channels R … D - 1 are copied.
// Failures: a table with fewer than L rows or R above D, a batch that differs, a dtype that is no float.
GRAFT_API graft_tensor *graft_rotary_embedding(graft_graph *graph, graft_tensor *x, graft_tensor *table,
                                               graft_rotary_style style);

#ifdef __cplusplus
}
#endif

#endif
