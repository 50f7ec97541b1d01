// norm.cu — device code of norm.h. Rows of one type that lie well are held in registers, several in a block where they
// are short, the next ones on their way while some are worked on. Others have a block each and are read twice or three
// times, after the first time from a cache.
#include "ops/common/cuda/held.cuh"
#include "ops/common/cuda/norm.h"

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

extern "C" __global__ void __launch_bounds__(512, 2) graft_norm_rows(const graft_norm_params p) {
  if (p.is_wide) {
    normalise<GRAFT_WALK_WIDE>(p);
  } else {
    normalise<1>(p);
  }
}

// The threads that share a row, and how they add up. The numbers of lanes and warps are powers of two.
struct lanes {
  int n, lane, own;         // lanes of a row, this thread's, and which row of the block is its own
  int n_warps, first_warp;  // of its row, where that takes several
  int turn;
};

__device__ __forceinline__ lanes find_lanes(const graft_norm_params &p) {
  lanes l = {.n = p.n_lanes, .n_warps = p.n_lanes / 32};
  l.lane = (int)threadIdx.x & (l.n - 1);
  l.own = (int)threadIdx.x / l.n;
  l.first_warp = l.own * l.n_warps;
  return l;
}

// The sum over |n| neighbouring threads, a power of two, known to each of them.
__device__ __forceinline__ float sum_beside(float x, int n) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, x, i);
    x = i < n ? x + other : x;
  }
  return x;
}

// The sum over the threads of a row, known to each of them. All threads of the block come by; calls that follow each
// other take turns with the halves of |shared|, so that one barrier is enough.
__device__ __forceinline__ float row_sum(float x, lanes *l) {
  __shared__ float shared[2][GRAFT_NORM_N_SUMS / 2];
  x = sum_beside(x, l->n);
  if (l->n <= 32) return x;
  float *const warps = shared[l->turn];
  l->turn ^= 1;
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  return sum_beside(warps[l->first_warp + ((int)threadIdx.x & (l->n_warps - 1))], l->n_warps);
}

// What a thread has of its row: two groups of sixteen bytes. Beyond the end, the first elements stand.
template <int TYPE>
struct spot {
  static constexpr int WIDTH = graft_group<TYPE>::WIDTH, BYTES = graft_group<TYPE>::BYTES, ELEMENTS = 2 * WIDTH;
  int element[2];
  bool is_there[2];

  __device__ __forceinline__ spot(const lanes &l, int64_t n) {
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      element[g] = (g * l.n + l.lane) * WIDTH;
      is_there[g] = element[g] < n;
      element[g] = is_there[g] ? element[g] : 0;
    }
  }
};

// What is fetched of a row before it is its turn.
template <int TYPE>
struct ahead {
  uint4 x[2], addend[2];
  float first;
  char *y;
};

template <int TYPE>
__device__ __forceinline__ void fetch(const graft_norm_params &p, const spot<TYPE> &s, uint32_t row, ahead<TYPE> *a) {
  int64_t offsets[3];
  graft_walk_find<3>(p.held_walk, row, offsets);
  const char *x = p.operands[GRAFT_NORM_X].data + offsets[GRAFT_NORM_X];
  const char *addend = p.operands[GRAFT_NORM_ADDEND].data + offsets[GRAFT_NORM_ADDEND];
  a->y = p.operands[GRAFT_NORM_Y].data + offsets[GRAFT_NORM_Y];
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    a->x[g] = *(const uint4 *)(x + s.element[g] * spot<TYPE>::BYTES);
    if (p.operands[GRAFT_NORM_ADDEND].data != nullptr) {
      a->addend[g] = *(const uint4 *)(addend + s.element[g] * spot<TYPE>::BYTES);
    }
  }
  if (p.is_centred) a->first = graft_load(x, TYPE);
}

// What a thread's elements are multiplied with and what is added to them then: mostly the same for many rows, and kept
// in shared memory, four elements beside those of the next thread.
extern __shared__ float4 sides[];

template <int TYPE>
__device__ __forceinline__ float4 *side_of(int quarter, bool is_term) {
  return &sides[(quarter + (is_term ? spot<TYPE>::ELEMENTS / 4 : 0)) * blockDim.x + threadIdx.x];
}

