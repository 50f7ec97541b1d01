// conv2d.cu — device code of conv2d_params.h: tiles of 64 channels by 64 pixels, sums in float32.
#include "ops/common/cuda/epilogue.cuh"
#include "ops/conv2d/conv2d_params.h"

enum { TILE = GRAFT_CONV_TILE, DEPTH = GRAFT_CONV_DEPTH, EACH = 4 };

// Where a pixel of the result lies.
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

__device__ __forceinline__ int64_t offset_of(const int64_t *strides, const place &at, int64_t channel) {
  return at.item * strides[0] + channel * strides[1] + at.down * strides[2] + at.across * strides[3];
}

__device__ __forceinline__ float load_optional(const graft_cuda_operand &o, int64_t offset, float otherwise) {
  return o.data == nullptr ? otherwise : graft_load(o.data + offset, o.type);
}

extern "C" __global__ void __launch_bounds__(GRAFT_CONV_THREADS) graft_conv2d_tiles(const graft_conv2d_params p) {
  __shared__ float weights[DEPTH][TILE + 4], pixels[DEPTH][TILE + 4];
  const int t = threadIdx.x, group = blockIdx.z;
  const int kernel = p.kernel_height * p.kernel_width, depth = p.in_channels * kernel;
  const int64_t first_pixel = (int64_t)blockIdx.x * TILE;
  const int first_channel = (int)blockIdx.y * TILE;
  // Each thread fetches one column of the tiles, every fourth row of it.
  const int column = t % TILE, first_row = t / TILE;
  const bool is_pixel = first_pixel + column < p.n_pixels;
  const place from = find_pixel(p, is_pixel ? first_pixel + column : 0);
  const int top = from.down * p.stride[0] - p.padding[0], left = from.across * p.stride[1] - p.padding[1];
  const int out_channel = first_channel + column;
  const char *x = p.x.data + from.item * p.x_strides[0] + (int64_t)group * p.in_channels * p.x_strides[1];
  const char *w = p.weight.data + ((int64_t)group * p.out_channels + out_channel) * p.weight_strides[0];
  float sums[EACH][EACH] = {};
  const int ty = t / 16 * EACH, tx = t % 16 * EACH;
  for (int begin = 0; begin < depth; begin += DEPTH) {
    for (int row = first_row; row < DEPTH; row += GRAFT_CONV_THREADS / TILE) {
      const int k = begin + row, c = k / kernel, inner = k - c * kernel;
      const int ky = inner / p.kernel_width, kx = inner - ky * p.kernel_width;
      const int down = top + ky * p.dilation[0], across = left + kx * p.dilation[1];
      const bool is_inside = k < depth && is_pixel && down >= 0 && down < p.height && across >= 0 && across < p.width;
      pixels[row][column] =
          is_inside ? graft_load(x + c * p.x_strides[1] + down * p.x_strides[2] + across * p.x_strides[3], p.x.type)
                    : 0.0f;
      weights[row][column] =
          k < depth && out_channel < p.out_channels
              ? graft_load(w + c * p.weight_strides[1] + ky * p.weight_strides[2] + kx * p.weight_strides[3],
                           p.weight.type)
              : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      const float4 a = *(const float4 *)&weights[k][ty], b = *(const float4 *)&pixels[k][tx];
      const float as[EACH] = {a.x, a.y, a.z, a.w}, bs[EACH] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) sums[i][j] = fmaf(as[i], bs[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < EACH; ++j) {
    if (first_pixel + tx + j >= p.n_pixels) break;
    const place at = find_pixel(p, first_pixel + tx + j);
    for (int i = 0; i < EACH && first_channel + ty + i < p.out_channels; ++i) {
      const int64_t channel = (int64_t)group * p.out_channels + first_channel + ty + i;
      const float bias = load_optional(p.bias, channel * p.bias_step, 0.0f);
      const float gate = load_optional(p.gate, offset_of(p.gate_strides, at, channel), 1.0f);
      const float residual = load_optional(p.residual, offset_of(p.residual_strides, at, channel), 0.0f);
      const float y = graft_activate(sums[i][j] + bias, p.activation) * gate + residual;
      graft_store(p.y.data + offset_of(p.y_strides, at, channel), p.y.type, y);
    }
  }
}
