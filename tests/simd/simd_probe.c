// simd_probe.c — compiled once per target.
#include "tests/simd/simd_probe.h"

#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"

static inline __attribute__((always_inline)) void apply(vec (*function)(vec), const float *x, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(y + i, function(vec_load(x + i)));
  if (i < n) vec_store_n(y + i, function(vec_load_n(x + i, n - i)), n - i);
}

static void probe_exp(const float *x, float *y, int64_t n) {
  apply(vec_exp, x, y, n);
}
static void probe_power_of_two(const float *x, float *y, int64_t n) {
  apply(vec_power_of_two, x, y, n);
}
static void probe_sigmoid(const float *x, float *y, int64_t n) {
  apply(vec_sigmoid, x, y, n);
}
static void probe_silu(const float *x, float *y, int64_t n) {
  apply(vec_silu, x, y, n);
}
static void probe_tanh(const float *x, float *y, int64_t n) {
  apply(vec_tanh, x, y, n);
}
static void probe_erf(const float *x, float *y, int64_t n) {
  apply(vec_erf, x, y, n);
}

static void probe_normal_share(const float *x, float *y, int64_t n) {
  apply(vec_normal_share, x, y, n);
}

static void probe_widen(const void *x, graft_dtype_code type, float *y, int64_t n) {
  const uint16_t *source = x;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(y + i, vec_load_typed(source + i, type));
  if (i < n) vec_store_n(y + i, vec_load_typed_n(source + i, type, n - i), n - i);
}

static void probe_narrow(const float *x, graft_dtype_code type, void *y, int64_t n) {
  uint16_t *target = y;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store_typed(target + i, type, vec_load(x + i));
  if (i < n) vec_store_typed_n(target + i, type, vec_load_n(x + i, n - i), n - i);
}

static float probe_sum(const float *x, int64_t n) {
  vec sum = {0};
  for (int64_t i = 0; i < n; i += LANES) sum += vec_load_n(x + i, n - i < LANES ? n - i : LANES);
  return vec_reduce_sum(sum);
}

static float probe_max(const float *x, int64_t n) {
  vec max = vec_all(x[0]);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) max = vec_max(max, vec_load(x + i));
  float result = vec_reduce_max(max);
  for (; i < n; ++i) result = result > x[i] ? result : x[i];
  return result;
}

const simd_probe GRAFT_TARGETED(simd_probe) = {
    .target = GRAFT_QUOTE(GRAFT_TARGET),
    .required_features = GRAFT_TARGET_REQUIRES,
    .exp = probe_exp,
    .power_of_two = probe_power_of_two,
    .sigmoid = probe_sigmoid,
    .silu = probe_silu,
    .tanh = probe_tanh,
    .erf = probe_erf,
    .normal_share = probe_normal_share,
    .widen = probe_widen,
    .narrow = probe_narrow,
    .sum = probe_sum,
    .max = probe_max,
};
