// swiglu_row.h — silu(gate) · x for a row, for the operator's kernel and those that go on with the row.
#ifndef GRAFT_OPS_FUSED_SWIGLU_SWIGLU_ROW_H
#define GRAFT_OPS_FUSED_SWIGLU_SWIGLU_ROW_H

#include "graft/dtype.h"
#include "ops/common/cpu/vector_math.h"

static inline vec swiglu_of(vec gate, vec x) {
  return vec_silu(gate) * x;
}

static inline __attribute__((always_inline)) void swiglu_store(char *y, graft_dtype_code type, vec v, bool streams) {
  if (streams) {
    vec_stream((float *)(void *)y, v);
  } else {
    vec_store_typed(y, type, v);
  }
}

// |n| elements of |type|; |streams|: float results go past the caches.
static inline __attribute__((always_inline)) void swiglu_row(const char *gate, const char *x, char *y,
                                                             graft_dtype_code type, int64_t n, bool streams) {
  const int64_t step = type == GRAFT_DTYPE_F32 ? 4 : 2;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vec v = swiglu_of(vec_load_typed(gate + i * step, type), vec_load_typed(x + i * step, type));
    swiglu_store(y + i * step, type, v, streams);
  }
  if (i == n) return;
  const vec rest =
      swiglu_of(vec_load_typed_n(gate + i * step, type, n - i), vec_load_typed_n(x + i * step, type, n - i));
  vec_store_typed_n(y + i * step, type, rest, n - i);
}

#endif