template <int TYPE>
__device__ __forceinline__ void load_sides(bool is_term, float (&x)[spot<TYPE>::ELEMENTS]) {
#pragma unroll
  for (int q = 0; q < spot<TYPE>::ELEMENTS / 4; ++q) {
    const float4 v = *side_of<TYPE>(q, is_term);
    x[q * 4] = v.x, x[q * 4 + 1] = v.y, x[q * 4 + 2] = v.z, x[q * 4 + 3] = v.w;
  }
}

// |W| neighbouring elements of an operand that need not be there, all on their way at once: |step| bytes apart.
template <int W>
__device__ __forceinline__ void load_side(const char *data, int type, int64_t step, float absent, float (&x)[W]) {
  const auto load_all = [&](int known_type) {
#pragma unroll
    for (int e = 0; e < W; ++e) x[e] = graft_load(data + e * step, known_type);
  };
  if (data == nullptr) {
#pragma unroll
    for (int e = 0; e < W; ++e) x[e] = absent;
  } else if (type == GRAFT_DTYPE_F32) {
    load_all(GRAFT_DTYPE_F32);
  } else if (type == GRAFT_DTYPE_BF16) {
    load_all(GRAFT_DTYPE_BF16);
  } else {
    load_all(type);
  }
}

// Finds them for |row|; returns up to which row they stay.
template <int TYPE, bool HAS_TERM>
__device__ __forceinline__ uint32_t find_sides(const graft_norm_params &p, int lane, uint32_t row) {
  constexpr int N = 4;
  int64_t at[GRAFT_NORM_N_OPERANDS];
  graft_walk_find<GRAFT_NORM_N_OPERANDS>(p.walk, row, at);
  const auto load_vector = [&](const graft_cuda_operand &v, int64_t step, int64_t i, float absent, float(&x)[N]) {
    load_side(v.data == nullptr ? nullptr : v.data + i * step, v.type, step, absent, x);
  };
  const auto load_varying = [&](int k, int64_t i, float absent, float(&x)[N]) {
    const graft_cuda_operand &v = p.operands[k];
    load_side(v.data == nullptr ? nullptr : v.data + at[k] + i * p.steps[k], v.type, p.steps[k], absent, x);
  };
#pragma unroll 1  // few registers
  for (int q = 0; q < spot<TYPE>::ELEMENTS / N; ++q) {
    constexpr int WIDTH = spot<TYPE>::WIDTH;
    const int64_t place = (q * N / WIDTH * p.n_lanes + lane) * WIDTH + q * N % WIDTH;
    const int64_t i = place < p.n ? place : 0;
    float factor[N], scale[N], gate[N], term[N], shift[N];
    load_vector(p.weight, p.weight_step, i, 1, factor);
    load_varying(GRAFT_NORM_SCALE, i, 0, scale);
    load_varying(GRAFT_NORM_GATE, i, 0, gate);
    if (HAS_TERM) load_vector(p.bias, p.bias_step, i, 0, term);
    if (HAS_TERM) load_varying(GRAFT_NORM_SHIFT, i, 0, shift);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      scale[e] += 1.0f;
      gate[e] = p.operands[GRAFT_NORM_GATE].data == nullptr ? 1.0f : tanhf(gate[e]);
      factor[e] = factor[e] * scale[e] * gate[e];
      if (HAS_TERM) term[e] = (term[e] * scale[e] + shift[e]) * gate[e];
    }
    *side_of<TYPE>(q, false) = make_float4(factor[0], factor[1], factor[2], factor[3]);
    if (HAS_TERM) *side_of<TYPE>(q, true) = make_float4(term[0], term[1], term[2], term[3]);
  }
  return (uint32_t)min(p.walk.n, (row / p.n_same_sides + 1) * p.n_same_sides);
}

