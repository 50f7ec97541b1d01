#include "testing/random.h"

#include <math.h>

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t graft_testing_bits(uint64_t seed, uint64_t stream, uint64_t counter) {
  const uint64_t odd = 0x9e3779b97f4a7c15u;
  return mix(mix(mix(seed + odd) + stream + odd) + counter * odd + odd);
}

double graft_testing_uniform(uint64_t seed, uint64_t stream, uint64_t counter) {
  return (double)(graft_testing_bits(seed, stream, counter) >> 11) * 0x1p-53;
}

double graft_testing_normal(uint64_t seed, uint64_t stream, uint64_t counter) {
  const double two_pi = 6.283185307179586;
  double radius = graft_testing_uniform(seed, stream, 2 * counter);
  double angle = graft_testing_uniform(seed, stream, 2 * counter + 1);
  return sqrt(-2.0 * log(1.0 - radius)) * cos(two_pi * angle);
}

uint64_t graft_testing_stream(uint64_t stream, const char *name) {
  uint64_t hash = 0xcbf29ce484222325u ^ stream;
  for (const char *c = name; *c != 0; ++c) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  return mix(hash);
}
