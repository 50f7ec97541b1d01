// peak_loops.h — the builds of peak__simd.c.
#ifndef GRAFT_TESTING_PEAK_LOOPS_H
#define GRAFT_TESTING_PEAK_LOOPS_H

#include "testing/peak.h"

extern const graft_peak_loop graft_peak_loop__baseline, graft_peak_loop__avx2, graft_peak_loop__avx512;
#if defined(__x86_64__)
extern const graft_peak_loop graft_peak_loop_bf16__avx512, graft_peak_loop_i8__avx512, graft_peak_loop_i8__avx2;
#endif

#endif
