// attention_convrot_i8.h — attention whose rows, all heads of a token, are rotated and quantised for the layer that
// follows ("graft.attention_convrot_i8.v1").
#ifndef GRAFT_OPS_FUSED_ATTENTION_CONVROT_I8_ATTENTION_CONVROT_I8_H
#define GRAFT_OPS_FUSED_ATTENTION_CONVROT_I8_ATTENTION_CONVROT_I8_H

#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_attention_convrot_i8_attrs {
  graft_attention_attrs attention;
  graft_quantize_convrot_i8_attrs quantize;
  double factor;      // the rows are multiplied with before they are rotated; 0: none
  bool scales_heads;  // it is applied to [B, Lq, H, Dv], before heads become rows
} graft_attention_convrot_i8_attrs;

// graft_quantize_convrot_i8_packed of factor · scaled_dot_product_attention(q, k, v, key_mask) seen as rows [B, Lq,
// H · Dv]. Kernels give the bytes of the operators apart. Fusion rule "attention_convrot_i8". Failures: those of
// scaled_dot_product_attention and of quantize_convrot_i8.
GRAFT_API graft_tensor *graft_attention_convrot_i8(graft_graph *graph, graft_tensor *q, graft_tensor *k,
                                                   graft_tensor *v, graft_tensor *key_mask,
                                                   const graft_attention_convrot_i8_attrs *attrs);

#ifdef __cplusplus
}
#endif

#endif
