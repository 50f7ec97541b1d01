// attention_mma.cu — attention of 16-bit floats on tensor cores, for heads up to 128 wide. Four warps of 16 queries
// each share tiles of 64 keys, which are fetched while the tile before is worked on. Scores and sums are float32.
// Shares are given to the second product as a sum of two 16-bit numbers: one alone would cost as many digits as the
// result has.
#include "ops/common/cuda/scalar.cuh"
#include "ops/scaled_dot_product_attention/attention_params.h"

enum { KEYS = GRAFT_ATTENTION_MMA_KEYS, THREADS = GRAFT_ATTENTION_MMA_THREADS, CHUNK = 8, STAGES = 2 };

#if __CUDA_ARCH__ >= 800

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

// Sixteen bytes to shared memory, or zeros.
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0));
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

template <bool IS_BF16>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if (IS_BF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// 2^x by the special function unit; its error is far below that of 16-bit numbers.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two numbers as 16-bit floats, the first in the low half, and what rounding took from them.
template <bool IS_BF16>
__device__ __forceinline__ uint32_t pack(float x, float y, float &rest_x, float &rest_y) {
  if (IS_BF16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    rest_x = x - __low2float(pair), rest_y = y - __high2float(pair);
    return *(const uint32_t *)&pair;
  }
  const __half2 pair = __floats2half2_rn(x, y);
  rest_x = x - __low2float(pair), rest_y = y - __high2float(pair);
  return *(const uint32_t *)&pair;
}

// Where chunk |chunk| (of eight channels) of a tile's row lies: exchanged so that eight rows fall into different banks.
template <int WIDTH>
__device__ __forceinline__ uint32_t place(int row, int chunk) {
  return (uint32_t)(row * WIDTH + ((chunk ^ row) & 7 | chunk & ~7) * CHUNK) * 2;
}

// Begins to fetch a tile: keys from |first| on, zeros beyond |end| and beyond |width| channels.
template <int WIDTH>
__device__ __forceinline__ void fetch(uint32_t to, const char *from, int64_t stride, int64_t first, int64_t end,
                                      int width) {
  for (int i = threadIdx.x; i < KEYS * (WIDTH / CHUNK); i += THREADS) {
    const int row = i / (WIDTH / CHUNK), chunk = i % (WIDTH / CHUNK);
    const bool is_there = first + row < end && chunk * CHUNK < width;
    const char *source = is_there ? from + (first + row) * stride + chunk * CHUNK * 2 : from;
    copy_async(to + place<WIDTH>(row, chunk), source, is_there);
  }
}

__device__ __forceinline__ uint32_t load_pair(const char *row, bool is_there, int channel, int width) {
  return is_there && channel < width ? *(const uint32_t *)(row + channel * 2) : 0;
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void attend(const graft_attention_params &p) {
  extern __shared__ __align__(128) char memory[];
  constexpr int TILE_BYTES = KEYS * WIDTH * 2, PARTS = WIDTH / 16, COLUMNS = WIDTH / 8, SCORES = KEYS / 8;
  const uint32_t base = shared_address(memory);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4, column = lane % 4 * 2;
  const int64_t item = blockIdx.z, head = blockIdx.y, key_head = head / p.heads_per_key_head;
  const int64_t first_query = (int64_t)blockIdx.x * GRAFT_ATTENTION_MMA_QUERIES + warp * 16;
  const char *q_from = p.q.data + item * p.q_strides[0] + head * p.q_strides[2];
  const char *k_from = p.k.data + item * p.k_strides[0] + key_head * p.k_strides[2];
  const char *v_from = p.v.data + item * p.v_strides[0] + key_head * p.v_strides[2];
  const int64_t shift = p.keys - p.queries;
  int64_t end = p.keys;
  if (p.is_causal) end = min(end, (int64_t)(blockIdx.x + 1) * GRAFT_ATTENTION_MMA_QUERIES + shift);
  const int n_tiles = end > 0 ? (int)((end + KEYS - 1) / KEYS) : 0;
  uint32_t q[PARTS][4];
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t query = first_query + row + i % 2 * 8;
      q[part][i] =
          load_pair(q_from + query * p.q_strides[1], query < p.queries, part * 16 + column + i / 2 * 8, p.width);
    }
  }
  float sums[COLUMNS][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const float scale = p.scale * 1.4426950408889634f;
  if (n_tiles > 0) {
    fetch<WIDTH>(base, k_from, p.k_strides[1], 0, p.keys, p.width);
    fetch<WIDTH>(base + STAGES * TILE_BYTES, v_from, p.v_strides[1], 0, p.keys, p.value_width);
  }
  asm volatile("cp.async.commit_group;\n");
  for (int tile = 0; tile < n_tiles; ++tile) {
    const int stage = tile % STAGES, next = (tile + 1) % STAGES;
    if (tile + 1 < n_tiles) {
      const int64_t first = (int64_t)(tile + 1) * KEYS;
      fetch<WIDTH>(base + next * TILE_BYTES, k_from, p.k_strides[1], first, p.keys, p.width);
      fetch<WIDTH>(base + (STAGES + next) * TILE_BYTES, v_from, p.v_strides[1], first, p.keys, p.value_width);
    }
    asm volatile("cp.async.commit_group;\n");
    asm volatile("cp.async.wait_group 1;\n");
    __syncthreads();
    const uint32_t k = base + stage * TILE_BYTES, v = base + (STAGES + stage) * TILE_BYTES;
    float scores[SCORES][4] = {};
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
      for (int n = 0; n < SCORES; n += 2) {
        uint32_t b[4];
        load_matrices(b, k + place<WIDTH>(n * 8 + lane / 16 * 8 + lane % 8, part * 2 + lane / 8 % 2));
        multiply<IS_BF16>(scores[n], q[part], b[0], b[1]);
        multiply<IS_BF16>(scores[n + 1], q[part], b[2], b[3]);
      }
    }
    const int64_t first = (int64_t)tile * KEYS;
    const bool is_cut =
        first + KEYS > p.keys || p.mask != nullptr || (p.is_causal && first + KEYS > first_query + shift + 1);
    if (is_cut) {
#pragma unroll
      for (int n = 0; n < SCORES; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int64_t key = first + n * 8 + column + i % 2, query = first_query + row + i / 2 * 8;
          const bool is_seen = key < p.keys && (!p.is_causal || key <= query + shift) &&
                               (p.mask == nullptr || p.mask[item * p.mask_strides[0] + key * p.mask_strides[1]] != 0);
          if (!is_seen) scores[n][i] = -INFINITY;
        }
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = most[half];
#pragma unroll
      for (int n = 0; n < SCORES; ++n) now = fmaxf(now, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
      now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
      // While nothing was seen, everything so far is 0 and stays so.
      const float rescale = most[half] == -INFINITY ? 0.0f : power_of_two((most[half] - now) * scale);
      const float origin = now == -INFINITY ? 0.0f : now * scale;
      most[half] = now;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < SCORES; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[n][i] = power_of_two(fmaf(scores[n][i], scale, -origin));
          sum += scores[n][i];
        }
      }
      total[half] = total[half] * rescale + sum;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) sums[c][2 * half] *= rescale, sums[c][2 * half + 1] *= rescale;
    }
