// Independent multiply-adds in registers: as many chains as hide the latency of two units, few enough not to spill.
#include "ops/common/cpu/target.h"
#include "testing/peak_loops.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { N_LANES = 16, N_CHAINS = 16, IS_FUSED = 1 };
typedef __m512 vector;
static inline vector multiply_add(vector a, vector b, vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
#elif defined(__AVX2__)
enum { N_LANES = 8, N_CHAINS = 12, IS_FUSED = 1 };
typedef __m256 vector;
static inline vector multiply_add(vector a, vector b, vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
#elif defined(__ARM_NEON)
enum { N_LANES = 4, N_CHAINS = 16, IS_FUSED = 1 };
typedef float32x4_t vector;
static inline vector multiply_add(vector a, vector b, vector c) {
  return vfmaq_f32(c, a, b);
}
#else
enum { N_LANES = 4, N_CHAINS = 12, IS_FUSED = 0 };
typedef float vector __attribute__((vector_size(16)));
static inline vector multiply_add(vector a, vector b, vector c) {
  return a * b + c;
}
#endif

// Values tend to 1 from below, so that nothing overflows, underflows or can be left out.
static float run(int64_t n_passes) {
  float start[N_LANES], sum = 0;
  vector chains[N_CHAINS], factor, term;
  for (int i = 0; i < N_LANES; ++i) start[i] = 0.999f;
  __builtin_memcpy(&factor, start, sizeof factor);
  for (int i = 0; i < N_LANES; ++i) start[i] = 0.001f;
  __builtin_memcpy(&term, start, sizeof term);
  // Equal chains would be computed once.
  for (int c = 0; c < N_CHAINS; ++c) {
    for (int i = 0; i < N_LANES; ++i) start[i] = 0.01f * (float)c;
    __builtin_memcpy(&chains[c], start, sizeof start);
  }
  for (int64_t pass = 0; pass < n_passes; ++pass) {
    // Keeps the compiler from exchanging the loops, which would make one long dependent chain after another.
    __asm__ volatile("");
#pragma GCC unroll 16
    for (int c = 0; c < N_CHAINS; ++c) chains[c] = multiply_add(chains[c], factor, term);
  }
  for (int c = 0; c < N_CHAINS; ++c) {
    __builtin_memcpy(start, &chains[c], sizeof start);
    for (int i = 0; i < N_LANES; ++i) sum += start[i];
  }
  return sum;
}

const graft_peak_loop GRAFT_TARGETED(graft_peak_loop) = {.target = GRAFT_QUOTE(GRAFT_TARGET),
                                                         .requires = GRAFT_TARGET_REQUIRES,
                                                         .n_lanes = N_LANES,
                                                         .n_per_pass = N_CHAINS,
                                                         .is_fused = IS_FUSED,
                                                         .run = run};
