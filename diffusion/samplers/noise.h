// noise.h — the normal random numbers a picture starts from.
//
// The generator is Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a
// function of a 64-bit key and a 128-bit counter, so every element is found without making those before it.
//   key     = seed, low word first
//   counter = {low word of k, high word of k, 0, 0} for elements 2k and 2k + 1
// The four result words w0 … w3 give two uniform numbers of 53 bits,
//   u = ((w1·2³² + w0) >> 11) + 1) · 2⁻⁵³ in (0, 1]        v = ((w3·2³² + w2) >> 11) · 2⁻⁵³ in [0, 1)
// and these, by Box and Muller in double precision, the two elements √(-2 ln u) · cos(2πv) and √(-2 ln u) · sin(2πv),
// rounded to f32.
#ifndef GRAFT_DIFFUSION_SAMPLERS_NOISE_H
#define GRAFT_DIFFUSION_SAMPLERS_NOISE_H

#include "graft/base.h"

// One block of Philox4x32-10. Thread-safe.
void graft_noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out_words[4]);

// Fills |values| with the first |n| elements of the sequence that belongs to |seed|. Thread-safe.
void graft_noise_fill(uint64_t seed, float *values, size_t n);

#endif
