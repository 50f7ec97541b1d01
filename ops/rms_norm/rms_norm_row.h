// rms_norm_row.h — rms_norm of a row, for the operator's kernel and those that go on with the row.
#ifndef GRAFT_OPS_RMS_NORM_RMS_NORM_ROW_H
#define GRAFT_OPS_RMS_NORM_RMS_NORM_ROW_H

#include "ops/common/cpu/rms.h"

typedef struct rms_norm_row {
  const float *x;
  float *y;
  int64_t n;
  double eps;
  const char *weight;  // NULL: none
  graft_dtype_code weight_type;
  bool streams;  // results go past the caches
} rms_norm_row;

static inline __attribute__((always_inline)) void rms_norm_scale_row(const float *x, float *y, int64_t n, float factor,
                                                                     const char *weight, graft_dtype_code type,
                                                                     bool streams) {
  const int64_t step = type == GRAFT_DTYPE_F32 ? 4 : 2;
  const vec scale = vec_all(factor);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vec v = vec_load(x + i) * scale;
    vec_store_or_stream(y + i, weight ? v * vec_load_typed(weight + i * step, type) : v, streams);
    vec_fetch_next_row(x + i, n);
  }
  if (i == n) return;
  const vec v = vec_load_n(x + i, n - i) * scale;
  vec_store_n(y + i, weight ? v * vec_load_typed_n(weight + i * step, type, n - i) : v, n - i);
}

static inline void rms_norm_scale(const rms_norm_row *r, float factor) {
  if (!r->weight) {
    rms_norm_scale_row(r->x, r->y, r->n, factor, NULL, GRAFT_DTYPE_F32, r->streams);
  } else if (r->weight_type == GRAFT_DTYPE_F32) {
    rms_norm_scale_row(r->x, r->y, r->n, factor, r->weight, GRAFT_DTYPE_F32, r->streams);
  } else if (r->weight_type == GRAFT_DTYPE_BF16) {
    rms_norm_scale_row(r->x, r->y, r->n, factor, r->weight, GRAFT_DTYPE_BF16, r->streams);
  } else {
    rms_norm_scale_row(r->x, r->y, r->n, factor, r->weight, GRAFT_DTYPE_F16, r->streams);
  }
}

static inline void rms_norm_make_row(const rms_norm_row *r) {
  rms_norm_scale(r, rms_factor(r->x, r->n, r->eps));
}

#endif
