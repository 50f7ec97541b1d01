#include "ops/common/cpu/attention.h"

#include <math.h>

#include "ops/common/cpu/pairs.h"
#include "ops/common/cpu/unroll.h"
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

// The weights of a row are 2^(score · factor - top).
typedef struct score_row {
  float *scores;
  void *weights;
  int64_t keys;
  float factor, top;
} score_row;

static const float LOG2_E = 0x1.715476p0f;

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

// The largest score where all are attended to; those beyond them, up to whole vectors, are taken out.
static float find_largest(const graft_attention_strip *s, float *scores) {
  const vec nothing = vec_all(-HUGE_VALF);
  vec largest[2] = {nothing, nothing};
  int64_t j = 0;
  for (; j + 2 * LANES <= s->keys; j += 2 * LANES) {
    largest[0] = vec_max(vec_load(scores + j), largest[0]);
    largest[1] = vec_max(vec_load(scores + j + LANES), largest[1]);
  }
  for (; j < s->keys; j += LANES) {
    const vec v = vec_select(attended(s, j, s->keys), vec_load(scores + j), nothing);
    vec_store(scores + j, v);
    largest[0] = vec_max(v, largest[0]);
  }
  return vec_reduce_max(vec_max(largest[0], largest[1]));
}

// Row |i| of the strip; |top| is what the largest score alone asks for.
static score_row row_of(const graft_attention_strip *s, int64_t i) {
  int64_t n_visible = s->n_visible + i;
  n_visible = n_visible < 0 ? 0 : n_visible > s->keys ? s->keys : n_visible;
  score_row r = {.scores = s->scores + i * s->scores_stride,
                 .weights = s->scores + i * GRAFT_GEMM_A_STRIDE,
                 .keys = s->keys,
                 .factor = LOG2_E};
  if (s->added || s->masked || n_visible < s->keys || !(s->scale > 0)) {
    const float *added = s->added ? s->added + i * s->added_stride : NULL;
    r.top = prepare_scores(s, r.scores, added, n_visible) * LOG2_E;
    return r;
  }
  r.factor = s->scale * LOG2_E;
  r.top = find_largest(s, r.scores) * r.factor;
  return r;
}

ALWAYS_INLINE vec weights_at(const score_row *r, int64_t j) {
  return vec_power_of_two(vec_madd(vec_load(r->scores + j), vec_all(r->factor), vec_all(-r->top)));
}

// Turns scores into weights and returns their sum.
static float weigh_row(const score_row *r) {
  float *weights = r->weights;
  vec sum[2] = {{0}, {0}};
  int64_t j = 0;
  for (; j + 2 * LANES <= r->keys; j += 2 * LANES) {
    const vec low = weights_at(r, j), high = weights_at(r, j + LANES);
    vec_store(weights + j, low);
    vec_store(weights + j + LANES, high);
    sum[0] += low;
    sum[1] += high;
  }
  for (; j < r->keys; j += LANES) {
    const vec weight = weights_at(r, j);
    vec_store(weights + j, weight);
    sum[0] += weight;
  }
  return vec_reduce_sum(sum[0] + sum[1]);
}

static void multiply_row(float *row, int64_t n, float factor) {
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) vec_store(row + j, vec_load(row + j) * factor);
  for (; j < n; ++j) row[j] *= factor;
}

// Where row |i| stands after this block; false where there is nothing to attend to so far.
static bool begin_row(const graft_attention_strip *s, int64_t i, score_row *out_row) {
  score_row r = row_of(s, i);
  const float before = s->largest[i];
  if (before > r.top) r.top = before;
  *out_row = r;
  if (r.top == -HUGE_VALF) {
    memset(r.weights, 0, s->weights_bytes);
    return false;
  }
  const float kept = vec_power_of_two(vec_all(before - r.top))[0];
  s->largest[i] = r.top;
  s->sum[i] *= kept;
  if (s->out && kept != 1.0f) multiply_row(s->out + i * s->out_stride, s->width, kept);
  return true;
}

static void weigh(const graft_attention_strip *s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    score_row r;
    if (begin_row(s, i, &r)) s->sum[i] += weigh_row(&r);
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

#if defined(__AVX512F__)
// The upper halves of floats are bf16 numbers; what they leave over is rounded to bf16 as well, so that both together
// have the digits of two. |row| is a copy, which no store can seem to change.
__attribute__((target("avx512bf16"))) static float split_row(score_row row, float *rest) {
  const __m512i upper_halves = (__m512i)(vec_halves){1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                     33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  char *to = row.weights, *rest_to = (char *)rest;
  vec sum[2] = {{0}, {0}};
  for (int64_t j = 0; j < row.keys; j += 2 * LANES, to += sizeof(vec), rest_to += sizeof(vec)) {
    const vec low = weights_at(&row, j), high = j + LANES < row.keys ? weights_at(&row, j + LANES) : (vec){0};
    const vec low_rest = low - (vec)((vec_u32)low & 0xffff0000u), high_rest = high - (vec)((vec_u32)high & 0xffff0000u);
    const __m512i upper = _mm512_permutex2var_epi16((__m512i)low, upper_halves, (__m512i)high);
    const __m512bh lower = _mm512_cvtne2ps_pbh((__m512)high_rest, (__m512)low_rest);
    memcpy(to, &upper, sizeof upper);
    memcpy(rest_to, &lower, sizeof lower);
    sum[0] += low;
    sum[1] += high;
  }
  return vec_reduce_sum(sum[0] + sum[1]);
}

static void weigh_in_halves(const graft_attention_strip *s) {
  for (int64_t i = 0; i < s->rows; ++i) {
    score_row r;
    float *rest = s->rest + i * GRAFT_GEMM_A_STRIDE;
    if (begin_row(s, i, &r)) s->sum[i] += split_row(r, rest);
    else memset(rest, 0, s->weights_bytes);
  }
}

const graft_attention_core graft_attention_core__avx512_bf16 = {
    .gemm = &graft_gemm_core__avx512_bf16,
    .has_rest = true,
    .weigh = weigh_in_halves,
    .normalise = normalise,
};
#endif
