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
                                                         .required_features = GRAFT_TARGET_REQUIRES,
                                                         .n_lanes = N_LANES,
                                                         .n_per_pass = N_CHAINS,
                                                         .kind = GRAFT_PEAK_F32,
                                                         .n_terms = 1,
                                                         .is_fused = IS_FUSED,
                                                         .run = run};

// Products of narrow types have loops of the same shape. All terms are 0: the instructions take no notice, and the
// compiler cannot know.
#if defined(__AVX512F__)
__attribute__((target("avx512vnni"))) static float run_i8(int64_t n_passes) {
  __m512i chains[N_CHAINS], terms = _mm512_setzero_si512();
  for (int c = 0; c < N_CHAINS; ++c) chains[c] = _mm512_set1_epi32(c);
  __asm__ volatile("" : "+v"(terms));
  for (int64_t pass = 0; pass < n_passes; ++pass) {
    __asm__ volatile("");
#pragma GCC unroll 16
    for (int c = 0; c < N_CHAINS; ++c) chains[c] = _mm512_dpbusd_epi32(chains[c], terms, terms);
  }
  int32_t sum = 0;
  for (int c = 0; c < N_CHAINS; ++c) sum += _mm512_reduce_add_epi32(chains[c]);
  return (float)sum;
}

__attribute__((target("avx512bf16"))) static float run_bf16(int64_t n_passes) {
  __m512 chains[N_CHAINS];
  __m512i terms = _mm512_setzero_si512();
  for (int c = 0; c < N_CHAINS; ++c) chains[c] = _mm512_set1_ps((float)c);
  __asm__ volatile("" : "+v"(terms));
  for (int64_t pass = 0; pass < n_passes; ++pass) {
    __asm__ volatile("");
#pragma GCC unroll 16
    for (int c = 0; c < N_CHAINS; ++c) chains[c] = _mm512_dpbf16_ps(chains[c], (__m512bh)terms, (__m512bh)terms);
  }
  float sum = 0;
  for (int c = 0; c < N_CHAINS; ++c) sum += _mm512_reduce_add_ps(chains[c]);
  return sum;
}

const graft_peak_loop graft_peak_loop_i8__avx512 = {.target = "avx512",
                                                    .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_VNNI,
                                                    .n_lanes = N_LANES,
                                                    .n_per_pass = N_CHAINS,
                                                    .kind = GRAFT_PEAK_I8,
                                                    .n_terms = 4,
                                                    .is_fused = true,
                                                    .run = run_i8};

const graft_peak_loop graft_peak_loop_bf16__avx512 = {.target = "avx512",
                                                      .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16,
                                                      .n_lanes = N_LANES,
                                                      .n_per_pass = N_CHAINS,
                                                      .kind = GRAFT_PEAK_BF16,
                                                      .n_terms = 2,
                                                      .is_fused = true,
                                                      .run = run_bf16};
#elif defined(__AVX2__)
__attribute__((target("avxvnni"))) static float run_i8(int64_t n_passes) {
  __m256i chains[N_CHAINS], terms = _mm256_setzero_si256(), sums = terms;
  for (int c = 0; c < N_CHAINS; ++c) chains[c] = _mm256_set1_epi32(c);
  __asm__ volatile("" : "+x"(terms));
  for (int64_t pass = 0; pass < n_passes; ++pass) {
    __asm__ volatile("");
#pragma GCC unroll 16
    for (int c = 0; c < N_CHAINS; ++c) chains[c] = _mm256_dpbusd_avx_epi32(chains[c], terms, terms);
  }
  for (int c = 0; c < N_CHAINS; ++c) sums = _mm256_add_epi32(sums, chains[c]);
  return (float)_mm256_extract_epi32(sums, 0);
}

const graft_peak_loop graft_peak_loop_i8__avx2 = {.target = "avx2",
                                                  .required_features = GRAFT_CPU_AVX2 | GRAFT_CPU_AVX_VNNI,
                                                  .n_lanes = N_LANES,
                                                  .n_per_pass = N_CHAINS,
                                                  .kind = GRAFT_PEAK_I8,
                                                  .n_terms = 4,
                                                  .is_fused = true,
                                                  .run = run_i8};
#endif
