// rms.h — root mean square of a run of floats.
#ifndef GRAFT_OPS_COMMON_CPU_RMS_H
#define GRAFT_OPS_COMMON_CPU_RMS_H

#include <math.h>

#include "graft/tensor.h"
#include "ops/common/cpu/simd.h"

// Four sums that do not wait for each other, and so short ones: rounding stays far below the inputs'.
static inline float rms_sum_of_squares(const float *x, int64_t n) {
  vec sums[4] = {{0}};
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    for (int32_t k = 0; k < 4; ++k) {
      const vec v = vec_load(x + i + k * LANES);
      sums[k] = vec_madd(v, v, sums[k]);
    }
  }
  for (; i < n; i += LANES) {
    const vec v = n - i < LANES ? vec_load_n(x + i, n - i) : vec_load(x + i);
    sums[0] = vec_madd(v, v, sums[0]);
  }
  return vec_reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// What brings n ≥ 1 values to a root mean square of 1, given the sum of their squares.
static inline float rms_factor_of_sum(float sum, int64_t n, double eps) {
  return (float)(1 / sqrt((double)sum / (double)n + eps));
}

static inline float rms_factor(const float *x, int64_t n, double eps) {
  return rms_factor_of_sum(rms_sum_of_squares(x, n), n, eps);
}

// Whether kernels read such a weight, which may be left out (NULL).
static inline bool rms_takes_weight(const graft_tensor_desc *weight) {
  if (!weight) return true;
  if (weight->dtype != GRAFT_F32 && weight->dtype != GRAFT_F16 && weight->dtype != GRAFT_BF16) return false;
  return graft_tensor_desc_is_contiguous(weight);
}

#endif
