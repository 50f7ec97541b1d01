#include "fail_alloc.h"

#include <errno.h>
#include <stdatomic.h>

static _Atomic int64_t n_allocations;
static _Atomic int64_t first_failure;  // 0: none
static _Atomic size_t most_bytes = SIZE_MAX;
static _Atomic bool counting, failing_on, hit;

void fail_alloc_above(size_t bytes) {
  most_bytes = bytes;
}

void fail_alloc_start(int64_t fail_at, bool all_later) {
  n_allocations = 0;
  first_failure = fail_at;
  failing_on = all_later;
  hit = false;
  counting = true;
}

int64_t fail_alloc_stop(void) {
  counting = false;
  return n_allocations;
}

bool fail_alloc_hit(void) {
  return hit;
}

int64_t fail_alloc_sweep(fail_alloc_step attempt, fail_alloc_check check, void *context) {
  for (int64_t n = 1;; ++n) {
    fail_alloc_start(n, false);
    attempt(context);
    int64_t count = fail_alloc_stop();
    check(context, hit ? n : 0);
    if (!hit) return count;
  }
}

static bool must_fail(size_t bytes) {
  if (bytes > most_bytes) return true;
  if (!counting) return false;
  int64_t number = atomic_fetch_add(&n_allocations, 1) + 1;
  if (first_failure == 0 || number < first_failure || (number > first_failure && !failing_on)) return false;
  hit = true;
  return true;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **out_memory, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out_memory, size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) {
  return must_fail(bytes) ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes) {
  return must_fail(bytes == 0 || n <= SIZE_MAX / bytes ? n * bytes : SIZE_MAX) ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
  return must_fail(bytes) ? NULL : __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return must_fail(bytes) ? NULL : __real_aligned_alloc(alignment, bytes);
}

int __wrap_posix_memalign(void **out_memory, size_t alignment, size_t bytes) {
  return must_fail(bytes) ? ENOMEM : __real_posix_memalign(out_memory, alignment, bytes);
}
