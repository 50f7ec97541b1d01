// linear_i8_rows_cases.h — inputs of the operators of linear_i8_rows.h in tables of cases. For files ending in _cases.c
// only.
#ifndef GRAFT_OPS_LINEAR_I8_LINEAR_I8_ROWS_CASES_H
#define GRAFT_OPS_LINEAR_I8_LINEAR_I8_ROWS_CASES_H

#include "ops/common/cases.h"

// Packed activations [P, K + 4]. Their bytes are such that four of them are a scale, too: between 0.01 and 0.75.
#define PACKED(...) INTEGERS(I8, 60, 64, __VA_ARGS__)
#define BYTES(lowest, end, n, k) \
  { TENSOR_LIKE(I8, n, k), .fill = GRAFT_FILL_INTEGERS, .low = (lowest), .high = (end), .is_constant = true }
#define SCALES(...) \
  { TENSOR_LIKE(F32, __VA_ARGS__), .fill = GRAFT_FILL_UNIFORM, .low = 0.001, .high = 0.02, .is_constant = true }
#define FLOATS(n, k) CONSTANT(BF16, n, k)

#endif
