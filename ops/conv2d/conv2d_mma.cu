// conv2d_mma.cu — convolution of 16-bit floats on tensor cores: tiles of 128 channels by 128 pixels, 32 products deep,
// eight warps of 64 by 32. The next tile is fetched into registers while the present one is multiplied.
#include "ops/common/cuda/epilogue.cuh"
#include "ops/conv2d/conv2d_params.h"

enum {
  CHANNELS = GRAFT_CONV_MMA_CHANNELS,
  PIXELS = GRAFT_CONV_MMA_PIXELS,
  DEPTH = 32,
  THREADS = GRAFT_CONV_THREADS,
  ROWS = DEPTH * PIXELS / THREADS,  // of the image's tile that a thread fetches, all of one pixel
  PIECES = CHANNELS * DEPTH / 8 / THREADS
};

#if __CUDA_ARCH__ >= 800

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((uint32_t)__cvta_generic_to_shared(p)));
}

__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const void *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((uint32_t)__cvta_generic_to_shared(p)));
}

template <bool IS_BF16>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if (IS_BF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Both tiles, chunks of eight numbers exchanged so that eight rows fall into different banks.
struct tiles {
  uint4 weights[CHANNELS][DEPTH / 8];
  uint4 pixels[DEPTH][PIXELS / 8];
  __device__ __forceinline__ uint4 *weight(int row, int chunk) { return &weights[row][chunk ^ row / 2 % 4]; }
  __device__ __forceinline__ uint4 *pixel(int row, int chunk) {
    return &pixels[row][(chunk & ~7) | ((chunk ^ row) & 7)];
  }
};

struct place {
  int64_t item;
  int down, across;
};

__device__ __forceinline__ place find_pixel(const graft_conv2d_params &p, int64_t pixel) {
  const int64_t size = (int64_t)p.out_height * p.out_width;
  place at;
  at.item = pixel / size;
  const int inner = (int)(pixel - at.item * size);
  at.down = inner / p.out_width;
  at.across = inner - at.down * p.out_width;
  return at;
}

// What a thread fetches: pieces of weights, and one pixel's row of products.
struct fetched {
  uint4 weights[PIECES];
  uint16_t pixels[ROWS];
};

struct source {
  const char *x, *weight;  // of this group; x of this item
  int top, left, depth, first_channel;
  bool is_pixel;
};

__device__ __forceinline__ uint4 fetch_weights(const graft_conv2d_params &p, const source &s, int channel, int k) {
  union {
    uint4 whole;
    uint16_t each[8];
  } piece = {};
  if (channel >= p.out_channels || k >= s.depth) return piece.whole;
  const char *from = s.weight + channel * p.weight_strides[0] + k * 2;
  if (p.has_even_weights) return *(const uint4 *)from;
#pragma unroll
  for (int i = 0; i < 8; ++i) piece.each[i] = k + i < s.depth ? *(const uint16_t *)(from + i * 2) : 0;
  return piece.whole;
}

__device__ __forceinline__ void fetch(const graft_conv2d_params &p, const source &s, int begin, fetched *f) {
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const int piece = threadIdx.x + i * THREADS;
    f->weights[i] = fetch_weights(p, s, s.first_channel + piece / (DEPTH / 8), begin + piece % (DEPTH / 8) * 8);
  }
  int k = begin + threadIdx.x / PIXELS * ROWS;
  const int kernel = p.kernel_height * p.kernel_width;
  const int c = k / kernel;
  int ky = (k - c * kernel) / p.kernel_width, kx = k - c * kernel - ky * p.kernel_width;
  // Steps of the address from one product to the next, to the next row and to the next channel of the kernel.
  const int64_t across_step = p.dilation[1] * p.x_strides[3], row_width = p.kernel_width * across_step;
  const int64_t down_step = p.dilation[0] * p.x_strides[2], plane_height = p.kernel_height * down_step;
  int down = s.top + ky * p.dilation[0], across = s.left + kx * p.dilation[1];
  const char *from = s.x + c * p.x_strides[1] + down * p.x_strides[2] + across * p.x_strides[3];
#pragma unroll
  for (int i = 0; i < ROWS; ++i, ++k) {
    const bool is_inside =
        k < s.depth && s.is_pixel && (unsigned)down < (unsigned)p.height && (unsigned)across < (unsigned)p.width;
    f->pixels[i] = is_inside ? *(const uint16_t *)from : 0;
    from += across_step, across += p.dilation[1];
    if (++kx < p.kernel_width) continue;
    kx = 0, across = s.left;
    from += down_step - row_width, down += p.dilation[0];
    if (++ky < p.kernel_height) continue;
    ky = 0, down = s.top;
    from += p.x_strides[1] - plane_height;
  }
}

