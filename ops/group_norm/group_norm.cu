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

__device__ __forceinline__ span find_chunk(const graft_group_norm_params &p, int64_t chunk) {
  const int64_t size = p.n_channels / p.n_groups * p.n_places;
  span s;
  s.group = chunk / p.n_chunks;
  s.begin = chunk % p.n_chunks * GRAFT_GROUP_NORM_CHUNK;
  s.end = min(size, s.begin + GRAFT_GROUP_NORM_CHUNK);
  return s;
}

// What a thread has of a chunk whose elements are taken eight at a time. Beyond the end, its first eight stand.
enum { PIECES = GRAFT_GROUP_NORM_CHUNK / GRAFT_GROUP_NORM_THREADS / 8 };
struct held {
  float x[PIECES][8];
  int64_t element[PIECES];
  bool is_there[PIECES];
};

__device__ __forceinline__ void load_chunk(const graft_group_norm_params &p, const span &s, held *h) {
  const char *at[PIECES];
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const int64_t e = s.begin + (i * GRAFT_GROUP_NORM_THREADS + (int)threadIdx.x) * 8;
    int64_t channel;
    h->is_there[i] = e < s.end;
    h->element[i] = h->is_there[i] ? e : s.begin;
    at[i] = p.x.data + find(p, {p.x_strides, p.x_place_strides}, s.group, h->element[i], &channel);
  }
  graft_load_places(at, p.x.type, h->x);
}

__device__ __forceinline__ void store_moments(const graft_group_norm_params &p, float first, float rest,
                                              float squares) {
  if (threadIdx.x != 0) return;
  p.chunks[3 * blockIdx.x] = first;
  p.chunks[3 * blockIdx.x + 1] = rest;
  p.chunks[3 * blockIdx.x + 2] = squares;
}

__device__ __forceinline__ float load_first(const graft_group_norm_params &p, const span &s) {
  float first;
  int64_t channel;
  load<1>(p, s.group, s.begin, &first, &channel);
  return first;
}

// Moments are taken from differences to the chunk's first element, so that a large mean costs no digits.
__device__ __forceinline__ void sum_chunk_wide(const graft_group_norm_params &p) {
  __shared__ float shared[32];
  const span s = find_chunk(p, blockIdx.x);
  held h;
  load_chunk(p, s, &h);
  const float first = load_first(p, s);
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < PIECES * 8; ++i) sum += h.is_there[i / 8] ? h.x[i / 8][i % 8] - first : 0.0f;
  const float rest = graft_block_sum(sum, shared) / (float)(s.end - s.begin);
#pragma unroll
  for (int i = 0; i < PIECES * 8; ++i) {
    const float d = h.is_there[i / 8] ? h.x[i / 8][i % 8] - first - rest : 0.0f;
    squares = fmaf(d, d, squares);
  }
  store_moments(p, first, rest, graft_block_sum(squares, shared));
}

__device__ __forceinline__ void sum_chunk(const graft_group_norm_params &p) {
  __shared__ float shared[32];
  const span s = find_chunk(p, blockIdx.x);
  const float first = load_first(p, s);
  float x, sum = 0, squares = 0;
  int64_t channel;
  for (int64_t e = s.begin + threadIdx.x; e < s.end; e += blockDim.x) {
    load<1>(p, s.group, e, &x, &channel);
    sum += x - first;
  }
  const float rest = graft_block_sum(sum, shared) / (float)(s.end - s.begin);
  for (int64_t e = s.begin + threadIdx.x; e < s.end; e += blockDim.x) {
    load<1>(p, s.group, e, &x, &channel);
    const float d = x - first - rest;
    squares = fmaf(d, d, squares);
  }
  store_moments(p, first, rest, graft_block_sum(squares, shared));
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_chunks(const graft_group_norm_params p) {
  if (p.is_wide) {
    sum_chunk_wide(p);
  } else {
    sum_chunk(p);
  }
}

// Mean, sum of squared differences to it and number of some elements.
struct moments {
  double mean, squares, n;
};

__device__ __forceinline__ void join(moments *m, double mean, double squares, double n) {
  if (n == 0) return;
  const double delta = mean - m->mean, total = m->n + n, share = n / total;
  m->mean += delta * share;
  m->squares += squares + delta * delta * m->n * share;
  m->n = total;
}

// A warp joins the chunks of a group, always in the same order; in double, there are few.
extern "C" __global__ void graft_group_norm_join(const graft_group_norm_params p) {
  const int64_t size = p.n_channels / p.n_groups * p.n_places, group = blockIdx.x;
  moments m = {0, 0, 0};
  for (int64_t c = threadIdx.x; c < p.n_chunks; c += 32) {
    const float *chunk = p.chunks + 3 * (group * p.n_chunks + c);
    const double count = (double)min((int64_t)GRAFT_GROUP_NORM_CHUNK, size - c * GRAFT_GROUP_NORM_CHUNK);
    join(&m, (double)chunk[0] + (double)chunk[1], (double)chunk[2], count);
  }
  for (int i = 16; i > 0; i /= 2) {
    const double mean = __shfl_down_sync(0xffffffffu, m.mean, i), n = __shfl_down_sync(0xffffffffu, m.n, i);
    join(&m, mean, __shfl_down_sync(0xffffffffu, m.squares, i), n);
  }
  if (threadIdx.x != 0) return;
  const float high = (float)m.mean;
  p.moments[3 * group] = high;
  p.moments[3 * group + 1] = (float)(m.mean - (double)high);
  p.moments[3 * group + 2] = (float)(1.0 / sqrt(m.squares / m.n + (double)p.eps));
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
__device__ __forceinline__ span find_last_chunk(const graft_group_norm_params &p) {
  return find_chunk(p, gridDim.x - 1 - blockIdx.x);
}

__device__ __forceinline__ void apply_chunk_wide(const graft_group_norm_params &p) {
  const span s = find_last_chunk(p);
  held h;
  load_chunk(p, s, &h);
  rule r = find_rule(p, s.group);
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    int64_t channel;
    char *y = p.y.data + find(p, {p.y_strides, p.y_place_strides}, s.group, h.element[i], &channel);
    find_channel(p, channel, &r);
#pragma unroll
    for (int e = 0; e < 8; ++e) h.x[i][e] = r(h.x[i][e]);
    if (h.is_there[i]) graft_store_wide(y, p.y.type, h.x[i]);
  }
}

__device__ __forceinline__ void apply_chunk(const graft_group_norm_params &p) {
  const span s = find_last_chunk(p);
  rule r = find_rule(p, s.group);
  for (int64_t e = s.begin + threadIdx.x; e < s.end; e += blockDim.x) {
    float x;
    int64_t channel;
    load<1>(p, s.group, e, &x, &channel);
    find_channel(p, channel, &r);
    graft_store(p.y.data + find(p, {p.y_strides, p.y_place_strides}, s.group, e, &channel), p.y.type, r(x));
  }
}

extern "C" __global__ void __launch_bounds__(GRAFT_GROUP_NORM_THREADS, 3)
    graft_group_norm_apply(const graft_group_norm_params p) {
  if (p.is_wide) {
    apply_chunk_wide(p);
  } else {
    apply_chunk(p);
  }
}
