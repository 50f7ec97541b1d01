// norm.cu — device code of norm.h. Rows that lie well are held in registers, several in a block where they are short;
// others have a block each and are read twice or three times, after the first time from a cache.
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

// The sum over the threads of a row, known to each of them. All threads of the block come by.
__device__ __forceinline__ float row_sum(float x, int n_lanes, float *shared) {
  for (int i = min(n_lanes, 32) / 2; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
  if (n_lanes <= 32) return x;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  const float *warps = shared + threadIdx.x / n_lanes * (n_lanes / 32);
  x = 0;
  for (int i = 0; i < n_lanes / 32; ++i) x += warps[i];
  return x;
}

// Eight elements each at G places of a row; beyond its end, the first ones stand.
template <int G>
struct pieces {
  int64_t element[G];
  bool is_there[G];
};

template <int G>
__device__ __forceinline__ void load_pieces(const pieces<G> &o, const char *row, int type, int64_t step,
                                            float (&x)[G][8]) {
  const char *at[G];
  if (step == 0) {
    const float all = graft_load(row, type);
#pragma unroll
    for (int i = 0; i < G * 8; ++i) x[i / 8][i % 8] = all;
    return;
  }
#pragma unroll
  for (int g = 0; g < G; ++g) at[g] = row + o.element[g] * step;
  graft_load_places(at, type, x);
}

template <int G>
__device__ __forceinline__ void find_held_moments(const graft_norm_params &p, const pieces<G> &o, float first,
                                                  const float (&x)[G][8], float *out_rest, float *out_factor) {
  __shared__ float shared[32];
  float sum = 0, squares = 0, rest = 0;
  if (p.is_centred) {
#pragma unroll
    for (int i = 0; i < G * 8; ++i) sum += o.is_there[i / 8] ? x[i / 8][i % 8] - first : 0.0f;
    rest = row_sum(sum, p.n_lanes, shared) / (float)p.n;
  }
#pragma unroll
  for (int i = 0; i < G * 8; ++i) {
    const float d = o.is_there[i / 8] ? x[i / 8][i % 8] - first - rest : 0.0f;
    squares = fmaf(d, d, squares);
  }
  *out_rest = rest;
  *out_factor = 1.0f / sqrtf(row_sum(squares, p.n_lanes, shared) / (float)p.n + p.eps);
}

// y = f(y, other) where there is such an operand.
template <int G, class F>
__device__ __forceinline__ void combine(const pieces<G> &o, const char *row, int type, int64_t step, float (&y)[G][8],
                                        F f) {
  float other[G][8];
  load_pieces(o, row, type, step, other);
#pragma unroll
  for (int i = 0; i < G * 8; ++i) y[i / 8][i % 8] = f(y[i / 8][i % 8], other[i / 8][i % 8]);
}

template <int G>
__device__ __forceinline__ void finish_held(const graft_norm_params &p, const row &r, const pieces<G> &o,
                                            float (&y)[G][8]) {
  const auto add = [](float a, float b) { return a + b; };
  const auto multiply = [](float a, float b) { return a * b; };
  const auto scale = [](float a, float b) { return a * (1.0f + b); };
  const auto gate = [](float a, float b) { return a * tanhf(b); };
  const auto with = [&](int k, auto f) {
    if (p.operands[k].data != nullptr) combine(o, r.at[k], p.operands[k].type, p.steps[k], y, f);
  };
  if (p.weight.data != nullptr) combine(o, p.weight.data, p.weight.type, p.weight_step, y, multiply);
  if (p.bias.data != nullptr) combine(o, p.bias.data, p.bias.type, p.bias_step, y, add);
  with(GRAFT_NORM_SCALE, scale);
  with(GRAFT_NORM_SHIFT, add);
  with(GRAFT_NORM_GATE, gate);
  with(GRAFT_NORM_ADDEND, add);
}

template <int G>
__device__ __forceinline__ void normalise_held(const graft_norm_params &p) {
  const int lane = threadIdx.x % p.n_lanes, own = threadIdx.x / p.n_lanes, n_rows = blockDim.x / p.n_lanes;
  pieces<G> o;
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const int64_t element = ((int64_t)g * p.n_lanes + lane) * 8;
    o.is_there[g] = element < p.n;
    o.element[g] = o.is_there[g] ? element : 0;
  }
  for (int64_t block = (int64_t)blockIdx.x * n_rows; block < p.walk.n; block += (int64_t)gridDim.x * n_rows) {
    const bool is_row = block + own < p.walk.n;
    int64_t offsets[GRAFT_NORM_N_OPERANDS];
    row r;
    graft_walk_find<GRAFT_NORM_N_OPERANDS>(p.walk, is_row ? block + own : block, offsets);
#pragma unroll
    for (int k = 0; k < GRAFT_NORM_N_OPERANDS; ++k) r.at[k] = p.operands[k].data + offsets[k];
    float x[G][8], rest, factor;
    load_pieces(o, r.at[GRAFT_NORM_X], p.operands[GRAFT_NORM_X].type, p.steps[GRAFT_NORM_X], x);
    const float first = p.is_centred ? graft_load(r.at[GRAFT_NORM_X], p.operands[GRAFT_NORM_X].type) : 0.0f;
    find_held_moments(p, o, first, x, &rest, &factor);
#pragma unroll
    for (int i = 0; i < G * 8; ++i) x[i / 8][i % 8] = (x[i / 8][i % 8] - first - rest) * factor;
    finish_held(p, r, o, x);
#pragma unroll
    for (int g = 0; g < G; ++g) {
      char *to = const_cast<char *>(r.at[GRAFT_NORM_Y]) + o.element[g] * p.steps[GRAFT_NORM_Y];
      if (is_row && o.is_there[g]) graft_store_wide(to, p.operands[GRAFT_NORM_Y].type, x[g]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_NORM_MOST_LANES, 2) graft_norm_rows(const graft_norm_params p) {
  if (p.n_lanes > 0) {
    normalise_held<GRAFT_NORM_PIECES>(p);
  } else if (p.is_wide) {
    normalise<GRAFT_WALK_WIDE>(p);
  } else {
    normalise<1>(p);
  }
}
