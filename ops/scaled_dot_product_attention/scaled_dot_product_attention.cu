// scaled_dot_product_attention.cu — attention in float32 for any dtypes, strides and widths up to 256: a block of eight
// warps takes 32 queries of a head through all keys, 32 at a time; scores never leave registers.
#include "ops/common/cuda/scalar.cuh"
#include "ops/scaled_dot_product_attention/attention_params.h"

enum {
  QUERIES = GRAFT_ATTENTION_QUERIES,
  KEYS = GRAFT_ATTENTION_KEYS,
  EACH = 4,
  CHAINS = 8,
  PARTS = GRAFT_ATTENTION_MAX_WIDTH / 32
};

// Fetches |rows| tokens of |width| channels, zeros beyond |end|.
__device__ __forceinline__ void fetch(float *to, int step, const char *from, int type, const int64_t *strides,
                                      int64_t first, int64_t end, int rows, int width) {
  for (int i = threadIdx.x; i < rows * width; i += blockDim.x) {
    const int row = i / width, channel = i - row * width;
    const bool is_there = first + row < end;
    to[row * step + channel] =
        is_there ? graft_load(from + (first + row) * strides[1] + channel * strides[3], type) : 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(256) graft_attention_blocks(const graft_attention_params p) {
  extern __shared__ float memory[];
  const int q_step = p.width, k_step = p.width + 1, v_step = p.value_width;
  float *q = memory, *k = q + QUERIES * q_step, *v = k + KEYS * k_step;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t item = blockIdx.z, head = blockIdx.y, key_head = head / p.heads_per_key_head;
  const int64_t first_query = (int64_t)blockIdx.x * QUERIES;
  const char *q_from = p.q.data + item * p.q_strides[0] + head * p.q_strides[2];
  const char *k_from = p.k.data + item * p.k_strides[0] + key_head * p.k_strides[2];
  const char *v_from = p.v.data + item * p.v_strides[0] + key_head * p.v_strides[2];
  fetch(q, q_step, q_from, p.q.type, p.q_strides, first_query, p.queries, QUERIES, p.width);
  float most[EACH], total[EACH], sums[EACH][PARTS];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    most[i] = -INFINITY, total[i] = 0;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) sums[i][part] = 0;
  }
  int64_t end = p.keys;
  const int64_t shift = p.keys - p.queries;
  if (p.is_causal) end = min(end, first_query + QUERIES + shift);
  for (int64_t first = 0; first < end; first += KEYS) {
    __syncthreads();
    fetch(k, k_step, k_from, p.k.type, p.k_strides, first, p.keys, KEYS, p.width);
    fetch(v, v_step, v_from, p.v.type, p.v_strides, first, p.keys, KEYS, p.value_width);
    __syncthreads();
    const int64_t key = first + lane;
    const bool is_key =
        key < p.keys && (p.mask == nullptr || p.mask[item * p.mask_strides[0] + key * p.mask_strides[1]] != 0);
    // Several partial sums keep their rounding small: an error of a score is multiplied by its exponential.
    float scores[EACH], sums_of[EACH][CHAINS] = {};
    int c = 0;
    for (; c + CHAINS <= p.width; c += CHAINS) {
#pragma unroll
      for (int j = 0; j < CHAINS; ++j) {
        const float value = k[lane * k_step + c + j];
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
          sums_of[i][j] = fmaf(q[(warp * EACH + i) * q_step + c + j], value, sums_of[i][j]);
        }
      }
    }
    for (; c < p.width; ++c) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        sums_of[i][0] = fmaf(q[(warp * EACH + i) * q_step + c], k[lane * k_step + c], sums_of[i][0]);
      }
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      scores[i] = 0;
#pragma unroll
      for (int j = 0; j < CHAINS; j += 2) scores[i] += sums_of[i][j] + sums_of[i][j + 1];
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int64_t query = first_query + warp * EACH + i;
      const bool is_seen = is_key && (!p.is_causal || key <= query + shift);
      const float score = is_seen ? scores[i] * p.scale : -INFINITY;
      const float now = fmaxf(most[i], graft_warp_max(score));
      // While nothing was seen, everything so far is 0 and stays so.
      const float rescale = most[i] == -INFINITY ? 0.0f : expf(most[i] - now);
      const float share = is_seen ? expf(fmaf(scores[i], p.scale, -now)) : 0.0f;
      total[i] = total[i] * rescale + graft_warp_sum(share);
      most[i] = now;
      scores[i] = share;
#pragma unroll
      for (int part = 0; part < PARTS; ++part) sums[i][part] *= rescale;
    }
    for (int j = 0; j < KEYS; ++j) {
      float shares[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) shares[i] = __shfl_sync(0xffffffffu, scores[i], j);
#pragma unroll
      for (int part = 0; part < PARTS; ++part) {
        if (part * 32 + lane >= p.value_width) continue;
        const float value = v[j * v_step + part * 32 + lane];
#pragma unroll
        for (int i = 0; i < EACH; ++i) sums[i][part] = fmaf(shares[i], value, sums[i][part]);
      }
    }
  }
  for (int i = 0; i < EACH; ++i) {
    const int64_t query = first_query + warp * EACH + i;
    if (query >= p.queries) break;
    char *y = p.y.data + item * p.y_strides[0] + query * p.y_strides[1] + head * p.y_strides[2];
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const int channel = part * 32 + lane;
      if (channel < p.value_width) {
        graft_store(y + channel * p.y_strides[3], p.y.type, total[i] > 0 ? sums[i][part] / total[i] : total[i]);
      }
    }
  }
}
