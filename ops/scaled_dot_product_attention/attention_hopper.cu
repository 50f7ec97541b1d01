// attention_hopper.cu — attention of 16-bit floats for compute capability 9.0a, heads up to 128 wide. One thread has
// the copy engine fetch tiles of 128 queries, keys and values; two warpgroups take 64 queries each. While the tensor
// cores add a warpgroup's values of one tile, it makes shares of the scores of the next one; the warpgroups take turns
// in giving them work, so that the one computes while the other's products run.
//
// As in attention_mma.cu, shares are given to the second product as a sum of two 16-bit numbers: the bound that results
// are held to (docs/numerics.md) leaves nothing beside the rounding of the result itself.
#include "ops/common/cuda/scalar.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#include "ops/common/cuda/hopper.cuh"
#include "ops/scaled_dot_product_attention/attention_params.h"

enum {
  ROWS = GRAFT_ATTENTION_HOPPER_ROWS,
  STAGES = GRAFT_ATTENTION_HOPPER_STAGES,
  PANEL = ROWS * 128,
  SCORES = ROWS / 2
};
enum { N_WARPS = 8 };  // that multiply

// Where tiles and barriers lie in shared memory.
template <int WIDTH>
struct memory {
  static constexpr uint32_t TILE = WIDTH / GRAFT_HOPPER_TILE * PANEL;
  uint32_t base;
  __device__ uint32_t q() const { return base; }
  __device__ uint32_t k(uint32_t turn) const { return base + (1 + turn % STAGES) * TILE; }
  __device__ uint32_t v(uint32_t turn) const { return base + (1 + STAGES + turn % STAGES) * TILE; }
  __device__ uint32_t barrier(uint32_t i) const { return base + (1 + 2 * STAGES) * TILE + i * 8; }
  __device__ uint32_t q_full() const { return barrier(0); }
  __device__ uint32_t q_empty() const { return barrier(1); }
  __device__ uint32_t k_full(uint32_t turn) const { return barrier(2 + turn % STAGES); }
  __device__ uint32_t k_empty(uint32_t turn) const { return barrier(2 + STAGES + turn % STAGES); }
  __device__ uint32_t v_full(uint32_t turn) const { return barrier(2 + 2 * STAGES + turn % STAGES); }
  __device__ uint32_t v_empty(uint32_t turn) const { return barrier(2 + 3 * STAGES + turn % STAGES); }
};

struct place {
  int first_query, head, key_head, item, n_tiles;  // of keys
};

__device__ __forceinline__ place find_tile(const graft_attention_hopper_params &p, int tile) {
  place at;
  const int row = tile / p.n_query_tiles;
  at.first_query = (tile - row * p.n_query_tiles) * ROWS;
  at.item = row / p.common.heads;
  at.head = row - at.item * p.common.heads;
  at.key_head = at.head / p.common.heads_per_key_head;
  int end = (int)p.common.keys;
  if (p.common.is_causal) end = min(end, at.first_query + ROWS + (int)(p.common.keys - p.common.queries));
  at.n_tiles = end > 0 ? (end + ROWS - 1) / ROWS : 0;
  return at;
}

template <int WIDTH>
__device__ __forceinline__ void fetch_tile(uint32_t to, const graft_cuda_tensor_map &map, uint32_t full, int first,
                                           int head, int item) {
  graft_barrier_expect(full, memory<WIDTH>::TILE);
#pragma unroll
  for (int panel = 0; panel < WIDTH / GRAFT_HOPPER_TILE; ++panel) {
    graft_fetch_box(to + panel * PANEL, map, full, panel * GRAFT_HOPPER_TILE, head, first, item);
  }
}

