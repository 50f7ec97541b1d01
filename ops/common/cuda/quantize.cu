// quantize.cu — device code of quantize.h: one block of threads for each row, which stays in shared memory where it
// fits. Behind every 16 numbers one is left free, so that the threads of a warp meet different banks in all stages.
// Operations are those of the reference, one by one: nothing may be fused.
#include "ops/common/cuda/quantize.h"
#include "ops/common/cuda/scalar.cuh"

__device__ __forceinline__ void mix(float &x0, float &x1, float &x2, float &x3) {
  const float a = __fadd_rn(x0, x1), b = __fsub_rn(x0, x1), c = __fadd_rn(x2, x3), d = __fsub_rn(x2, x3);
  x0 = __fadd_rn(a, d);
  x1 = __fsub_rn(a, d);
  x2 = __fadd_rn(c, b);
  x3 = __fsub_rn(c, b);
}

__device__ __forceinline__ int64_t place(int64_t i) {
  return i + (i >> 4);
}

// Stages |stride| and, with 16 numbers at a time, 4 · |stride|; |shift| is the stride's logarithm.
template <int N>
__device__ __forceinline__ void rotate_stages(float *row, int64_t n, int shift) {
  for (int64_t i = threadIdx.x; i < n / N; i += blockDim.x) {
    const int64_t within = i & (((int64_t)1 << shift) - 1);
    const int64_t first = (i >> shift) * ((int64_t)N << shift) + within;
    float x[N];
#pragma unroll
    for (int e = 0; e < N; ++e) x[e] = row[place(first + ((int64_t)e << shift))];
#pragma unroll
    for (int e = 0; e < N; e += 4) mix(x[e], x[e + 1], x[e + 2], x[e + 3]);
    if (N == 16) {
#pragma unroll
      for (int e = 0; e < N / 4; ++e) mix(x[e], x[e + N / 4], x[e + N / 2], x[e + 3 * (N / 4)]);
    }
#pragma unroll
    for (int e = 0; e < N; ++e) row[place(first + ((int64_t)e << shift))] = x[e];
  }
  __syncthreads();
}

__device__ __forceinline__ void rotate(float *row, int64_t n, int64_t group) {
  int shift = 0;
  for (; (int64_t)16 << shift <= group; shift += 4) rotate_stages<16>(row, n, shift);
  if ((int64_t)4 << shift <= group) rotate_stages<4>(row, n, shift);
}

__device__ __forceinline__ void load_row(const graft_quantize_params &p, const char *x, float *row) {
  if (p.is_wide) {
    for (int64_t i = (int64_t)threadIdx.x * 8; i < p.k; i += (int64_t)blockDim.x * 8) {
      graft_load_wide(x + i * p.x_step, p.x.type, row + place(i));
    }
  } else {
    for (int64_t i = threadIdx.x; i < p.k; i += blockDim.x) row[place(i)] = graft_load(x + i * p.x_step, p.x.type);
  }
  __syncthreads();
}

// Applies the rotation's factor and the grid; the largest absolute value of the row, NaN where not all are finite.
__device__ __forceinline__ float finish_row(const graft_quantize_params &p, float *row, float *shared) {
  float most = 0;
  bool is_finite = true;
  for (int64_t i = threadIdx.x; i < p.k; i += blockDim.x) {
    float x = __fmul_rn(row[place(i)], p.factor);
    if (p.has_bf16_grid) x = graft_round(x, GRAFT_DTYPE_BF16);
    row[place(i)] = x;
    is_finite = is_finite && isfinite(x);
    most = fmaxf(most, fabsf(x));
  }
  most = graft_block_max(most, shared);
  return __syncthreads_and(is_finite) ? most : __int_as_float(0x7fc00000);
}

__device__ __forceinline__ int quantized(const graft_quantize_params &p, const float *row, int64_t i, float divisor) {
  if (i >= p.k) return 0;
  float quotient = __fdiv_rn(row[place(i)], divisor);
  if (p.has_bf16_grid) quotient = graft_round(quotient, GRAFT_DTYPE_BF16);
  return (int)fminf(fmaxf(rintf(quotient), -128.0f), 127.0f);
}

// |row| NULL: zeros.
__device__ __forceinline__ void store_row(const graft_quantize_params &p, const float *row, float divisor, int8_t *q) {
  if (p.is_quads) {
    for (int64_t i = (int64_t)threadIdx.x * 4; i < p.q_stride; i += (int64_t)blockDim.x * 4) {
      uint32_t bytes = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (row != nullptr) bytes |= (uint32_t)(uint8_t)quantized(p, row, i + e, divisor) << (8 * e);
      }
      *(uint32_t *)(q + i) = bytes;
    }
  } else {
    for (int64_t i = threadIdx.x; i < p.q_stride; i += blockDim.x) {
      q[i] = row != nullptr ? (int8_t)quantized(p, row, i, divisor) : (int8_t)0;
    }
  }
}

__device__ __forceinline__ void quantize_rows(const graft_quantize_params &p, float *row) {
  __shared__ float shared[32];
  for (int64_t r = blockIdx.x; r < p.n_rows; r += gridDim.x) {
    int8_t *q = p.q + r * p.q_stride;
    float scale = 0, divisor = 1;
    bool is_empty = r >= p.walk.n;
    if (!is_empty) {
      int64_t offset[1];
      graft_walk_find<1>(p.walk, r, offset);
      load_row(p, p.x.data + offset[0], row);
      rotate(row, p.k, p.group);
      const float most = finish_row(p, row, shared), wanted = __fdiv_rn(most, 127.0f);
      is_empty = isnan(most);
      scale = is_empty ? most : wanted > 1e-30f ? wanted : 1e-30f;
      divisor = p.has_bf16_grid ? graft_round(scale, GRAFT_DTYPE_BF16) : scale;
    }
    store_row(p, is_empty ? nullptr : row, divisor, q);
    if (threadIdx.x == 0) p.scales[r] = scale;
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_QUANTIZE_MAX_THREADS)
    graft_quantize_shared(const graft_quantize_params p) {
  extern __shared__ float4 room[];
  quantize_rows(p, (float *)room);
}

extern "C" __global__ void __launch_bounds__(GRAFT_QUANTIZE_MAX_THREADS)
    graft_quantize_global(const graft_quantize_params p) {
  quantize_rows(p, p.rows + (int64_t)blockIdx.x * (place(p.k) + 1));
}
