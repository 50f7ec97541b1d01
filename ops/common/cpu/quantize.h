// quantize.h — rotates and quantises rows on the CPU, with the bits of the reference (quantize_convrot_i8.h).
#ifndef GRAFT_OPS_COMMON_CPU_QUANTIZE_H
#define GRAFT_OPS_COMMON_CPU_QUANTIZE_H

#include "graft/dtype.h"

// One row. Thread-safe for distinct targets and scratch.
typedef struct graft_quantize_row {
  const void *x;          // dense; may be |scratch|, else another row is taken to follow in memory
  const float *ahead;     // where x is |scratch|: |n| numbers that the next row will be made of; NULL: none
  graft_dtype_code type;  // f32, f16 or bf16
  int64_t n, group;       // whole groups, which are powers of four; 1: no rotation
  bool has_bf16_grid;
  bool streams;  // q goes past the caches where that is faster; its address and |n| are multiples of 64
  int8_t *q;
  float *scale;
  float *scratch;  // room for graft_quantize_scratch_floats(n), aligned to 64 bytes
} graft_quantize_row;

// What is compiled once per target.
typedef struct graft_quantize_core {
  void (*row)(const graft_quantize_row *row);

  // The same in two steps, for rows that are made piece by piece: every piece, of whole groups and but for the last of
  // whole vectors, is rotated into its part of |scratch|, which returns its largest magnitude as bits of a float; these
  // are ordered like numbers, infinity and NaN last. Then the row is rounded, given the largest of them.
  int32_t (*rotate)(const graft_quantize_row *piece);
  void (*round)(const graft_quantize_row *row, int32_t most);
} graft_quantize_core;

extern const graft_quantize_core graft_quantize_core__baseline;
extern const graft_quantize_core graft_quantize_core__avx2;
extern const graft_quantize_core graft_quantize_core__avx512;

// Whether |m| rows of |n| elements of |type| are so many that quantised ones should go past the caches.
static inline bool graft_quantize_should_stream(const int8_t *q, graft_dtype_code type, int64_t m, int64_t n) {
  const int64_t larger_than_caches = 24 << 20, element = type == GRAFT_DTYPE_F32 ? 4 : 2;
  return n > 0 && m >= larger_than_caches / (n * element) + 1 && ((uintptr_t)q | (uintptr_t)n) % 64 == 0;
}

// Floats of scratch for rows of |n| elements: whole vectors, and a multiple of 64 bytes.
static inline int64_t graft_quantize_scratch_floats(int64_t n) {
  return (n + 15) / 16 * 16;
}

#endif
