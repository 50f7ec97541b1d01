// group_norm.cu — device code of group_norm_params.h. Element e of a group is place e % places of channel e / places.
#include "ops/common/cuda/scalar.cuh"
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

template <int W>
__device__ __forceinline__ void load(const graft_group_norm_params &p, int64_t group, int64_t element, float *x,
                                     int64_t *out_channel) {
  graft_load_group<W>(p.x.data + find(p, {p.x_strides, p.x_place_strides}, group, element, out_channel), p.x.type,
                      p.x.element_bytes, x);
}

struct span {
  int64_t group, begin, end;
};

__device__ __forceinline__ span find_chunk(const graft_group_norm_params &p) {
  const int64_t size = p.n_channels / p.n_groups * p.n_places;
  span s;
  s.group = blockIdx.x / p.n_chunks;
  s.begin = blockIdx.x % p.n_chunks * GRAFT_GROUP_NORM_CHUNK;
  s.end = min(size, s.begin + GRAFT_GROUP_NORM_CHUNK);
  return s;
}

template <int W>
__device__ __forceinline__ void sum_chunk(const graft_group_norm_params &p) {
  __shared__ float shared[32];
  const span s = find_chunk(p);
  float x[W], sum = 0, squares = 0;
  int64_t channel;
  load<1>(p, s.group, s.begin, x, &channel);
  const float first = x[0];
  for (int64_t e = s.begin + (int64_t)threadIdx.x * W; e < s.end; e += (int64_t)blockDim.x * W) {
    load<W>(p, s.group, e, x, &channel);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += x[i] - first;
  }
  const float rest = graft_block_sum(sum, shared) / (float)(s.end - s.begin);
  for (int64_t e = s.begin + (int64_t)threadIdx.x * W; e < s.end; e += (int64_t)blockDim.x * W) {
    load<W>(p, s.group, e, x, &channel);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float d = x[i] - first - rest;
      squares = fmaf(d, d, squares);
    }
  }
  squares = graft_block_sum(squares, shared);
  if (threadIdx.x == 0) {
    p.chunks[3 * blockIdx.x] = first;
    p.chunks[3 * blockIdx.x + 1] = rest;
    p.chunks[3 * blockIdx.x + 2] = squares;
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS)
    graft_group_norm_chunks(const graft_group_norm_params p) {
  if (p.is_wide) {
    sum_chunk<GRAFT_WALK_WIDE>(p);
  } else {
    sum_chunk<1>(p);
  }
}

// One thread joins the chunks of a group in their order; in double, there are few.
extern "C" __global__ void graft_group_norm_join(const graft_group_norm_params p) {
  const int64_t size = p.n_channels / p.n_groups * p.n_places;
  const int64_t group = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (group >= p.n_items * p.n_groups) return;
  double mean = 0, squares = 0, n = 0;
  for (int64_t c = 0; c < p.n_chunks; ++c) {
    const float *chunk = p.chunks + 3 * (group * p.n_chunks + c);
    const double count = (double)min((int64_t)GRAFT_GROUP_NORM_CHUNK, size - c * GRAFT_GROUP_NORM_CHUNK);
    const double delta = (double)chunk[0] + (double)chunk[1] - mean, total = n + count;
    mean += delta * (count / total);
    squares += (double)chunk[2] + delta * delta * (n * count / total);
    n = total;
  }
  const float high = (float)mean;
  p.moments[3 * group] = high;
  p.moments[3 * group + 1] = (float)(mean - (double)high);
  p.moments[3 * group + 2] = (float)(1.0 / sqrt(squares / n + (double)p.eps));
}

template <int W>
__device__ __forceinline__ void apply_chunk(const graft_group_norm_params &p) {
  const span s = find_chunk(p);
  const float high = p.moments[3 * s.group], low = p.moments[3 * s.group + 1], factor = p.moments[3 * s.group + 2];
  for (int64_t e = s.begin + (int64_t)threadIdx.x * W; e < s.end; e += (int64_t)blockDim.x * W) {
    float x[W];
    int64_t channel;
    load<W>(p, s.group, e, x, &channel);
    const float weight =
        p.weight.data == nullptr ? 1.0f : graft_load(p.weight.data + channel * p.weight_step, p.weight.type);
    const float bias = p.bias.data == nullptr ? 0.0f : graft_load(p.bias.data + channel * p.bias_step, p.bias.type);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      const float y = (x[i] - high - low) * factor * weight + bias;
      x[i] = p.has_silu ? graft_silu_of(y) : y;
    }
    graft_store_group<W>(p.y.data + find(p, {p.y_strides, p.y_place_strides}, s.group, e, &channel), p.y.type, x);
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS)
    graft_group_norm_apply(const graft_group_norm_params p) {
  if (p.is_wide) {
    apply_chunk<GRAFT_WALK_WIDE>(p);
  } else {
    apply_chunk<1>(p);
  }
}
