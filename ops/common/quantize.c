#include "ops/common/quantize.h"

#include <math.h>
#include <string.h>

#include "graft/dtype.h"
#include "ops/common/hadamard.h"

graft_status graft_quantize_check_group(int64_t group, int64_t k, graft_error *error) {
  if (!graft_hadamard_is_group(group)) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the rotation's group is %lld, but must be a power of four",
                      (long long)group);
  }
  // Empty rows are a whole number of any groups; offsets within a group must stay far from overflow all the same.
  if (group > GRAFT_QUANTIZE_MAX_GROUP) {
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the rotation's group is %lld, but at most %d", (long long)group,
                      GRAFT_QUANTIZE_MAX_GROUP);
  }
  if (k % group != 0) {
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "rows of %lld elements are no whole number of groups of %lld", (long long)k,
                      (long long)group);
  }
  return GRAFT_OK;
}

static float to_bf16(float x) {
  uint16_t bits;
  graft_dtype_store(GRAFT_BF16, &bits, (double)x);
  return (float)graft_dtype_load(GRAFT_BF16, &bits);
}

float graft_quantize_reference_row(float *x, int64_t k, int64_t group, bool has_bf16_grid, int8_t *q) {
  graft_hadamard_rotate(x, k, group);
  float most = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < k; ++i) {
    if (has_bf16_grid) x[i] = to_bf16(x[i]);
    is_finite = is_finite && isfinite(x[i]);
    if (fabsf(x[i]) > most) most = fabsf(x[i]);
  }
  if (!is_finite) {
    memset(q, 0, (size_t)k);
    return NAN;
  }
  const float wanted = most / 127, scale = wanted > 1e-30f ? wanted : 1e-30f;
  const float divisor = has_bf16_grid ? to_bf16(scale) : scale;
  for (int64_t i = 0; i < k; ++i) {
    const float quotient = has_bf16_grid ? to_bf16(x[i] / divisor) : x[i] / divisor;
    const float rounded = rintf(quotient);
    q[i] = (int8_t)(rounded > 127 ? 127 : rounded < -128 ? -128 : rounded);
  }
  return scale;
}
