// broken_kernels.h — operators with a right kernel and with kernels that each break one rule, to see the harness find
// them.
#ifndef GRAFT_TESTS_CONFORMANCE_BROKEN_KERNELS_H
#define GRAFT_TESTS_CONFORMANCE_BROKEN_KERNELS_H

#include "graft/graft.h"

// "broken.double.v1" and "broken.strided_double.v1", y = x + x, and "broken.join.v1", of one input, in f32. Each kernel
// is called after what it does.
extern const graft_extension broken_extension;

#endif
