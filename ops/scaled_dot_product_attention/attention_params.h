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

// Of attention_hopper.cu: tiles of queries are numbered, the heads' one after another; a block takes every n-th.
enum { GRAFT_ATTENTION_HOPPER_ROWS = 128, GRAFT_ATTENTION_HOPPER_STAGES = 2 };

typedef struct graft_attention_hopper_params {
  graft_cuda_tensor_map q, k, v;
  graft_attention_params common;
  int32_t first_tile, end_tile;  // of this launch
  int32_t n_query_tiles;         // of a head
  int32_t has_pairs;             // neighbouring results may be stored together
} graft_attention_hopper_params;

#endif