__device__ __forceinline__ void keep(const fetched &f, tiles *t) {
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const int piece = threadIdx.x + i * THREADS;
    *t->weight(piece / (DEPTH / 8), piece % (DEPTH / 8)) = f.weights[i];
  }
  const int column = threadIdx.x % PIXELS, row = threadIdx.x / PIXELS * ROWS;
#pragma unroll
  for (int i = 0; i < ROWS; ++i) ((uint16_t *)t->pixel(row + i, column / 8))[column % 8] = f.pixels[i];
}

template <bool IS_BF16>
__device__ __forceinline__ void multiply_tiles(tiles *t, int channel, int pixel, float (&sums)[4][4][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < DEPTH / 16; ++k) {
    uint32_t a[4][4], b[2][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) load_matrices(a[m], t->weight(channel + m * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (int n = 0; n < 2; ++n) load_transposed(b[n], t->pixel(k * 16 + lane % 16, pixel / 8 + n * 2 + lane / 16));
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 4; ++n) multiply<IS_BF16>(sums[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }
}

__device__ __forceinline__ float load_optional(const graft_cuda_operand &o, int64_t offset, float otherwise) {
  return o.data == nullptr ? otherwise : graft_load(o.data + offset, o.type);
}

__device__ __forceinline__ int64_t offset_of(const int64_t *strides, const place &at, int64_t channel) {
  return at.item * strides[0] + channel * strides[1] + at.down * strides[2] + at.across * strides[3];
}

__device__ __forceinline__ void finish(const graft_conv2d_params &p, const place &at, int channel, float sum) {
  if (channel >= p.out_channels) return;
  const int64_t c = (int64_t)blockIdx.z * p.out_channels + channel;
  const float bias = load_optional(p.bias, c * p.bias_step, 0.0f);
  const float gate = load_optional(p.gate, offset_of(p.gate_strides, at, c), 1.0f);
  const float residual = load_optional(p.residual, offset_of(p.residual_strides, at, c), 0.0f);
  const float y = graft_activate(sum + bias, p.activation) * gate + residual;
  graft_store(p.y.data + offset_of(p.y_strides, at, c), p.y.type, y);
}

template <bool IS_BF16>
__device__ __forceinline__ void convolve(const graft_conv2d_params &p) {
  __shared__ tiles memory[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int channel = warp / 4 * 64, pixel = warp % 4 * 32;
  const int64_t first_pixel = (int64_t)blockIdx.x * PIXELS, own = first_pixel + threadIdx.x % PIXELS;
  source s;
  s.is_pixel = own < p.n_pixels;
  const place from = find_pixel(p, s.is_pixel ? own : 0);
  s.depth = p.in_channels * p.kernel_height * p.kernel_width;
  s.first_channel = blockIdx.y * CHANNELS;
  s.top = from.down * p.stride[0] - p.padding[0];
  s.left = from.across * p.stride[1] - p.padding[1];
  s.x = p.x.data + from.item * p.x_strides[0] + (int64_t)blockIdx.z * p.in_channels * p.x_strides[1];
  s.weight = p.weight.data + (int64_t)blockIdx.z * p.out_channels * p.weight_strides[0];
  float sums[4][4][4] = {};
  fetched f;
  fetch(p, s, 0, &f);
  keep(f, &memory[0]);
  __syncthreads();
  for (int begin = 0, stage = 0; begin < s.depth; begin += DEPTH, stage ^= 1) {
    const bool has_next = begin + DEPTH < s.depth;
    if (has_next) fetch(p, s, begin + DEPTH, &f);
    multiply_tiles<IS_BF16>(&memory[stage], channel, pixel, sums);
    if (has_next) keep(f, &memory[stage ^ 1]);
    __syncthreads();
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int64_t to = first_pixel + pixel + n * 8 + lane % 4 * 2 + i;
      if (to >= p.n_pixels) continue;
      const place at = find_pixel(p, to);
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        const int c = s.first_channel + channel + m * 16 + lane / 4;
        finish(p, at, c, sums[m][n][i]);
        finish(p, at, c + 8, sums[m][n][2 + i]);
      }
    }
  }
}

#define BODY(is_bf16) convolve<is_bf16>(p)
#else
#define BODY(is_bf16)  // older cards are never asked
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) graft_conv2d_bf16(const graft_conv2d_params p) {
  BODY(true);
}
extern "C" __global__ void __launch_bounds__(THREADS, 1) graft_conv2d_f16(const graft_conv2d_params p) {
  BODY(false);
}
