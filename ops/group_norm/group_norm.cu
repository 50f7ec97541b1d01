// group_norm.cu — device code of group_norm_params.h. Element e of a group is place e % places of channel e / places.
#include "ops/common/cuda/held.cuh"
#include "ops/group_norm/group_norm_params.h"

struct tensor {
  const int64_t *strides, *place_strides;
};

__device__ __forceinline__ int64_t find(const graft_group_norm_params &p, const tensor &t, int64_t group,
                                        int64_t element, int64_t *out_channel) {
  const int64_t channels = p.n_channels / p.n_groups, item = group / p.n_groups;
  const int64_t inner =
      (element | p.n_places) >> 32 == 0 ? (uint32_t)element / (uint32_t)p.n_places : element / p.n_places;
  const int64_t channel = group % p.n_groups * channels + inner;
  *out_channel = channel;
  int64_t place = element - inner * p.n_places, offset = item * t.strides[0] + channel * t.strides[1];
  for (int d = 0; d < p.n_place_dims - 1; ++d) {
    const int64_t rest = place / p.place_shape[d];
    offset += (place - rest * p.place_shape[d]) * t.place_strides[d];
    place = rest;
  }
  return p.n_place_dims > 0 ? offset + place * t.place_strides[p.n_place_dims - 1] : offset;
}

__device__ __forceinline__ float load(const graft_group_norm_params &p, int64_t group, int64_t element,
                                      int64_t *out_channel) {
  return graft_load(p.x.data + find(p, {p.x_strides, p.x_place_strides}, group, element, out_channel), p.x.type);
}

struct span {
  int64_t group, begin, end;
};

__device__ __forceinline__ span find_chunk(const graft_group_norm_params &p, int64_t chunk) {
  const int64_t size = p.n_channels / p.n_groups * p.n_places;
  span s;
  const uint32_t group = (uint32_t)chunk / (uint32_t)p.n_chunks;
  s.group = group;
  s.begin = (int64_t)((uint32_t)chunk - group * (uint32_t)p.n_chunks) * GRAFT_GROUP_NORM_CHUNK;
  s.end = min(size, s.begin + GRAFT_GROUP_NORM_CHUNK);
  return s;
}

// A chunk of channels that lie behind each other, as the threads of a block hold it: groups of sixteen bytes.
// Beyond the end, its first ones stand.
template <int TYPE>
struct held {
  static constexpr int WIDTH = graft_group<TYPE>::WIDTH;
  static constexpr int GROUPS = GRAFT_GROUP_NORM_CHUNK / GRAFT_GROUP_NORM_THREADS / WIDTH;
  uint4 bits[GROUPS];
  float first;

  static __device__ __forceinline__ int element(int i) {
    return (i * GRAFT_GROUP_NORM_THREADS + (int)threadIdx.x) * WIDTH;
  }
};

// The chunk's first element in |tensor|.
__device__ __forceinline__ char *find_flat(const graft_group_norm_params &p, const graft_cuda_operand &tensor,
                                           int64_t item_stride, const span &s) {
  const int64_t size = p.n_channels / p.n_groups * p.n_places;
  const uint32_t item = (uint32_t)s.group / (uint32_t)p.n_groups, group = (uint32_t)s.group % (uint32_t)p.n_groups;
  return tensor.data + item * item_stride + (group * size + s.begin) * tensor.element_bytes;
}

template <int TYPE>
__device__ __forceinline__ void fetch(const graft_group_norm_params &p, int64_t chunk, held<TYPE> *h) {
  const span s = find_chunk(p, chunk);
  const char *x = find_flat(p, p.x, p.x_strides[0], s);
  const int n = (int)(s.end - s.begin);
#pragma unroll
  for (int i = 0; i < held<TYPE>::GROUPS; ++i) {
    const int element = held<TYPE>::element(i);
    h->bits[i] = *(const uint4 *)(x + (element < n ? element : 0) * graft_group<TYPE>::BYTES);
  }
  h->first = graft_load(x, TYPE);
}

__device__ __forceinline__ void store_moments(const graft_group_norm_params &p, int64_t chunk, float first, float rest,
                                              float squares) {
  if (threadIdx.x != 0) return;
  p.chunks[3 * chunk] = first;
  p.chunks[3 * chunk + 1] = rest;
  p.chunks[3 * chunk + 2] = squares;
}