// What the fetching thread does. Turns count tiles of keys, rounds tiles of queries, over all of the block's work.
template <int WIDTH>
__device__ __forceinline__ void fetch_all(const graft_attention_hopper_params &p, const memory<WIDTH> &m) {
  uint32_t turn = 0, round = 0;
  for (int tile = p.first_tile + blockIdx.x; tile < p.end_tile; tile += gridDim.x) {
    const place at = find_tile(p, tile);
    if (at.n_tiles == 0) continue;
    graft_barrier_wait(m.q_empty(), round - 1);
    fetch_tile<WIDTH>(m.q(), p.q, m.q_full(), at.first_query, at.head, at.item);
    for (int j = 0; j < at.n_tiles; ++j, ++turn) {
      graft_barrier_wait(m.k_empty(turn), turn / STAGES - 1);
      fetch_tile<WIDTH>(m.k(turn), p.k, m.k_full(turn), j * ROWS, at.key_head, at.item);
      graft_barrier_wait(m.v_empty(turn), turn / STAGES - 1);
      fetch_tile<WIDTH>(m.v(turn), p.v, m.v_full(turn), j * ROWS, at.key_head, at.item);
    }
    ++round;
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
    const uint32_t bits = *(const uint32_t *)&pair;
    rest_x = x - __uint_as_float(bits << 16), rest_y = y - __uint_as_float(bits & 0xffff0000u);
    return bits;
  }
  const __half2 pair = __floats2half2_rn(x, y);
  rest_x = x - __low2float(pair), rest_y = y - __high2float(pair);
  return *(const uint32_t *)&pair;
}

// A warpgroup's 64 queries. A thread has two rows of them, |row| and |row| + 8, and of each eight columns two.
template <int WIDTH>
struct state {
  float scores[SCORES], sums[WIDTH / 2];
  uint32_t high[SCORES / 2], low[SCORES / 2];  // shares, as operands of the second product
  float most[2], total[2], rescale[2];
};

__device__ __forceinline__ void release(uint32_t empty) {
  if (threadIdx.x % 32 == 0) graft_barrier_arrive(empty);
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void score(state<WIDTH> &s, uint64_t q, uint64_t k) {
#pragma unroll
  for (int part = 0; part < WIDTH / 16; ++part) {
    const uint64_t at = part / 4 * (PANEL >> 4) + part % 4 * (32 >> 4);
    graft_multiply<IS_BF16>(s.scores, q + at, k + at, part > 0);
  }
  graft_products_commit();
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void add_values(state<WIDTH> &s, uint64_t v) {
#pragma unroll
  for (int part = 0; part < ROWS / 16; ++part) {
    graft_multiply_held<IS_BF16>(s.sums, s.high + part * 4, v + part * (16 * 128 >> 4));
    graft_multiply_held<IS_BF16>(s.sums, s.low + part * 4, v + part * (16 * 128 >> 4));
  }
  graft_products_commit();
}

template <int WIDTH>
__device__ __forceinline__ void hold(state<WIDTH> &s) {
  graft_hold(s.sums), graft_hold(s.high), graft_hold(s.low), graft_hold(s.scores);
}

// Which of a thread's keys, two of each eight from |first_key| on, its rows |query| and |query| + 8 see: a bit each.
__device__ __forceinline__ uint2 find_seen(const graft_attention_params &p, int item, int first_key, int query) {
  const char *mask = p.mask + item * p.mask_strides[0];
  const int shift = p.is_causal ? (int)(p.keys - p.queries) : (int)p.keys, column = threadIdx.x % 4 * 2;
  uint2 seen = make_uint2(0, 0);
#pragma unroll 1
  for (int i = 0; i < SCORES / 2; ++i) {
    const int key = first_key + i / 2 * 8 + column + i % 2;
    if (key >= p.keys || (p.mask != nullptr && mask[key * p.mask_strides[1]] == 0)) continue;
    seen.x |= (uint32_t)(key <= query + shift) << i;
    seen.y |= (uint32_t)(key <= query + 8 + shift) << i;
  }
  return seen;
}

// Takes scores of keys that are not to be seen out of the sums.
template <int WIDTH>
__device__ __forceinline__ void hide(state<WIDTH> &s, uint2 seen) {
#pragma unroll
  for (int i = 0; i < SCORES; ++i) {
    const uint32_t bits = i % 4 / 2 == 0 ? seen.x : seen.y;
    if ((bits >> (i / 4 * 2 + i % 2) & 1) == 0) s.scores[i] = -INFINITY;
  }
}

// Scores become shares, not yet divided by their total.
template <int WIDTH>
__device__ __forceinline__ void share(state<WIDTH> &s, float scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float now = s.most[half];
#pragma unroll
    for (int i = 2 * half; i < SCORES; i += 4) now = fmaxf(now, fmaxf(s.scores[i], s.scores[i + 1]));
    now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
    now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
    // While nothing was seen, everything so far is 0 and stays so.
    s.rescale[half] = s.most[half] == -INFINITY ? 0.0f : power_of_two((s.most[half] - now) * scale);
    const float origin = now == -INFINITY ? 0.0f : now * scale;
    s.most[half] = now;
    float sums[2] = {0, 0};
#pragma unroll
    for (int i = 2 * half; i < SCORES; i += 4) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        s.scores[i + e] = power_of_two(fmaf(s.scores[i + e], scale, -origin));
        sums[e] += s.scores[i + e];
      }
    }
    s.total[half] = s.total[half] * s.rescale[half] + (sums[0] + sums[1]);
  }
}

