// attention_params.h — what host and device code of graft.scaled_dot_product_attention.v1 share.
#ifndef GRAFT_OPS_ATTENTION_PARAMS_H
#define GRAFT_OPS_ATTENTION_PARAMS_H

#include "ops/common/cuda/walk.h"

enum { GRAFT_ATTENTION_MMA_QUERIES = 64, GRAFT_ATTENTION_MMA_KEYS = 64, GRAFT_ATTENTION_MMA_THREADS = 128 };
enum { GRAFT_ATTENTION_QUERIES = 32, GRAFT_ATTENTION_KEYS = 32, GRAFT_ATTENTION_MAX_WIDTH = 256 };

typedef struct graft_attention_params {
  graft_cuda_operand y, q, k, v;
  int64_t y_strides[4], q_strides[4], k_strides[4], v_strides[4];  // bytes: item, token, head, channel
  const char *mask;
  int64_t mask_strides[2];
  int64_t queries, keys;
  int32_t heads, heads_per_key_head;
  int32_t width, value_width;
  int32_t is_causal;
  float scale;
} graft_attention_params;

#endif
