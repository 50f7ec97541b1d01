// moments.h — mean and spread of a run of floats, as exact as its values deserve: a mean of 10000 does not swallow a
// deviation of 1, and equal values have spread 0.
#ifndef GRAFT_OPS_COMMON_CPU_MOMENTS_H
#define GRAFT_OPS_COMMON_CPU_MOMENTS_H

#include <math.h>

#include "ops/common/cpu/simd.h"

typedef struct moments {
  int64_t n;
  double mean;
  double squares;  // sum of squared distances from the mean
} moments;

// Sum of distances from |shift| and, unless |squares| is NULL, of their squares. Four sums each, so that additions do
// not wait for each other.
static inline __attribute__((always_inline)) float moments_sum(const float *x, int64_t n, float shift, float *squares) {
  const vec shifts = vec_all(shift);
  vec sums[4] = {{0}}, square_sums[4] = {{0}};
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES) {
    for (int32_t k = 0; k < 4; ++k) {
      const vec distance = vec_load(x + i + k * LANES) - shifts;
      sums[k] += distance;
      if (squares) square_sums[k] = vec_madd(distance, distance, square_sums[k]);
    }
  }
  for (; i + LANES <= n; i += LANES) {
    const vec distance = vec_load(x + i) - shifts;
    sums[0] += distance;
    if (squares) square_sums[0] = vec_madd(distance, distance, square_sums[0]);
  }
  float sum = vec_reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  float square_sum =
      squares ? vec_reduce_sum((square_sums[0] + square_sums[1]) + (square_sums[2] + square_sums[3])) : 0;
  for (; i < n; ++i) {
    const float distance = vec_load_one(x + i) - shift;
    sum += distance;
    square_sum += distance * distance;
  }
  if (squares) *squares = square_sum;
  return sum;
}

// Of n ≥ 1 values. The first of them tell about where the mean lies, and all are measured from there. As those are a
// sixteenth of all or more, their mean is at most 4 deviations off, which costs the squares few digits.
static inline moments moments_measure(const float *x, int64_t n) {
  const int64_t n_first = n < 512 ? n : n / 8 / 64 * 64;
  const float first = vec_load_one(x), shift = first + moments_sum(x, n_first, first, NULL) / (float)n_first;
  float squares;
  const double distance = (double)moments_sum(x, n, shift, &squares) / (double)n;
  const double spread = (double)squares - distance * distance * (double)n;
  return (moments){.n = n, .mean = (double)shift + distance, .squares = spread < 0 ? 0 : spread};
}

// Of the parts of a whole, merged.
static inline moments moments_merge(const moments *parts, int64_t n_parts) {
  moments whole = {0};
  for (int64_t i = 0; i < n_parts; ++i) {
    whole.n += parts[i].n;
    whole.mean += parts[i].mean * (double)parts[i].n;
  }
  whole.mean /= (double)whole.n;
  for (int64_t i = 0; i < n_parts; ++i) {
    const double distance = parts[i].mean - whole.mean;
    whole.squares += parts[i].squares + distance * distance * (double)parts[i].n;
  }
  return whole;
}

// How values are brought to mean 0 and deviation 1: ((x - mean) - mean_rest) · factor, with the mean in two parts.
typedef struct moments_scaling {
  float mean, mean_rest, factor;
} moments_scaling;

static inline vec moments_distance(vec x, moments_scaling s) {
  return (x - vec_all(s.mean)) - vec_all(s.mean_rest);
}

static inline moments_scaling moments_normalise(moments m, double eps) {
  const float mean = (float)m.mean;
  return (moments_scaling){.mean = mean,
                           .mean_rest = (float)(m.mean - (double)mean),
                           .factor = (float)(1 / sqrt(m.squares / (double)m.n + eps))};
}

#endif
