// norm.cu — device code of norm.h: one block of threads for each row, which is read twice or three times; after the
// first time it lies in a cache.
#include "ops/common/cuda/norm.h"
#include "ops/common/cuda/scalar.cuh"

struct row {
  const char *at[GRAFT_NORM_N_OPERANDS];
};

// Elements |i| … |i| + W - 1 of an operand that varies by row.
template <int W>
__device__ __forceinline__ void load(const graft_norm_params &p, const row &r, int k, int64_t i, float *x) {
  const char *address = r.at[k] + i * p.steps[k];
  graft_load_group<W>(address, p.operands[k].type, (int)p.steps[k], x);
}

// Mean and deviation are taken from differences to the row's first element, so that a large mean costs no digits.
template <int W>
__device__ void find_moments(const graft_norm_params &p, const row &r, float *shared, float *out_mean, float *out_rest,
                             float *out_factor) {
  float sum = 0, squares = 0, x[W];
  float first = 0, rest = 0;
  if (p.is_centred) {
    first = graft_load(r.at[GRAFT_NORM_X], p.operands[GRAFT_NORM_X].type);
    for (int64_t i = (int64_t)threadIdx.x * W; i < p.n; i += (int64_t)blockDim.x * W) {
      load<W>(p, r, GRAFT_NORM_X, i, x);
#pragma unroll
      for (int e = 0; e < W; ++e) sum += x[e] - first;
    }
    rest = graft_block_sum(sum, shared) / (float)p.n;
  }
  for (int64_t i = (int64_t)threadIdx.x * W; i < p.n; i += (int64_t)blockDim.x * W) {
    load<W>(p, r, GRAFT_NORM_X, i, x);
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float d = x[e] - first - rest;
      squares = fmaf(d, d, squares);
    }
  }
  squares = graft_block_sum(squares, shared) / (float)p.n;
  *out_mean = first;
  *out_rest = rest;
  *out_factor = 1.0f / sqrtf(squares + p.eps);
}

template <int W>
__device__ __forceinline__ void finish(const graft_norm_params &p, const row &r, int64_t i, float *y) {
  float f[W];
  if (p.weight.data != nullptr) {
    graft_load_group<W>(p.weight.data + i * p.weight_step, p.weight.type, (int)p.weight_step, f);
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] *= f[e];
  }
  if (p.bias.data != nullptr) {
    graft_load_group<W>(p.bias.data + i * p.bias_step, p.bias.type, (int)p.bias_step, f);
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] += f[e];
  }
  if (p.operands[GRAFT_NORM_SCALE].data != nullptr) {
    load<W>(p, r, GRAFT_NORM_SCALE, i, f);
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] *= 1.0f + f[e];
  }
  if (p.operands[GRAFT_NORM_SHIFT].data != nullptr) {
    load<W>(p, r, GRAFT_NORM_SHIFT, i, f);
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] += f[e];
  }
  if (p.operands[GRAFT_NORM_GATE].data != nullptr) {
    load<W>(p, r, GRAFT_NORM_GATE, i, f);
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] *= tanhf(f[e]);
  }
  if (p.operands[GRAFT_NORM_ADDEND].data != nullptr) {
    load<W>(p, r, GRAFT_NORM_ADDEND, i, f);
#pragma unroll
    for (int e = 0; e < W; ++e) y[e] += f[e];
  }
}

template <int W>
__device__ void normalise(const graft_norm_params &p) {
  __shared__ float shared[32];
  for (int64_t i = blockIdx.x; i < p.walk.n; i += gridDim.x) {
    int64_t offsets[GRAFT_NORM_N_OPERANDS];
    row r;
    graft_walk_find<GRAFT_NORM_N_OPERANDS>(p.walk, i, offsets);
#pragma unroll
    for (int k = 0; k < GRAFT_NORM_N_OPERANDS; ++k) r.at[k] = p.operands[k].data + offsets[k];
    float mean, rest, factor;
    find_moments<W>(p, r, shared, &mean, &rest, &factor);
    // In place: all of the row has been read before any of it is written, and each thread writes what it reads.
    for (int64_t at = (int64_t)threadIdx.x * W; at < p.n; at += (int64_t)blockDim.x * W) {
      float y[W];
      load<W>(p, r, GRAFT_NORM_X, at, y);
#pragma unroll
      for (int e = 0; e < W; ++e) y[e] = (y[e] - mean - rest) * factor;
      finish<W>(p, r, at, y);
      char *to = const_cast<char *>(r.at[GRAFT_NORM_Y]) + at * p.steps[GRAFT_NORM_Y];
      graft_store_group<W>(to, p.operands[GRAFT_NORM_Y].type, y);
    }
    __syncthreads();
  }
}

extern "C" __global__ void graft_norm_rows(const graft_norm_params p) {
  if (p.is_wide) {
    normalise<GRAFT_WALK_WIDE>(p);
  } else {
    normalise<1>(p);
  }
}
