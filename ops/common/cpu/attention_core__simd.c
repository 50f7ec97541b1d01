#include "ops/common/cpu/attention.h"

#include <math.h>

#include "ops/common/cpu/vector_math.h"

// Lanes |first| … of a row that are attended to.
static inline vec_i32 attended(const graft_attention_strip *s, int64_t first, int64_t n_visible) {
  vec_i32 lane;
  for (int i = 0; i < LANES; ++i) lane[i] = i;
  vec_i32 keep = lane < (vec_i32){0} + (int32_t)(n_visible - first);
  if (s->masked) {
    vec_i32 masked;
    memcpy(&masked, s->masked + first, sizeof masked);
    keep &= masked;
  }
  return keep;
}

// Scales the scores, adds what is to be added, takes out those that are not attended to, and returns the largest.
static float prepare_scores(const graft_attention_strip *s, float *scores, const float *added, int64_t n_visible) {
  const vec scale = vec_all(s->scale), nothing = vec_all(-HUGE_VALF);
  vec largest = nothing;
  for (int64_t j = 0; j < s->keys; j += LANES) {
    vec v = vec_load(scores + j) * scale;
    if (added) v += s->keys - j < LANES ? vec_load_n(added + j, s->keys - j) : vec_load(added + j);
    if (s->masked || j + LANES > n_visible) v = vec_select(attended(s, j, n_visible), v, nothing);
    vec_store(scores + j, v);
    largest = vec_max(v, largest);
  }
  return vec_reduce_max(largest);
}

static float weigh_row(float *scores, int64_t keys, float largest) {
  vec sum[2] = {{0}, {0}};
  int64_t j = 0;
  for (; j + 2 * LANES <= keys; j += 2 * LANES) {
    const vec low = vec_exp(vec_load(scores + j) - largest), high = vec_exp(vec_load(scores + j + LANES) - largest);
    vec_store(scores + j, low);
    vec_store(scores + j + LANES, high);
    sum[0] += low;
    sum[1] += high;
  }
  for (; j < keys; j += LANES) {
    const vec weight = vec_exp(vec_load(scores + j) - largest);
    vec_store(scores + j, weight);
    sum[0] += weight;
  }
  return vec_reduce_sum(sum[0] + sum[1]);
}

static void multiply_row(float *row, int64_t n, float factor) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) vec_store(row + j, vec_load(row + j) * factor);
  for (; j < n; ++j) row[j] *= factor;
}

static void weigh(const graft_attention_strip *s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    float *scores = s->scores + i * GRAFT_GEMM_A_STRIDE;
    int64_t n_visible = s->n_visible + i;
    n_visible = n_visible < 0 ? 0 : n_visible > s->keys ? s->keys : n_visible;
    const float *added = s->added ? s->added + i * s->added_stride : NULL;
    const float here = prepare_scores(s, scores, added, n_visible), before = s->largest[i];
    const float largest = here > before ? here : before;
    if (largest == -HUGE_VALF) {
      memset(scores, 0, (size_t)s->keys * sizeof *scores);
      continue;
    }
    const float kept = vec_exp(vec_all(before - largest))[0];
    s->largest[i] = largest;
    s->sum[i] = s->sum[i] * kept + weigh_row(scores, s->keys, largest);
    if (s->out && kept != 1.0f) multiply_row(s->out + i * s->out_stride, s->width, kept);
  }
}

static void normalise(float *out, int64_t width, float sum) {
  if (sum != 0.0f) multiply_row(out, width, 1.0f / sum);
}

const graft_attention_core GRAFT_TARGETED(graft_attention_core) = {
    .gemm = &GRAFT_TARGETED(graft_gemm_core),
    .weigh = weigh,
    .normalise = normalise,
};