// Moments are taken from differences to the chunk's first element, so that a large mean costs no digits. The next chunk
// is on its way meanwhile.
template <int TYPE>
__device__ __forceinline__ void sum_held(const graft_group_norm_params &p) {
  constexpr int WIDTH = held<TYPE>::WIDTH, N = held<TYPE>::GROUPS * WIDTH;
  __shared__ float shared[32];
  held<TYPE> next;
  fetch(p, blockIdx.x, &next);
  for (int64_t chunk = blockIdx.x; chunk < p.n_all_chunks; chunk += gridDim.x) {
    const held<TYPE> h = next;
    if (chunk + gridDim.x < p.n_all_chunks) fetch(p, chunk + gridDim.x, &next);
    const span s = find_chunk(p, chunk);
    const int n = (int)(s.end - s.begin);
    float x[N], sum = 0, squares = 0;
    graft_spread<TYPE>(h.bits, x);
#pragma unroll
    for (int g = 0; g < held<TYPE>::GROUPS; ++g) {
      float part = 0;
#pragma unroll
      for (int i = g * WIDTH; i < (g + 1) * WIDTH; ++i) part += x[i] - h.first;
      sum += held<TYPE>::element(g) < n ? part : 0.0f;
    }
    const float rest = graft_block_sum(sum, shared) / (float)n;
#pragma unroll
    for (int g = 0; g < held<TYPE>::GROUPS; ++g) {
      float part = 0;
#pragma unroll
      for (int i = g * WIDTH; i < (g + 1) * WIDTH; ++i) {
        const float d = x[i] - h.first - rest;
        part = fmaf(d, d, part);
      }
      squares += held<TYPE>::element(g) < n ? part : 0.0f;
    }
    store_moments(p, chunk, h.first, rest, graft_block_sum(squares, shared));
  }
}

__device__ __forceinline__ void sum_chunk(const graft_group_norm_params &p) {
  __shared__ float shared[32];
  const span s = find_chunk(p, blockIdx.x);
  int64_t channel;
  const float first = load(p, s.group, s.begin, &channel);
  float sum = 0, squares = 0;
  for (int64_t e = s.begin + threadIdx.x; e < s.end; e += blockDim.x) {
    sum += load(p, s.group, e, &channel) - first;
  }
  const float rest = graft_block_sum(sum, shared) / (float)(s.end - s.begin);
  for (int64_t e = s.begin + threadIdx.x; e < s.end; e += blockDim.x) {
    const float d = load(p, s.group, e, &channel) - first - rest;
    squares = fmaf(d, d, squares);
  }
  store_moments(p, blockIdx.x, first, rest, graft_block_sum(squares, shared));
}