#pragma unroll
    for (int n = 0; n < SCORES; n += 2) {
      uint32_t high[4], low[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float x, y, unused_x, unused_y;
        high[i] = pack<IS_BF16>(scores[n + i / 2][i % 2 * 2], scores[n + i / 2][i % 2 * 2 + 1], x, y);
        low[i] = pack<IS_BF16>(x, y, unused_x, unused_y);
      }
#pragma unroll
      for (int c = 0; c < COLUMNS; c += 2) {
        uint32_t b[4];
        load_transposed(b, v + place<WIDTH>(n * 8 + lane % 16, c + lane / 16));
        multiply<IS_BF16>(sums[c], high, b[0], b[1]);
        multiply<IS_BF16>(sums[c + 1], high, b[2], b[3]);
        multiply<IS_BF16>(sums[c], low, b[0], b[1]);
        multiply<IS_BF16>(sums[c + 1], low, b[2], b[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
    total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
    const int64_t query = first_query + row + half * 8;
    if (query >= p.queries) continue;
    char *y = p.y.data + item * p.y_strides[0] + query * p.y_strides[1] + head * p.y_strides[2];
    const float factor = total[half] > 0 ? 1.0f / total[half] : total[half];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int channel = c * 8 + column + i;
        if (channel < p.value_width) {
          graft_store(y + channel * p.y_strides[3], p.y.type, sums[c][2 * half + i] * factor);
        }
      }
    }
  }
}

#define BODY(is_bf16, width) attend<is_bf16, width>(p)
#else
#define BODY(is_bf16, width)  // older cards are never asked
#endif

extern "C" __global__ void __launch_bounds__(THREADS) graft_attention_bf16_64(const graft_attention_params p) {
  BODY(true, 64);
}
extern "C" __global__ void __launch_bounds__(THREADS) graft_attention_bf16_128(const graft_attention_params p) {
  BODY(true, 128);
}
extern "C" __global__ void __launch_bounds__(THREADS) graft_attention_f16_64(const graft_attention_params p) {
  BODY(false, 64);
}
extern "C" __global__ void __launch_bounds__(THREADS) graft_attention_f16_128(const graft_attention_params p) {
  BODY(false, 128);
}
