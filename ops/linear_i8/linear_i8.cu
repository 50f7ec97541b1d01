// linear_i8.cu — device code of graft.linear_i8.v1: products of bytes with exact sums, and what becomes of them.
//
// For tensor cores, tiles of both matrices pass through shared memory in stages of 64 terms, rows of 64 bytes whose
// four groups of 16 are exchanged so that eight rows meet eight different banks. Rows begin at multiples of 16 bytes
// and are multiples of 16 long; what lies beyond them is read as zeros.
#include "ops/common/cuda/scalar.cuh"
#include "ops/linear_i8/linear_i8_params.h"

// A scale or bias; packed scales may lie anywhere.
__device__ __forceinline__ float load_number(const graft_cuda_operand &o, int64_t offset) {
  const char *p = o.data + offset;
  if (o.type != GRAFT_DTYPE_F32 || (uintptr_t)p % 4 == 0) return graft_load(p, o.type);
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) bits |= (uint32_t)(uint8_t)p[i] << (8 * i);
  return __uint_as_float(bits);
}

// What belongs to a column of y.
struct column {
  float scale, bias;
};

__device__ __forceinline__ column load_column(const graft_linear_i8_params &p, int64_t j) {
  column c = {1.0f, 0.0f};
  if (j >= p.n) return c;
  if (p.weight_scale.data != nullptr) c.scale = load_number(p.weight_scale, j * p.weight_scale_step);
  if (p.bias.data != nullptr) c.bias = load_number(p.bias, j * p.bias_step);
  return c;
}

// Each step is rounded by itself, in the order that the operator prescribes.
__device__ __forceinline__ float to_number(const graft_linear_i8_params &p, float sum, float x_scale, const column &c) {
  if (p.is_comfy) {
    const float product = graft_round(__fmul_rn(sum, __fmul_rn(x_scale, c.scale)), p.y.type);
    return p.bias.data != nullptr ? __fadd_rn(product, graft_round(c.bias, p.y.type)) : product;
  }
  const float product = __fmul_rn(__fmul_rn(sum, x_scale), c.scale);
  return p.bias.data != nullptr ? __fadd_rn(product, c.bias) : product;
}

__device__ __forceinline__ void store_one(const graft_linear_i8_params &p, int64_t row, int64_t j, float value) {
  graft_store(p.y.data + (row * p.n + j) * p.y.element_bytes, p.y.type, value);
}

// Columns |j| and |j| + 1; j is even.
__device__ __forceinline__ void store_two(const graft_linear_i8_params &p, int64_t row, int64_t j, float a, float b) {
  if (j >= p.n) return;
  char *to = p.y.data + (row * p.n + j) * p.y.element_bytes;
  if (p.has_pairs && p.y.type == GRAFT_DTYPE_F32) {
    *(float2 *)to = make_float2(a, b);
  } else if (p.has_pairs && p.y.type == GRAFT_DTYPE_BF16) {
    *(uint32_t *)to = graft_to_bf16(a) | (uint32_t)graft_to_bf16(b) << 16;
  } else if (p.has_pairs && p.y.type == GRAFT_DTYPE_F16) {
    *(uint32_t *)to = graft_to_f16(a) | (uint32_t)graft_to_f16(b) << 16;
  } else {
    store_one(p, row, j, a);
    if (j + 1 < p.n) store_one(p, row, j + 1, b);
  }
}

#if __CUDA_ARCH__ >= 800

__device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

