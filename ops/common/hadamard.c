#include "ops/common/hadamard.h"

bool graft_hadamard_is_group(int64_t group) {
  if (group < 1) return false;
  while (group % 4 == 0) group /= 4;
  return group == 1;
}

int64_t graft_hadamard_fit(int64_t n, int64_t most) {
  int64_t group = 1;
  while (group <= most / 4 && n % (4 * group) == 0) group *= 4;
  return group;
}

float graft_hadamard_factor(int64_t group) {
  float factor = 1;
  for (; group > 1; group /= 4) factor *= 0.5f;
  return factor;
}

static void mix(float *x, int64_t stride) {
  const float a = x[0] + x[stride], b = x[0] - x[stride];
  const float c = x[2 * stride] + x[3 * stride], d = x[2 * stride] - x[3 * stride];
  x[0] = a + d;
  x[stride] = a - d;
  x[2 * stride] = c + b;
  x[3 * stride] = c - b;
}

void graft_hadamard_rotate(float *x, int64_t n, int64_t group) {
  for (int64_t stride = 1; stride < group; stride *= 4) {
    for (int64_t first = 0; first < n; first += 4 * stride) {
      for (int64_t i = first; i < first + stride; ++i) mix(x + i, stride);
    }
  }
  const float factor = graft_hadamard_factor(group);
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}