// Shares as operands; sums so far get the new origin.
template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void take_shares(state<WIDTH> &s) {
#pragma unroll
  for (int i = 0; i < SCORES / 2; ++i) {
    float x, y, unused_x, unused_y;
    s.high[i] = pack<IS_BF16>(s.scores[2 * i], s.scores[2 * i + 1], x, y);
    s.low[i] = pack<IS_BF16>(x, y, unused_x, unused_y);
  }
#pragma unroll
  for (int i = 0; i < WIDTH / 2; ++i) s.sums[i] *= s.rescale[i % 4 / 2];
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void store(const graft_attention_hopper_params &p, state<WIDTH> &s, const place &at,
                                      int query) {
  const graft_attention_params &c = p.common;
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = s.total[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    const int row = query + half * 8;
    if (row >= c.queries) continue;
    const float factor = total > 0 ? 1.0f / total : total;
    char *y = c.y.data + at.item * c.y_strides[0] + row * c.y_strides[1] + at.head * c.y_strides[2];
#pragma unroll
    for (int i = 2 * half; i < WIDTH / 2; i += 4) {
      const int channel = i / 4 * 8 + column;
      const uint32_t both = graft_to_pair<IS_BF16>(s.sums[i] * factor, s.sums[i + 1] * factor);
      if (channel >= c.value_width) continue;
      if (p.has_pairs) {
        *(uint32_t *)(y + channel * 2) = both;
      } else {
        *(uint16_t *)(y + channel * c.y_strides[3]) = (uint16_t)both;
        *(uint16_t *)(y + (channel + 1) * c.y_strides[3]) = (uint16_t)(both >> 16);
      }
    }
  }
}

// What the scores of a tile of keys become.
template <int WIDTH>
__device__ __forceinline__ void weigh(const graft_attention_params &p, state<WIDTH> &s, const place &at, int first_key,
                                      int query) {
  const int last_key = first_key + ROWS - 1, first_query = query - (int)threadIdx.x % 32 / 4;
  const bool is_late = p.is_causal && last_key > first_query + (int)(p.keys - p.queries);
  if (last_key >= p.keys || p.mask != nullptr || is_late) {
    hide(s, find_seen(p, at.item, first_key, query));
  }
  share(s, p.scale * 1.4426950408889634f);
}

// The work of a warpgroup on one tile of queries, of which |query| is this thread's first one.
template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void attend(const graft_attention_hopper_params &p, const memory<WIDTH> &m, state<WIDTH> &s,
                                       const place &at, int query, int group, uint32_t turn) {
  const uint64_t q = graft_tile_at(m.q() + group * 64 * 128, 0);
  graft_barrier_wait(m.k_full(turn), turn / STAGES);
  hold(s);
  graft_products_begin();
  score<IS_BF16>(s, q, graft_tile_at(m.k(turn), 0));
  graft_products_wait<0>();
  graft_hold(s.scores);
  release(m.k_empty(turn));
  weigh(p.common, s, at, 0, query);
  take_shares<IS_BF16>(s);
  for (int j = 1; j < at.n_tiles; ++j) {
    const uint32_t before = turn++;
    graft_barrier_wait(m.k_full(turn), turn / STAGES);
    graft_turn_wait(1 + group);
    hold(s);
    graft_products_begin();
    score<IS_BF16>(s, q, graft_tile_at(m.k(turn), 0));
    graft_barrier_wait(m.v_full(before), before / STAGES);
    graft_products_begin();
    add_values<IS_BF16>(s, graft_tile_at(m.v(before), PANEL));
    graft_turn_give(2 - group);
    graft_products_wait<1>();
    graft_hold(s.scores);
    release(m.k_empty(turn));
    weigh(p.common, s, at, j * ROWS, query);
    graft_hold(s.scores);  // so that shares are made before products are waited for
    graft_products_wait<0>();
    hold(s);
    release(m.v_empty(before));
    take_shares<IS_BF16>(s);
  }
  release(m.q_empty());
  graft_barrier_wait(m.v_full(turn), turn / STAGES);
  hold(s);
  graft_products_begin();
  add_values<IS_BF16>(s, graft_tile_at(m.v(turn), PANEL));
  graft_products_wait<0>();
  graft_hold(s.sums);
  release(m.v_empty(turn));
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void attend_all(const graft_attention_hopper_params &p, const memory<WIDTH> &m, int group) {
  state<WIDTH> s;
  uint32_t turn = 0, round = 0;
  const int own = group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  if (group == 1) graft_turn_give(1);
  for (int tile = p.first_tile + blockIdx.x; tile < p.end_tile; tile += gridDim.x) {
    const place at = find_tile(p, tile);
#pragma unroll
    for (int i = 0; i < WIDTH / 2; ++i) s.sums[i] = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) s.most[half] = -INFINITY, s.total[half] = 0;
    if (at.n_tiles > 0) {
      graft_barrier_wait(m.q_full(), round++);
      attend<IS_BF16>(p, m, s, at, at.first_query + own, group, turn);
      turn += at.n_tiles;
    }
    store<IS_BF16>(p, s, at, at.first_query + own);
  }
  if (group == 0) graft_turn_wait(1);
}

template <int WIDTH>
__device__ __forceinline__ void begin(const graft_attention_hopper_params &p, const memory<WIDTH> &m) {
  if (threadIdx.x == 0) {
    graft_prefetch_map(p.q), graft_prefetch_map(p.k), graft_prefetch_map(p.v);
    graft_barrier_init(m.q_full(), 1);
    graft_barrier_init(m.q_empty(), N_WARPS);
    for (uint32_t i = 0; i < STAGES; ++i) {
      graft_barrier_init(m.k_full(i), 1);
      graft_barrier_init(m.k_empty(i), N_WARPS);
      graft_barrier_init(m.v_full(i), 1);
      graft_barrier_init(m.v_empty(i), N_WARPS);
    }
    graft_barrier_publish();
  }
  __syncthreads();
}

template <bool IS_BF16, int WIDTH>
__device__ __forceinline__ void run(const graft_attention_hopper_params &p) {
  extern __shared__ char bytes[];
  const memory<WIDTH> m = {graft_hopper_memory(bytes)};
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
  begin(p, m);
  if (group == 0) {
    graft_registers_give<40>();
    if (threadIdx.x == 0) fetch_all(p, m);
  } else {
    graft_registers_take<232>();
    attend_all<IS_BF16, WIDTH>(p, m, group - 1);
  }
}

#define KERNEL(name, is_bf16, width)                                    \
  extern "C" __global__ void __launch_bounds__(GRAFT_HOPPER_THREADS, 1) \
      name(const __grid_constant__ graft_attention_hopper_params p) {   \
    run<is_bf16, width>(p);                                             \
  }

KERNEL(graft_attention_hopper_bf16_64, true, 64)
KERNEL(graft_attention_hopper_bf16_128, true, 128)
KERNEL(graft_attention_hopper_f16_64, false, 64)
KERNEL(graft_attention_hopper_f16_128, false, 128)
#endif
