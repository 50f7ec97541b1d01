#include "diffusion/samplers/noise.h"

#include <math.h>

static void multiply(uint32_t a, uint32_t b, uint32_t *out_high, uint32_t *out_low) {
  uint64_t product = (uint64_t)a * b;
  *out_high = (uint32_t)(product >> 32);
  *out_low = (uint32_t)product;
}

void graft_noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out_words[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    uint32_t high0, low0, high1, low1;
    multiply(0xD2511F53u, c0, &high0, &low0);
    multiply(0xCD9E8D57u, c2, &high1, &low1);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out_words[0] = c0;
  out_words[1] = c1;
  out_words[2] = c2;
  out_words[3] = c3;
}

static double bits53(uint32_t low, uint32_t high, uint64_t plus) {
  uint64_t word = (uint64_t)high << 32 | low;
  return (double)((word >> 11) + plus) * 0x1p-53;
}

void graft_noise_fill(uint64_t seed, float *values, size_t n) {
  const double two_pi = 6.283185307179586476925;
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  for (size_t i = 0; i < n; i += 2) {
    uint64_t k = i / 2;
    const uint32_t counter[4] = {(uint32_t)k, (uint32_t)(k >> 32), 0, 0};
    uint32_t words[4];
    graft_noise_philox(counter, key, words);
    double radius = sqrt(-2.0 * log(bits53(words[0], words[1], 1)));
    double angle = two_pi * bits53(words[2], words[3], 0);
    values[i] = (float)(radius * cos(angle));
    if (i + 1 < n) values[i + 1] = (float)(radius * sin(angle));
  }
}
