// simd_probe.h — the vector functions of one target, reached through plain arrays.
#ifndef GRAFT_TESTS_SIMD_PROBE_H
#define GRAFT_TESTS_SIMD_PROBE_H

#include "graft/dtype.h"

// Each applies one function to |n| elements, n any number: whole vectors first, then a partial one.
typedef struct simd_probe {
  const char *target;
  uint64_t required_features;  // graft_cpu_feature
  void (*exp)(const float *x, float *y, int64_t n);
  void (*power_of_two)(const float *x, float *y, int64_t n);
  void (*sigmoid)(const float *x, float *y, int64_t n);
  void (*silu)(const float *x, float *y, int64_t n);
  void (*tanh)(const float *x, float *y, int64_t n);
  void (*erf)(const float *x, float *y, int64_t n);
  void (*normal_share)(const float *x, float *y, int64_t n);
  void (*widen)(const void *x, graft_dtype_code type, float *y, int64_t n);
  void (*narrow)(const float *x, graft_dtype_code type, void *y, int64_t n);
  float (*sum)(const float *x, int64_t n);
  float (*max)(const float *x, int64_t n);
} simd_probe;

extern const simd_probe simd_probe__baseline, simd_probe__avx2, simd_probe__avx512;

#endif
