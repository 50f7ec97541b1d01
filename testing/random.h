// random.h — numbers for tests from a counter: the same seed, stream and counter give the same number on every machine,
// in any order of asking, so that one failing input can be made again alone. All functions are thread-safe.
#ifndef GRAFT_TESTING_RANDOM_H
#define GRAFT_TESTING_RANDOM_H

#include <stdint.h>

// 64 well mixed bits.
uint64_t graft_testing_bits(uint64_t seed, uint64_t stream, uint64_t counter);

// Uniform in [0, 1).
double graft_testing_uniform(uint64_t seed, uint64_t stream, uint64_t counter);

// Normal with mean 0 and deviation 1.
double graft_testing_normal(uint64_t seed, uint64_t stream, uint64_t counter);

// Turns a name into a stream, mixed into |stream|.
uint64_t graft_testing_stream(uint64_t stream, const char *name);

#endif
