// hadamard.h — the rotation of ConvRot: groups of features times a regular Hadamard matrix, so that outliers spread
// over their group before it is quantised. H4 has rows (+ + + -) (+ + - +) (+ - + +) (- + + +); H_G is its Kronecker
// power over sqrt(G), symmetric and its own inverse.
//
// This is the definition: stages with strides 1, 4, 16, … over quads (x0, x1, x2, x3), in float32 without fusing,
//   a = x0 + x1, b = x0 - x1, c = x2 + x3, d = x2 - x3;  x0 = a + d, x1 = a - d, x2 = c + b, x3 = c - b,
// then a product with 1 / sqrt(G), a power of two. Kernels do the same operations and give the same bits.
#ifndef GRAFT_OPS_COMMON_HADAMARD_H
#define GRAFT_OPS_COMMON_HADAMARD_H

#include "graft/base.h"

// Whether |group| is a power of four. 1 is one: no rotation.
bool graft_hadamard_is_group(int64_t group);

// The largest power of four that divides |n| and is at most |most|; both positive. Thread-safe.
GRAFT_API int64_t graft_hadamard_fit(int64_t n, int64_t most);

// 1 / sqrt(group), exactly.
float graft_hadamard_factor(int64_t group);

// Rotates each group of |x|, |n| numbers in whole groups. Thread-safe.
GRAFT_API void graft_hadamard_rotate(float *x, int64_t n, int64_t group);

#endif
