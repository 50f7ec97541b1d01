// weight_i8.h — constant weights for products of bytes (gemm_i8.h): packed as the core wants them, and quantised while
// they are, where they are floats.
#ifndef GRAFT_OPS_COMMON_CPU_WEIGHT_I8_H
#define GRAFT_OPS_COMMON_CPU_WEIGHT_I8_H

#include "graft/kernel.h"
#include "ops/common/cpu/gemm_i8.h"
#include "ops/common/cpu/quantize.h"

// A weight [n, k] with dense rows.
typedef struct graft_weight_i8 {
  const graft_gemm_i8_core *core;
  const graft_quantize_core *quantize;
  const graft_tensor_desc *desc;  // i8, or a float that quantize.h reads
  // Of a float weight: the group of its rotation, and graft_quantize_row.has_bf16_grid.
  int64_t group;
  bool has_bf16_grid;
} graft_weight_i8;

// Describes the packed copy of input |input|: the weight as graft_gemm_i8_pack leaves it, and for a float one its
// scales. Thread-safe.
void graft_weight_i8_prepare(const graft_weight_i8 *weight, uint32_t input, graft_packed_input *out_packed);

// Makes it. GRAFT_E_NO_MEMORY where a float weight is too large for this machine. Thread-safe.
graft_status graft_weight_i8_pack(const graft_weight_i8 *weight, const void *source, void *packed);

// The scales of a float weight within the packed copy, one for each of its rows. Thread-safe.
const float *graft_weight_i8_scales(const graft_weight_i8 *weight, const void *packed);

#endif
