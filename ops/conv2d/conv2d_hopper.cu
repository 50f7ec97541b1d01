// conv2d_hopper.cu — convolution of 16-bit floats for compute capability 9.0a. The image lies with channels innermost,
// so that a tap of the kernel is a box that the copy engine fetches, zeros where it reaches over the edge. One thread
// fetches boxes of 64 channels of weights and pixels several steps ahead; two warpgroups multiply.
#include "ops/common/cuda/epilogue.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "ops/common/cuda/hopper.cuh"
#include "ops/conv2d/conv2d_params.h"

enum { N_WARPS = 8, ROW_BYTES = 128 };

// What a thread of the gathering kernel moves: eight channels of eight pixels.
union square {
  uint4 rows[8];
  uint32_t words[8][4];
  uint16_t halves[8][8];
};

__device__ __forceinline__ void load_square(const graft_conv2d_gather_params &p, int item, int channel, int pixel,
                                            square *s) {
  const char *from = p.x + item * p.x_strides[0] + channel * p.x_strides[1];
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    s->rows[c] = make_uint4(0, 0, 0, 0);
    if (channel + c >= p.n_channels) continue;
    if (p.is_wide) {
      s->rows[c] = *(const uint4 *)(from + c * p.x_strides[1] + (int64_t)pixel * 2);
      continue;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int down = (pixel + i) / p.width, across = pixel + i - down * p.width;
      if (pixel + i >= p.n_pixels) continue;
      s->halves[c][i] =
          *(const uint16_t *)(from + c * p.x_strides[1] + down * p.x_strides[2] + across * p.x_strides[3]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) graft_conv2d_gather(const graft_conv2d_gather_params p) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, item = blockIdx.y;
  const int block = blockIdx.x / p.n_channel_blocks;
  const int pixel = block * GRAFT_CONV_GATHER_PIXELS + warp * 64 + lane % 8 * 8;
  const int channel = (blockIdx.x - block * p.n_channel_blocks) * GRAFT_CONV_GATHER_CHANNELS + lane / 8 * 8;
  if (pixel >= p.n_pixels || channel >= p.padded_channels) return;
  square s;
  load_square(p, item, channel, pixel, &s);
  uint16_t *to = p.out + ((int64_t)item * p.n_pixels + pixel) * p.padded_channels + channel;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t half = i % 2 == 0 ? 0x5410 : 0x7632;
    uint4 out;
    out.x = __byte_perm(s.words[0][i / 2], s.words[1][i / 2], half);
    out.y = __byte_perm(s.words[2][i / 2], s.words[3][i / 2], half);
    out.z = __byte_perm(s.words[4][i / 2], s.words[5][i / 2], half);
    out.w = __byte_perm(s.words[6][i / 2], s.words[7][i / 2], half);
    if (pixel + i < p.n_pixels) *(uint4 *)(to + (int64_t)i * p.padded_channels) = out;
  }
}

// N pixels for each warpgroup.
template <int N>
struct memory {
  static constexpr uint32_t STAGE_BYTES = N == 256 ? 48 << 10 : 24 << 10;
  static constexpr uint32_t STAGES = GRAFT_CONV_HOPPER_STAGE_BYTES / STAGE_BYTES;
  uint32_t base;
  __device__ uint32_t stage(uint32_t turn) const { return base + turn % STAGES * STAGE_BYTES; }
  __device__ uint32_t full(uint32_t turn) const { return base + STAGES * STAGE_BYTES + turn % STAGES * 8; }
  __device__ uint32_t empty(uint32_t turn) const { return full(turn) + STAGES * 8; }
};

struct place {
  int item, channel, down, across;
};

// Tiles of channels are numbered first, so that blocks of about the same time share pixels.
__device__ __forceinline__ place find_tile(const graft_conv2d_hopper_params &p, int tile) {
  place at;
  int rest = tile / p.n_channel_tiles;
  at.channel = (tile - rest * p.n_channel_tiles) * p.tile_channels;
  int row = rest / p.tiles_across;
  at.across = (rest - row * p.tiles_across) << p.tile_width_log2;
  at.item = row / p.tiles_down;
  at.down = (row - at.item * p.tiles_down) * p.tile_height;
  return at;
}

