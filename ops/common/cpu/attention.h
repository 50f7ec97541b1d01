// attention.h — softmax(scale · q · kᵀ + added) · v on the CPU, without ever holding the scores of more than one strip
// of queries and one block of keys. Both products run on the micro-kernel of gemm.h; sums of weights, largest scores
// and outputs are carried from block to block, in ascending order of keys.
#ifndef GRAFT_OPS_COMMON_CPU_ATTENTION_H
#define GRAFT_OPS_COMMON_CPU_ATTENTION_H

#include "ops/common/cpu/gemm.h"

typedef struct graft_attention_core graft_attention_core;

// A tensor [batch, token, head, width] of f32, bf16 or f16 whose last dimension is dense; strides in elements.
typedef struct graft_attention_tensor {
  const void *data;
  graft_dtype_code type;
  int64_t batch_stride, token_stride, head_stride;
} graft_attention_tensor;

typedef struct graft_attention {
  const graft_attention_core *core;
  int64_t batches, heads, key_heads;  // heads is a multiple of key_heads
  int64_t queries, keys;
  int64_t width, value_width;
  float scale;
  bool is_causal;           // query i attends to keys 0 … i + keys - queries
  const uint8_t *key_mask;  // [batches] rows of |keys| bytes, not 0: attend; or NULL
  int64_t key_mask_stride;  // bytes from batch to batch
  const float *added;       // [batches, heads, queries, keys] to the scaled scores, dense in keys; or NULL
  int64_t added_batch_stride, added_head_stride, added_query_stride;  // floats; 0: the same for all
  graft_attention_tensor q, k, v;
  int64_t k_width_stride;      // elements between channels of a key: 1, or keys lie across
  graft_attention_tensor out;  // type and strides; a query with nothing to attend to gives 0
  void *out_data;
  int64_t query_parts;  // items of a head; 0: as many as are good for few threads and for many
  // Where |row_stride| is not 0, results stay here as float32 and |out| is not used: of the item's queries all heads,
  // computed in ascending order. Whole panels are written: the next head begins in what its predecessor left behind,
  // and rows have room for a panel behind the last one.
  float *rows;
  int64_t row_stride;  // floats
} graft_attention;

// Scores of a strip of queries against a block of keys, on their way to becoming weights.
typedef struct graft_attention_strip {
  // [rows][scores_stride]; become e^(scale · score - largest), 0 for keys that are not attended to, as rows of A:
  // [rows][GRAFT_GEMM_A_STRIDE], each of |weights_bytes|.
  float *scores;
  int64_t scores_stride;
  size_t weights_bytes;
  float *rest;  // rows of A likewise: what is to be added to them, for cores that have a rest
  int64_t rows, keys;
  int64_t n_visible;      // leading keys that the first query sees; each further query sees one more; may be negative
  const int32_t *masked;  // [keys rounded up to vectors] -1: attend, 0: not; or NULL
  float scale;
  const float *added;  // [rows][keys] to the scaled scores; or NULL
  int64_t added_stride;
  float *largest, *sum;  // [rows], of all blocks so far; the largest scaled score times log2 e
  float *out;            // [rows][out_stride], brought to the new largest score; NULL in the first block
  int64_t width, out_stride;
} graft_attention_strip;

// What is compiled once per target.
struct graft_attention_core {
  const graft_gemm_core *gemm;
  bool has_rest;  // weights are sums of two numbers of the type that |gemm| multiplies
  // Turns scores into rows of A of |gemm|.
  void (*weigh)(const graft_attention_strip *strip);
  // Divides |width| floats by |sum|; by nothing where it is 0.
  void (*normalise)(float *out, int64_t width, float sum);
};

extern const graft_attention_core graft_attention_core__baseline;
extern const graft_attention_core graft_attention_core__avx2;
extern const graft_attention_core graft_attention_core__avx512;

// Multiplies bf16 by bf16, as graft_gemm_core__avx512_bf16 does: q, k and v must be bf16. Weights are multiplied as the
// sum of two bf16 numbers.
extern const graft_attention_core graft_attention_core__avx512_bf16;

// As their namesakes in gemm.h. Item (batch · heads + head) · parts + part is queries queries·part/parts up to
// queries·(part + 1)/parts of a head; a query's result does not depend on the parts. Thread-safe.
int64_t graft_attention_items(const graft_attention *attention);
size_t graft_attention_scratch_bytes(const graft_attention *attention);
void graft_attention_run(const graft_attention *attention, int64_t item, void *scratch);

#endif
