// scaled_dot_product_attention.h — softmax(scale · q · kᵀ + mask) · v per head
// ("graft.scaled_dot_product_attention.v1").
#ifndef GRAFT_OPS_SCALED_DOT_PRODUCT_ATTENTION_SCALED_DOT_PRODUCT_ATTENTION_H
#define GRAFT_OPS_SCALED_DOT_PRODUCT_ATTENTION_SCALED_DOT_PRODUCT_ATTENTION_H

#include "graft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_attention_attrs {
  double scale;    // of the scores; 0: 1 / sqrt(D)
  bool is_causal;  // query i attends to keys 0 … i + Lk - Lq: the last query sees every key
} graft_attention_attrs;

// q [B, Lq, H, D], k [B, Lk, Hkv, D], v [B, Lk, Hkv, Dv] → [B, Lq, H, Dv] in q's dtype. H is a multiple of Hkv: query
// head h uses key head h / (H / Hkv). |key_mask| bool [B, Lk] (true: attend) or graft_graph_none(). A query with
// nothing to attend to gives 0. Any float dtypes, also mixed; arithmetic is float32 or wider. |attrs| NULL: defaults.
// Failures: sizes that do not fit together, a scale that is no finite float32 number.
GRAFT_API graft_tensor *graft_scaled_dot_product_attention(graft_graph *graph, graft_tensor *q, graft_tensor *k,
                                                           graft_tensor *v, graft_tensor *key_mask,
                                                           const graft_attention_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
