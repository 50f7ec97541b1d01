// cases.h — short names for tables of cases. For files ending in _cases.c only.
#ifndef GRAFT_OPS_COMMON_CASES_H
#define GRAFT_OPS_COMMON_CASES_H

#include "graft/op.h"

// An input of the given dtype (F32, BF16, …) and sizes; more members may follow TENSOR_LIKE in braces of one's own.
#define TENSOR_LIKE(type, ...) \
  .dtype = GRAFT_##type, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .shape = {__VA_ARGS__}

#define TENSOR(type, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__) }
#define CONSTANT(type, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__), .is_constant = true }
#define INTEGERS(type, lowest, end, ...) \
  { TENSOR_LIKE(type, __VA_ARGS__), .fill = GRAFT_FILL_INTEGERS, .low = (lowest), .high = (end) }
#define OMITTED \
  { .dtype = NULL }

#endif
