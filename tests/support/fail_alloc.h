// fail_alloc.h — makes the n-th allocation fail, to see what the code under test does then.
//
// Link the CMake target graft_fail_alloc: it wraps malloc, calloc, realloc, aligned_alloc and posix_memalign at link
// time (-Wl,--wrap). Wrapped are the calls of objects and static libraries that are linked into the test itself; a
// shared library keeps the real functions, unless it takes them as function pointers — &malloc in a test is the wrapped
// one:
//   json_set_alloc_funcs(malloc, free);
// Counting is process-wide and atomic. Nothing fails and nothing is counted before fail_alloc_start.
#ifndef GRAFT_TESTS_FAIL_ALLOC_H
#define GRAFT_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// From now on allocations of more than |bytes| fail, whether counted or not; SIZE_MAX: none.
void fail_alloc_above(size_t bytes);

// Starts counting from zero; the |fail_at|-th allocation from now on (1 is the first) returns NULL, or gives ENOMEM.
// 0 fails none and only counts. |all_later| makes every allocation after it fail too.
void fail_alloc_start(int64_t fail_at, bool all_later);

// Stops failing and counting; returns how many allocations there were since the start, failed ones included.
int64_t fail_alloc_stop(void);

// Whether an allocation was made to fail since the start.
bool fail_alloc_hit(void);

// Runs |attempt| again and again, with the first, the second, … allocation failing, until a run needs no more of them.
// |attempt| must clean up after itself; |check| is told after each run which allocation failed (0 in the last run).
// Returns how many allocations a run makes.
typedef void (*fail_alloc_step)(void *context);
typedef void (*fail_alloc_check)(void *context, int64_t failed);
int64_t fail_alloc_sweep(fail_alloc_step attempt, fail_alloc_check check, void *context);

#endif
