// rms_norm_modulate_row.h — rms_norm(x) · weight · (1 + scale) for a row, for the operator's kernel and those that go
// on with the row.
#ifndef GRAFT_OPS_FUSED_RMS_NORM_MODULATE_RMS_NORM_MODULATE_ROW_H
#define GRAFT_OPS_FUSED_RMS_NORM_MODULATE_RMS_NORM_MODULATE_ROW_H

#include "ops/common/cpu/rms.h"

typedef struct rms_norm_modulate_row {
  const float *x, *scale;
  float *y;
  int64_t n;
  double eps;
  const char *weight;  // NULL: none
  graft_dtype_code weight_type;
  bool streams;  // results go past the caches
} rms_norm_modulate_row;

static inline __attribute__((always_inline)) void rms_norm_modulate_scale_row(const rms_norm_modulate_row *r,
                                                                              float factor, graft_dtype_code type,
                                                                              bool streams) {
  const int64_t step = type == GRAFT_DTYPE_F32 ? 4 : 2, n = r->n;
  const float *x = r->x, *scale = r->scale;
  const char *weight = r->weight;
  float *y = r->y;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec v = vec_load(x + i) * factor;
    if (weight) v *= vec_load_typed(weight + i * step, type);
    v *= vec_load(scale + i) + 1;
    vec_store_or_stream(y + i, v, streams);
  }
  if (i == n) return;
  vec v = vec_load_n(x + i, n - i) * factor;
  if (weight) v *= vec_load_typed_n(weight + i * step, type, n - i);
  vec_store_n(y + i, v * (vec_load_n(scale + i, n - i) + 1), n - i);
}

static inline __attribute__((always_inline)) void rms_norm_modulate_row_of(const rms_norm_modulate_row *r,
                                                                           graft_dtype_code type) {
  const float factor = rms_factor(r->x, r->n, r->eps);
  if (r->streams) {
    rms_norm_modulate_scale_row(r, factor, type, true);
  } else {
    rms_norm_modulate_scale_row(r, factor, type, false);
  }
}

static inline void rms_norm_modulate_make_row(const rms_norm_modulate_row *r) {
  if (r->weight_type == GRAFT_DTYPE_F32) {
    rms_norm_modulate_row_of(r, GRAFT_DTYPE_F32);
  } else if (r->weight_type == GRAFT_DTYPE_BF16) {
    rms_norm_modulate_row_of(r, GRAFT_DTYPE_BF16);
  } else {
    rms_norm_modulate_row_of(r, GRAFT_DTYPE_F16);
  }
}

#endif
