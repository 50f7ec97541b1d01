// quantize.h — what quantising a row to int8 means, in plain code: for references, and for checks by inference.
#ifndef GRAFT_OPS_COMMON_QUANTIZE_H
#define GRAFT_OPS_COMMON_QUANTIZE_H

#include "graft/status.h"

enum { GRAFT_QUANTIZE_MAX_GROUP = 1 << 20 };  // real files use 256; rows are hardly longer than 2^17

// GRAFT_E_INVALID when |group| is no power of four or too large, GRAFT_E_SHAPE when it does not divide |k|.
// Thread-safe.
GRAFT_NODISCARD graft_status graft_quantize_check_group(int64_t group, int64_t k, graft_error *error);

// Rotates |x|, |k| numbers, in place, writes the quantised row to |q| and returns its scale, as
// quantize_convrot_i8.h says. Thread-safe.
GRAFT_API float graft_quantize_reference_row(float *x, int64_t k, int64_t group, bool has_bf16_grid, int8_t *q);

#endif