template <int N>
__device__ __forceinline__ void fetch_all(const graft_conv2d_hopper_params &p, const memory<N> &m) {
  const graft_conv2d_params &c = p.common;
  const uint32_t weight_bytes = p.tile_channels * ROW_BYTES;
  const uint32_t bytes = weight_bytes + (p.tile_height << p.tile_width_log2) * ROW_BYTES;
  uint32_t turn = 0;
  for (int tile = blockIdx.x; tile < p.n_tiles; tile += gridDim.x) {
    const place at = find_tile(p, tile);
    for (int tap = 0; tap < c.kernel_height * c.kernel_width; ++tap) {
      const int ky = tap / c.kernel_width, kx = tap - ky * c.kernel_width;
      const int down = at.down + ky * c.dilation[0] - c.padding[0];
      const int across = at.across + kx * c.dilation[1] - c.padding[1];
      for (int part = 0; part < p.n_parts; ++part, ++turn) {
        const uint32_t full = m.full(turn), to = m.stage(turn);
        graft_barrier_wait(m.empty(turn), turn / m.STAGES - 1);
        graft_barrier_expect(full, bytes);
        graft_fetch_box(to, p.weights, full, part * GRAFT_HOPPER_TILE, at.channel, tap);
        graft_fetch_box(to + weight_bytes, p.pixels, full, part * GRAFT_HOPPER_TILE, across, down, at.item);
      }
    }
  }
}

__device__ __forceinline__ void release(uint32_t empty) {
  if (threadIdx.x % 32 == 0) graft_barrier_arrive(empty);
}

// All products of a tile; |turn| counts steps over all of the block's work.
template <bool IS_BF16, int N>
__device__ __forceinline__ void multiply_all(const memory<N> &m, float (&sums)[N / 2], uint32_t weights,
                                             uint32_t pixels, uint32_t turn, int n_steps) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sums[i] = 0;
  graft_hold(sums);
  for (int step = 0; step < n_steps; ++step, ++turn) {
    graft_barrier_wait(m.full(turn), turn / m.STAGES);
    const uint64_t a = graft_tile_at(m.stage(turn) + weights, 0), b = graft_tile_at(m.stage(turn) + pixels, 0);
    graft_products_begin();
#pragma unroll
    for (int i = 0; i < GRAFT_HOPPER_TILE / 16; ++i) {
      graft_multiply<IS_BF16>(sums, a + i * (32 >> 4), b + i * (32 >> 4), 1);
    }
    graft_products_commit();
    graft_products_wait<1>();
    if (step > 0) release(m.empty(turn - 1));
  }
  graft_products_wait<0>();
  graft_hold(sums);
  release(m.empty(turn - 1));
}

template <bool IS_BF16>
__device__ __forceinline__ float load_half(uint32_t bits) {
  return IS_BF16 ? graft_from_bf16((uint16_t)bits) : graft_from_f16((uint16_t)bits);
}

// Bias and activation, for the channels |channel| and |channel| + 8 that a thread has.
template <int N>
__device__ __forceinline__ void finish(const graft_conv2d_params &p, float (&sums)[N / 2], int channel) {
  float bias[2] = {0, 0};
  for (int half = 0; half < 2; ++half) {
    if (p.bias.data == nullptr || channel + half * 8 >= p.out_channels) continue;
    bias[half] = graft_load(p.bias.data + (channel + half * 8) * p.bias_step, p.bias.type);
  }
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sums[i] += bias[i % 4 / 2];
  if (p.activation == 0) return;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) sums[i] = graft_silu_fast(sums[i]);
}

// Where pixel |pixel| of a tile lies; outside of the image, nothing is stored.
struct spot {
  int64_t y, residual;
  bool is_inside;
};

__device__ __forceinline__ spot find_spot(const graft_conv2d_hopper_params &p, const place &at, int pixel) {
  const graft_conv2d_params &c = p.common;
  const int down = at.down + (pixel >> p.tile_width_log2);
  const int across = at.across + (pixel & ((1 << p.tile_width_log2) - 1));
  spot s;
  s.y = down * c.y_strides[2] + across * c.y_strides[3];
  s.residual = down * c.residual_strides[2] + across * c.residual_strides[3];
  s.is_inside = down < c.out_height && across < c.out_width;
  return s;
}

// What a warpgroup has of a tile: rows of channels from |y| on, eight further for |half| 1; NULL where there is none.
struct rows {
  char *y[2];
  const char *residual[2];
};

__device__ __forceinline__ rows find_rows(const graft_conv2d_params &p, const place &at, int channel) {
  rows r;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t c = channel + half * 8;
    const bool is_there = c < p.out_channels;
    r.y[half] = is_there ? p.y.data + at.item * p.y_strides[0] + c * p.y_strides[1] : nullptr;
    const char *residual = p.residual.data + at.item * p.residual_strides[0] + c * p.residual_strides[1];
    r.residual[half] = is_there && p.residual.data != nullptr ? residual : nullptr;
  }
  return r;
}

