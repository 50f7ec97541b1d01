// qwen3.h — the Qwen3 language model as a text encoder: grouped-query attention with RMS norms on queries and keys,
// rotary positions in halves, SwiGLU. Names are those of transformers' Qwen3Model.
#ifndef GRAFT_DIFFUSION_TEXT_ENCODERS_QWEN3_H
#define GRAFT_DIFFUSION_TEXT_ENCODERS_QWEN3_H

#include "diffusion/model.h"
#include "formats/json.h"

typedef struct graft_qwen3_config {
  int64_t vocab_size, hidden_size, intermediate_size;
  int64_t n_layers, n_heads, n_kv_heads, head_dim;
  int64_t max_positions;
  double norm_eps, rope_theta;
} graft_qwen3_config;

// Reads config.json. What would change the numbers and is not built (sliding windows, scaled positions, biases in the
// attention) is refused by name. Errors: GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED. Thread-safe.
GRAFT_NODISCARD graft_status graft_qwen3_read(const graft_json *json, graft_error *error,
                                              graft_qwen3_config *out_config);

typedef struct graft_qwen3_shape {
  int64_t batch, n_tokens;
  int64_t n_layers;  // how many to run; with all of them the final norm is applied, as transformers does
  bool has_mask;     // an input `mask` says which tokens may be attended to
  bool with_hidden;  // outputs `hidden.<i>`: the embeddings (0) and what each layer gives
} graft_qwen3_shape;

// Inputs: `ids` i32 [B, L], `rotary` f32 [L, head_dim / 2, 2], with a mask also `mask` bool [B, L].
// Output: `embeds` f32 [B, L, hidden_size]. Failures stick to |model|.
void graft_qwen3_build(graft_model *model, const graft_qwen3_config *config, const graft_qwen3_shape *shape);

// Fills |table| (n_tokens · head_dim values) for the input `rotary`: cosine and sine of position · theta^(-2i/d), in
// f32 as transformers computes it. Thread-safe.
void graft_qwen3_rotary(const graft_qwen3_config *config, int64_t n_tokens, float *table);

#endif