// 16 bytes into shared memory; zeros where |is_inside| is false.
__device__ __forceinline__ void copy_ahead(uint32_t target, const void *source, bool is_inside) {
  const int bytes = is_inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t address, uint32_t *r) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void multiply(int *c, const uint32_t *a, const uint32_t *b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Where the 16 bytes |group| of |row| of a tile lie in shared memory.
__device__ __forceinline__ int place(int row, int group) {
  return row * GRAFT_I8_DEPTH + ((group ^ (row >> 1 & 3)) << 4);
}

// Starts copying terms |first| … |first| + 63 of |ROWS| rows, |n| of which exist.
template <int ROWS, int THREADS>
__device__ __forceinline__ void copy_tile(uint32_t target, const int8_t *rows, int64_t stride, int64_t n, int64_t first,
                                          int64_t depth) {
#pragma unroll
  for (int i = 0; i < ROWS * 4 / THREADS; ++i) {
    const int at = i * THREADS + threadIdx.x, row = at >> 2, group = at & 3;
    const int64_t term = first + group * 16;
    const bool is_inside = row < n && term < depth;
    copy_ahead(target + place(row, group), is_inside ? rows + row * stride + term : rows, is_inside);
  }
}

// A block of WARPS_M · WARPS_N warps makes a tile of SIZE · SIZE results.
template <int SIZE, int WARPS_M, int WARPS_N>
__device__ __forceinline__ void multiply_tile(const graft_linear_i8_params &p) {
  constexpr int THREADS = WARPS_M * WARPS_N * 32, STAGE_BYTES = 2 * SIZE * GRAFT_I8_DEPTH;
  constexpr int TILES_M = SIZE / WARPS_M / 16, TILES_N = SIZE / WARPS_N / 8;
  extern __shared__ uint4 room[];
  const uint32_t base = shared_address(room);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warp_row = warp / WARPS_N * (TILES_M * 16), warp_column = warp % WARPS_N * (TILES_N * 8);
  const int64_t first_row = (int64_t)blockIdx.x * SIZE, first_column = (int64_t)blockIdx.y * SIZE;
  const int8_t *x = p.x + first_row * p.x_stride, *weight = p.weight + first_column * p.weight_stride;
  const int64_t n_parts = (p.depth + GRAFT_I8_DEPTH - 1) / GRAFT_I8_DEPTH;
  int sums[TILES_M][TILES_N][4];
#pragma unroll
  for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
    for (int j = 0; j < TILES_N; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0;
  }
  auto copy_part = [&](int64_t part) {
    const uint32_t target = base + (uint32_t)(part % GRAFT_I8_STAGES) * STAGE_BYTES;
    if (part < n_parts) {
      const int64_t first = part * GRAFT_I8_DEPTH;
      copy_tile<SIZE, THREADS>(target, x, p.x_stride, p.m - first_row, first, p.depth);
      copy_tile<SIZE, THREADS>(target + SIZE * GRAFT_I8_DEPTH, weight, p.weight_stride, p.n - first_column, first,
                               p.depth);
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
  };
#pragma unroll
  for (int part = 0; part < GRAFT_I8_STAGES - 1; ++part) copy_part(part);
  for (int64_t part = 0; part < n_parts; ++part) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(GRAFT_I8_STAGES - 2) : "memory");
    __syncthreads();
    copy_part(part + GRAFT_I8_STAGES - 1);  // over the part that everybody is done with
    const uint32_t xs = base + (uint32_t)(part % GRAFT_I8_STAGES) * STAGE_BYTES, ws = xs + SIZE * GRAFT_I8_DEPTH;
#pragma unroll
    for (int step = 0; step < GRAFT_I8_DEPTH / 32; ++step) {
      uint32_t a[TILES_M][4], b[TILES_N / 2][4];
#pragma unroll
      for (int i = 0; i < TILES_M; ++i) {
        load_matrices(xs + place(warp_row + i * 16 + lane % 16, 2 * step + lane / 16), a[i]);
      }
#pragma unroll
      for (int j = 0; j < TILES_N / 2; ++j) {
        load_matrices(ws + place(warp_column + j * 16 + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2), b[j]);
      }
#pragma unroll
      for (int i = 0; i < TILES_M; ++i) {
#pragma unroll
        for (int j = 0; j < TILES_N; ++j) multiply(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < TILES_N; ++j) {
    const int64_t at = first_column + warp_column + j * 8 + lane % 4 * 2;
    const column left = load_column(p, at), right = load_column(p, at + 1);
#pragma unroll
    for (int i = 0; i < 2 * TILES_M; ++i) {
      const int64_t row = first_row + warp_row + i * 8 + lane / 4;
      if (row >= p.m) continue;
      const float x_scale = load_number(p.x_scale, row * p.x_scale_step);
      const int *s = sums[i / 2][j] + i % 2 * 2;
      store_two(p, row, at, to_number(p, __int2float_rn(s[0]), x_scale, left),
                to_number(p, __int2float_rn(s[1]), x_scale, right));
    }
  }
}

#else  // these cards run graft_linear_i8_tiles

template <int SIZE, int WARPS_M, int WARPS_N>
__device__ __forceinline__ void multiply_tile(const graft_linear_i8_params &) {}

#endif

extern "C" __global__ void __launch_bounds__(GRAFT_I8_LARGE_THREADS)
    graft_linear_i8_large(const graft_linear_i8_params p) {
  multiply_tile<GRAFT_I8_LARGE, 2, 4>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_I8_SMALL_THREADS)
    graft_linear_i8_small(const graft_linear_i8_params p) {
  multiply_tile<GRAFT_I8_SMALL, 2, 2>(p);
}

// Byte |at| of a packed x that is not contiguous.
__device__ __forceinline__ uint8_t packed_byte(const graft_linear_i8_params &p, int64_t at) {
  return (uint8_t)p.x[at / p.packed_columns * p.x_stride + at % p.packed_columns * p.x_step];
}

// Four terms from |first| on of a row whose elements are |step| bytes apart.
__device__ __forceinline__ int load_terms(const graft_linear_i8_params &p, const int8_t *row, int64_t step,
                                          int64_t first) {
  if (p.has_words && first + 4 <= p.depth) return *(const int *)(row + first);
  uint32_t bytes = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (first + e < p.depth) bytes |= (uint32_t)(uint8_t)row[(first + e) * step] << (8 * e);
  }
  return (int)bytes;
}

__device__ __forceinline__ int load_x(const graft_linear_i8_params &p, int64_t row, int64_t first) {
  int64_t offset[1];
  if (p.packed_columns == 0) {
    graft_walk_find<1>(p.x_rows, row, offset);
    return load_terms(p, p.x + offset[0], p.x_step, first);
  }
  uint32_t bytes = 0;
  for (int e = 0; e < 4 && first + e < p.depth; ++e) {
    bytes |= (uint32_t)packed_byte(p, row * p.depth + first + e) << (8 * e);
  }
  return (int)bytes;
}

__device__ __forceinline__ float load_x_scale(const graft_linear_i8_params &p, int64_t row) {
  int64_t offset[1];
  if (p.packed_columns == 0) {
    graft_walk_find<1>(p.x_scales, p.x_scales.n == 1 ? 0 : row, offset);
    return load_number(p.x_scale, offset[0]);
  }
  uint32_t bits = 0;
  for (int e = 0; e < 4; ++e) bits |= (uint32_t)packed_byte(p, p.packed_rows * p.depth + 4 * row + e) << (8 * e);
  return __uint_as_float(bits);
}

enum { WORDS = GRAFT_I8_DEPTH / 4, EACH = 4, ACROSS = GRAFT_I8_TILE / EACH };

// Any rows, any card, any number of terms: sums are taken over into 64 bits before they could be too large for 32.
extern "C" __global__ void __launch_bounds__(GRAFT_I8_TILE_THREADS)
    graft_linear_i8_tiles(const graft_linear_i8_params p) {
  __shared__ int xs[WORDS][GRAFT_I8_TILE + 1], ws[WORDS][GRAFT_I8_TILE + 1];
  const int across = threadIdx.x % ACROSS, down = threadIdx.x / ACROSS;
  const int64_t first_row = (int64_t)blockIdx.x * GRAFT_I8_TILE, first_column = (int64_t)blockIdx.y * GRAFT_I8_TILE;
  int64_t totals[EACH][EACH];
  int sums[EACH][EACH];
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
#pragma unroll
    for (int j = 0; j < EACH; ++j) totals[i][j] = sums[i][j] = 0;
  }
  for (int64_t first = 0; first < p.depth; first += GRAFT_I8_DEPTH) {
    __syncthreads();
    for (int at = threadIdx.x; at < WORDS * GRAFT_I8_TILE; at += GRAFT_I8_TILE_THREADS) {
      const int word = at % WORDS, row = at / WORDS;
      const int64_t term = first + word * 4, i = first_row + row, j = first_column + row;
      xs[word][row] = i < p.m ? load_x(p, i, term) : 0;
      ws[word][row] = j < p.n ? load_terms(p, p.weight + j * p.weight_stride, p.weight_step, term) : 0;
    }
    __syncthreads();
#pragma unroll
    for (int word = 0; word < WORDS; ++word) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
          sums[i][j] = __dp4a(xs[word][down * EACH + i], ws[word][across + j * ACROSS], sums[i][j]);
        }
      }
    }
    if ((first + GRAFT_I8_DEPTH) % GRAFT_I8_MOST_TERMS != 0 && first + GRAFT_I8_DEPTH < p.depth) continue;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
      for (int j = 0; j < EACH; ++j) {
        totals[i][j] += sums[i][j];
        sums[i][j] = 0;
      }
    }
  }
#pragma unroll
  for (int j = 0; j < EACH; ++j) {
    const int64_t at = first_column + across + j * ACROSS;
    const column c = load_column(p, at);
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
      const int64_t row = first_row + down * EACH + i;
      if (row >= p.m || at >= p.n) continue;
      const float x_scale = load_x_scale(p, row);
      store_one(p, row, at, to_number(p, __ll2float_rn(totals[i][j]), x_scale, c));
    }
  }
}