// Lanes beside each other exchange two of their four results, so that each stores four neighbours: the first of eight
// pixels in the even lanes, of the eight behind them in the odd ones.
template <bool IS_BF16, int N>
__device__ __forceinline__ void store_fours(const graft_conv2d_hopper_params &p, const float (&sums)[N / 2],
                                            const place &at, const rows &r, int first_pixel) {
  const int lane = threadIdx.x % 32;
  const bool is_odd = lane % 2 != 0;
#pragma unroll
  for (int n = 0; n < N / 8; n += 2) {
    const spot to = find_spot(p, at, first_pixel + (n + is_odd) * 8 + lane % 4 / 2 * 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float *low = sums + n * 4 + half * 2, *high = low + 4;
      const float a = is_odd ? high[0] : low[0], b = is_odd ? high[1] : low[1];
      const float c = __shfl_xor_sync(0xffffffffu, is_odd ? low[0] : high[0], 1);
      const float d = __shfl_xor_sync(0xffffffffu, is_odd ? low[1] : high[1], 1);
      float x[4] = {is_odd ? c : a, is_odd ? d : b, is_odd ? a : c, is_odd ? b : d};
      if (!to.is_inside || r.y[half] == nullptr) continue;
      if (r.residual[half] != nullptr) {
        const uint2 rest = *(const uint2 *)(r.residual[half] + to.residual);
        x[0] += load_half<IS_BF16>(rest.x), x[1] += load_half<IS_BF16>(rest.x >> 16);
        x[2] += load_half<IS_BF16>(rest.y), x[3] += load_half<IS_BF16>(rest.y >> 16);
      }
      *(uint2 *)(r.y[half] + to.y) = make_uint2(graft_to_pair<IS_BF16>(x[0], x[1]), graft_to_pair<IS_BF16>(x[2], x[3]));
    }
  }
}

template <bool IS_BF16, int N>
__device__ __forceinline__ void store_singly(const graft_conv2d_hopper_params &p, const float (&sums)[N / 2],
                                             const place &at, const rows &r, int first_pixel) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const int half = i % 4 / 2;
    const spot to = find_spot(p, at, first_pixel + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2);
    if (!to.is_inside || r.y[half] == nullptr) continue;
    float x = sums[i];
    if (r.residual[half] != nullptr) x += load_half<IS_BF16>(*(const uint16_t *)(r.residual[half] + to.residual));
    *(uint16_t *)(r.y[half] + to.y) = (uint16_t)graft_to_pair<IS_BF16>(x, 0);
  }
}

template <bool IS_BF16, int N>
__device__ __forceinline__ void convolve_all(const graft_conv2d_hopper_params &p, const memory<N> &m, int group) {
  const graft_conv2d_params &c = p.common;
  const int lane = threadIdx.x % 32, n_steps = c.kernel_height * c.kernel_width * p.n_parts;
  const bool has_half_of_pixels = p.tile_channels == 64;
  const uint32_t weights = has_half_of_pixels ? 0 : group * 64 * ROW_BYTES;
  const uint32_t pixels = p.tile_channels * ROW_BYTES + (has_half_of_pixels ? group * N * ROW_BYTES : 0);
  const int own_channel = (has_half_of_pixels ? 0 : group * 64) + threadIdx.x % 128 / 32 * 16 + lane / 4;
  const int first_pixel = has_half_of_pixels ? group * N : 0;
  uint32_t turn = 0;
  for (int tile = blockIdx.x; tile < p.n_tiles; tile += gridDim.x) {
    float sums[N / 2];
    const place at = find_tile(p, tile);
    multiply_all<IS_BF16>(m, sums, weights, pixels, turn, n_steps);
    turn += n_steps;
    finish<N>(c, sums, at.channel + own_channel);
    const rows r = find_rows(c, at, at.channel + own_channel);
    if (p.has_fours) {
      store_fours<IS_BF16, N>(p, sums, at, r, first_pixel);
    } else {
      store_singly<IS_BF16, N>(p, sums, at, r, first_pixel);
    }
  }
}

template <bool IS_BF16, int N>
__device__ __forceinline__ void run(const graft_conv2d_hopper_params &p) {
  extern __shared__ char bytes[];
  const memory<N> m = {graft_hopper_memory(bytes)};
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    graft_prefetch_map(p.pixels), graft_prefetch_map(p.weights);
    for (uint32_t i = 0; i < m.STAGES; ++i) {
      graft_barrier_init(m.full(i), 1);
      graft_barrier_init(m.empty(i), N_WARPS);
    }
    graft_barrier_publish();
  }
  __syncthreads();
  if (group == 0) {
    graft_registers_give<40>();
    if (threadIdx.x == 0) fetch_all(p, m);
  } else {
    graft_registers_take<232>();
    convolve_all<IS_BF16>(p, m, group - 1);
  }
}

#define KERNEL(name, is_bf16, n)                                        \
  extern "C" __global__ void __launch_bounds__(GRAFT_HOPPER_THREADS, 1) \
      name(const __grid_constant__ graft_conv2d_hopper_params p) {      \
    run<is_bf16, n>(p);                                                 \
  }

KERNEL(graft_conv2d_hopper_bf16_64, true, 64)
KERNEL(graft_conv2d_hopper_bf16_256, true, 256)
KERNEL(graft_conv2d_hopper_f16_64, false, 64)
KERNEL(graft_conv2d_hopper_f16_256, false, 256)
#endif
