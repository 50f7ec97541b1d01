// unroll.h — how kernels whose tiles of vectors must become registers are written, with the vectors of simd.h.
#ifndef GRAFT_OPS_COMMON_CPU_UNROLL_H
#define GRAFT_OPS_COMMON_CPU_UNROLL_H

#include "ops/common/cpu/simd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// Marks a loop of constant length whose array of vectors must become registers.
#if defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
