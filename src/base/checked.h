// checked.h — arithmetic on sizes that says when it overflows instead of wrapping.
#ifndef GRAFT_SRC_BASE_CHECKED_H
#define GRAFT_SRC_BASE_CHECKED_H

#include "graft/base.h"

// Each writes |*out| and returns true, or returns false on overflow.
static inline bool graft_checked_add(size_t a, size_t b, size_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool graft_checked_mul(size_t a, size_t b, size_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool graft_checked_add_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}
static inline bool graft_checked_mul_i64(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

// Rounds |n| up to a multiple of |alignment|, a power of two.
static inline bool graft_checked_align(size_t n, size_t alignment, size_t *out) {
  if (!graft_checked_add(n, alignment - 1, out)) return false;
  *out &= ~(alignment - 1);
  return true;
}

#endif
