// target.h — names for code that is compiled once per CPU target (files ending in __simd.c, or __avx2.c and the like).
#ifndef GRAFT_OPS_COMMON_CPU_TARGET_H
#define GRAFT_OPS_COMMON_CPU_TARGET_H

#include "graft/cpu.h"

#define GRAFT_JOIN_(a, b) a##__##b
#define GRAFT_JOIN(a, b) GRAFT_JOIN_(a, b)
#define GRAFT_QUOTE_(x) #x
#define GRAFT_QUOTE(x) GRAFT_QUOTE_(x)

// GRAFT_TARGETED(gemm) is gemm__avx512 in the file's AVX-512 build; GRAFT_TARGETED_NAME gives the same as a string.
#define GRAFT_TARGETED(name) GRAFT_JOIN(name, GRAFT_TARGET)
#define GRAFT_TARGETED_NAME(name) GRAFT_QUOTE(GRAFT_TARGETED(name))

// What the device must have for this build of the code, and how it ranks among the builds of one kernel.
#if defined(__AVX512F__)
enum { GRAFT_TARGET_REQUIRES = GRAFT_CPU_AVX512, GRAFT_TARGET_PRIORITY = 30 };
#elif defined(__AVX2__)
enum { GRAFT_TARGET_REQUIRES = GRAFT_CPU_AVX2, GRAFT_TARGET_PRIORITY = 20 };
#else
enum { GRAFT_TARGET_REQUIRES = 0, GRAFT_TARGET_PRIORITY = 10 };
#endif

#endif
