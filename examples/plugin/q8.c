// "acme.q8", a dtype of blocks: 32 8-bit integers with one scale, 9 bits an element. Graphs carry it, references
// and conversions go through these two functions.
#include <math.h>

#include "acme.h"

enum { BLOCK = 32 };

static void to_f32(const void *source, float *target, size_t n) {
  const acme_q8_block *block = source;
  for (size_t i = 0; i < n; ++i) target[i] = block[i / BLOCK].scale * block[i / BLOCK].values[i % BLOCK];
}

// Infinity and NaN become the largest value and zero: the type has neither.
static float representable(float x) {
  if (isnan(x)) return 0;
  return fminf(fmaxf(x, -3e38f), 3e38f);
}

static void quantise(const float *source, acme_q8_block *block) {
  float largest = 0;
  for (int i = 0; i < BLOCK; ++i) largest = fmaxf(largest, fabsf(representable(source[i])));
  block->scale = largest / 127;
  for (int i = 0; i < BLOCK; ++i)
    block->values[i] =
        block->scale > 0 ? (int8_t)lrintf(fminf(fmaxf(representable(source[i]) / block->scale, -127), 127)) : 0;
}

static void from_f32(const float *source, void *target, size_t n) {
  acme_q8_block *block = target;
  for (size_t i = 0; i < n / BLOCK; ++i) quantise(source + i * BLOCK, &block[i]);
}

const graft_dtype_def acme_dtype_q8 = {.struct_size = sizeof acme_dtype_q8,
                                       .code = GRAFT_DTYPE_CUSTOM,
                                       .name = "acme.q8",
                                       .block_elements = BLOCK,
                                       .block_bytes = sizeof(acme_q8_block),
                                       .alignment = _Alignof(acme_q8_block),
                                       .is_float = true,
                                       .to_f32 = to_f32,
                                       .from_f32 = from_f32};