// What the row's deviations, or where nothing is centred its elements, are multiplied with; |x| is centred.
template <int TYPE>
__device__ __forceinline__ float find_factor(const graft_norm_params &p, const spot<TYPE> &s, float first, lanes *l,
                                             float (&x)[spot<TYPE>::ELEMENTS]) {
  constexpr int WIDTH = spot<TYPE>::WIDTH;
  float squares = 0;
  if (p.is_centred) {
    float sum = 0;
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      float part = 0;
#pragma unroll
      for (int e = g * WIDTH; e < (g + 1) * WIDTH; ++e) part += x[e] - first;
      sum += s.is_there[g] ? part : 0.0f;
    }
    const float rest = row_sum(sum, l) * p.per_element;
#pragma unroll
    for (int e = 0; e < 2 * WIDTH; ++e) x[e] = x[e] - first - rest;
  }
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    float part = 0;
#pragma unroll
    for (int e = g * WIDTH; e < (g + 1) * WIDTH; ++e) part = fmaf(x[e], x[e], part);
    squares += s.is_there[g] ? part : 0.0f;
  }
  return rsqrtf(fmaf(row_sum(squares, l), p.per_element, p.eps));
}

template <int TYPE, bool HAS_TERM>
__device__ __forceinline__ void finish_held(const graft_norm_params &p, const ahead<TYPE> &a, float factor,
                                            float (&y)[spot<TYPE>::ELEMENTS]) {
  constexpr int N = spot<TYPE>::ELEMENTS;
  float other[N];
  load_sides<TYPE>(false, other);
#pragma unroll
  for (int e = 0; e < N; ++e) y[e] *= factor * other[e];
  if (HAS_TERM) {
    load_sides<TYPE>(true, other);
#pragma unroll
    for (int e = 0; e < N; ++e) y[e] += other[e];
  }
  if (p.operands[GRAFT_NORM_ADDEND].data == nullptr) return;
  graft_spread<TYPE>(a.addend, other);
#pragma unroll
  for (int e = 0; e < N; ++e) y[e] += other[e];
}

// Each block has neighbouring rows, so that it seldom finds other sides. The rows of a block that are worked on
// together go on together, because they meet at barriers; beyond the end, the last row stands.
template <int TYPE, bool HAS_TERM>
__device__ __forceinline__ void normalise_held(const graft_norm_params &p) {
  lanes l = find_lanes(p);
  const spot<TYPE> s(l, p.n);
  const uint32_t n = (uint32_t)p.walk.n, beside = blockDim.x / l.n, own = beside * p.n_turns;
  const uint32_t begin = blockIdx.x * own, end = min(n, begin + own);
  uint32_t sides_end = 0;
  ahead<TYPE> next;
  fetch(p, s, min(begin + l.own, n - 1), &next);
  for (uint32_t first = begin; first < end; first += beside) {
    const uint32_t row = first + l.own;
    const ahead<TYPE> a = next;
    if (row >= sides_end) sides_end = find_sides<TYPE, HAS_TERM>(p, l.lane, min(row, n - 1));
    if (first + beside < end) fetch(p, s, min(row + beside, n - 1), &next);
    float y[spot<TYPE>::ELEMENTS];
    graft_spread<TYPE>(a.x, y);
    const float factor = find_factor(p, s, a.first, &l, y);
    finish_held<TYPE, HAS_TERM>(p, a, factor, y);
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      if (row >= end || !s.is_there[g]) continue;
      *(uint4 *)(a.y + s.element[g] * spot<TYPE>::BYTES) = graft_gather<TYPE>(&y[g * spot<TYPE>::WIDTH]);
    }
  }
}

extern "C" __global__ void __maxnreg__(80) graft_norm_held_f32(const graft_norm_params p) {
  normalise_held<GRAFT_DTYPE_F32, false>(p);
}

extern "C" __global__ void __maxnreg__(80) graft_norm_held_f32_term(const graft_norm_params p) {
  normalise_held<GRAFT_DTYPE_F32, true>(p);
}

extern "C" __global__ void __maxnreg__(80) graft_norm_held_bf16(const graft_norm_params p) {
  normalise_held<GRAFT_DTYPE_BF16, false>(p);
}

extern "C" __global__ void __maxnreg__(80) graft_norm_held_bf16_term(const graft_norm_params p) {
  normalise_held<GRAFT_DTYPE_BF16, true>(p);
}

extern "C" __global__ void __maxnreg__(80) graft_norm_held_f16(const graft_norm_params p) {
  normalise_held<GRAFT_DTYPE_F16, false>(p);
}

extern "C" __global__ void __maxnreg__(80) graft_norm_held_f16_term(const graft_norm_params p) {
  normalise_held<GRAFT_DTYPE_F16, true>(p);
}