extern "C" __global__ void graft_group_norm_chunks(const graft_group_norm_params p) {
  sum_chunk(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_chunks_f32(const graft_group_norm_params p) {
  sum_held<GRAFT_DTYPE_F32>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_chunks_bf16(const graft_group_norm_params p) {
  sum_held<GRAFT_DTYPE_BF16>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_chunks_f16(const graft_group_norm_params p) {
  sum_held<GRAFT_DTYPE_F16>(p);
}

__device__ __forceinline__ double block_sum(double x, double *shared) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
  for (int i = 0; i < GRAFT_GROUP_NORM_THREADS / 32; ++i) x += shared[i];
  return x;
}

// Joins the chunks of a group, always in the same order; in double, there are few.
extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS)
    graft_group_norm_join(const graft_group_norm_params p) {
  __shared__ double shared[GRAFT_GROUP_NORM_THREADS / 32];
  const int64_t size = p.n_channels / p.n_groups * p.n_places, group = blockIdx.x;
  const float *chunks = p.chunks + 3 * group * p.n_chunks;
  const auto count = [&](int64_t c) {
    return (double)min((int64_t)GRAFT_GROUP_NORM_CHUNK, size - c * GRAFT_GROUP_NORM_CHUNK);
  };
  const auto mean_of = [&](int64_t c) { return (double)chunks[3 * c] + (double)chunks[3 * c + 1]; };
  const double first = mean_of(0);
  double sum = 0, squares = 0;
  for (int64_t c = threadIdx.x; c < p.n_chunks; c += blockDim.x) sum += count(c) * (mean_of(c) - first);
  const double rest = block_sum(sum, shared) / (double)size;
  for (int64_t c = threadIdx.x; c < p.n_chunks; c += blockDim.x) {
    const double delta = mean_of(c) - first - rest;
    squares += (double)chunks[3 * c + 2] + count(c) * delta * delta;
  }
  squares = block_sum(squares, shared);
  if (threadIdx.x != 0) return;
  const double mean = first + rest;
  const float high = (float)mean;
  p.moments[3 * group] = high;
  p.moments[3 * group + 1] = (float)(mean - (double)high);
  p.moments[3 * group + 2] = (float)(1.0 / sqrt(squares / (double)size + (double)p.eps));
}

// What an element of a channel becomes.
struct rule {
  float high, low, factor, weight, bias;
  bool has_silu, is_16bit;
  __device__ __forceinline__ float operator()(float x) const {
    const float y = (x - high - low) * factor * weight + bias;
    return !has_silu ? y : is_16bit ? graft_silu_fast(y) : graft_silu_of(y);
  }
};

__device__ __forceinline__ rule find_rule(const graft_group_norm_params &p, int64_t group) {
  rule r;
  r.high = p.moments[3 * group], r.low = p.moments[3 * group + 1], r.factor = p.moments[3 * group + 2];
  r.has_silu = p.has_silu;
  r.is_16bit = p.y.type == GRAFT_DTYPE_BF16 || p.y.type == GRAFT_DTYPE_F16;
  return r;
}

__device__ __forceinline__ void find_channel(const graft_group_norm_params &p, int64_t channel, rule *r) {
  r->weight = p.weight.data == nullptr ? 1.0f : graft_load(p.weight.data + channel * p.weight_step, p.weight.type);
  r->bias = p.bias.data == nullptr ? 0.0f : graft_load(p.bias.data + channel * p.bias_step, p.bias.type);
}

// From the last chunk to the first: what was read last is still in the cache.
template <int TYPE>
__device__ __forceinline__ void apply_held(const graft_group_norm_params &p) {
  constexpr int WIDTH = held<TYPE>::WIDTH;
  const int64_t last = p.n_all_chunks - 1;
  const uint32_t n_places = (uint32_t)p.n_places, channels = (uint32_t)(p.n_channels / p.n_groups);
  held<TYPE> next;
  fetch(p, last - blockIdx.x, &next);
  for (int64_t back = blockIdx.x; back <= last; back += gridDim.x) {
    const held<TYPE> h = next;
    if (back + gridDim.x <= last) fetch(p, last - back - gridDim.x, &next);
    const span s = find_chunk(p, last - back);
    char *y = find_flat(p, p.y, p.y_strides[0], s);
    const int n = (int)(s.end - s.begin);
    const uint32_t first_channel = (uint32_t)s.group % (uint32_t)p.n_groups * channels;
    // Only chunks that hold several channels look for the channel of each group.
    const int64_t begin_channel = s.begin >> 32 == 0 ? (uint32_t)s.begin / n_places : s.begin / n_places;
    const uint32_t place = (uint32_t)(s.begin - begin_channel * n_places);
    const bool is_one_channel = place + (uint32_t)n <= n_places;
    rule r = find_rule(p, s.group);
    find_channel(p, first_channel + begin_channel, &r);
#pragma unroll
    for (int i = 0; i < held<TYPE>::GROUPS; ++i) {
      const int element = held<TYPE>::element(i);
      if (element >= n) break;
      if (!is_one_channel) find_channel(p, first_channel + begin_channel + (place + (uint32_t)element) / n_places, &r);
      const uint4 group[1] = {h.bits[i]};
      float x[WIDTH];
      graft_spread<TYPE>(group, x);
#pragma unroll
      for (int e = 0; e < WIDTH; ++e) x[e] = r(x[e]);
      *(uint4 *)(y + element * graft_group<TYPE>::BYTES) = graft_gather<TYPE>(x);
    }
  }
}

__device__ __forceinline__ void apply_chunk(const graft_group_norm_params &p) {
  const span s = find_chunk(p, gridDim.x - 1 - blockIdx.x);
  rule r = find_rule(p, s.group);
  for (int64_t e = s.begin + threadIdx.x; e < s.end; e += blockDim.x) {
    int64_t channel;
    const float x = load(p, s.group, e, &channel);
    find_channel(p, channel, &r);
    graft_store(p.y.data + find(p, {p.y_strides, p.y_place_strides}, s.group, e, &channel), p.y.type, r(x));
  }
}

extern "C" __global__ void graft_group_norm_apply(const graft_group_norm_params p) {
  apply_chunk(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_apply_f32(const graft_group_norm_params p) {
  apply_held<GRAFT_DTYPE_F32>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_apply_bf16(const graft_group_norm_params p) {
  apply_held<GRAFT_DTYPE_BF16>(p);
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_apply_f16(const graft_group_norm_params p) {
  apply_held<GRAFT_DTYPE_F16>(p);
}
