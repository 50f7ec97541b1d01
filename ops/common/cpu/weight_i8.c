#include "ops/common/cpu/weight_i8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/common/cpu/gemm_operand.h"

static size_t aligned(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

// Where scales lie behind the packed weight.
static size_t scales_offset(const graft_weight_i8 *w) {
  return aligned(graft_gemm_i8_packed_bytes(w->core, w->desc->shape[0], w->desc->shape[1]));
}

const float *graft_weight_i8_scales(const graft_weight_i8 *weight, const void *packed) {
  return (const float *)(const void *)((const char *)packed + scales_offset(weight));
}

void graft_weight_i8_prepare(const graft_weight_i8 *weight, uint32_t input, graft_packed_input *out_packed) {
  const graft_gemm_i8_core *core = weight->core;
  const int64_t n = weight->desc->shape[0], k = weight->desc->shape[1];
  *out_packed = (graft_packed_input){.input = input, .alignment = 64};
  if (weight->desc->dtype == GRAFT_I8) {
    out_packed->bytes = graft_gemm_i8_packed_bytes(core, n, k);
    snprintf(out_packed->layout, sizeof out_packed->layout, "%s", core->layout);
  } else {
    out_packed->bytes = scales_offset(weight) + (size_t)n * sizeof(float);
    snprintf(out_packed->layout, sizeof out_packed->layout, "%s, group %lld, grid %d", core->layout,
             (long long)weight->group, weight->has_bf16_grid);
  }
}

// Quantises a float weight panel by panel; |memory| holds a row and a panel.
static void pack_floats(const graft_weight_i8 *w, graft_gemm_matrix from, char *packed, char *memory) {
  const graft_gemm_i8_core *core = w->core;
  const int64_t n = w->desc->shape[0], k = w->desc->shape[1];
  float *scales = (float *)(void *)(packed + scales_offset(w));
  int8_t *q = (int8_t *)(memory + (size_t)graft_quantize_scratch_floats(k) * sizeof(float));
  for (int64_t i = 0; i < n; ++i) {
    const graft_quantize_row row = {.x = graft_gemm_matrix_at(from, i, 0).data,
                                    .type = from.type,
                                    .n = k,
                                    .group = w->group,
                                    .has_bf16_grid = w->has_bf16_grid,
                                    .q = q + i % core->panel * k,
                                    .scale = scales + i,
                                    .scratch = (float *)(void *)memory};
    w->quantize->row(&row);
    if ((i + 1) % core->panel != 0 && i + 1 < n) continue;
    const int64_t panel = i / core->panel;
    const graft_gemm_i8_weight weight = {.data = q, .n = n, .k = k, .row_stride = k, .first_row = panel * core->panel};
    graft_gemm_i8_pack_panel(core, &weight, panel, packed);
  }
}

graft_status graft_weight_i8_pack(const graft_weight_i8 *weight, const void *source, void *packed) {
  const int64_t n = weight->desc->shape[0], k = weight->desc->shape[1];
  graft_gemm_matrix matrix = graft_gemm_matrix_of(weight->desc, 0);
  matrix.data = source;
  if (weight->desc->dtype == GRAFT_I8) {
    const graft_gemm_i8_weight bytes = {.data = source, .n = n, .k = k, .row_stride = matrix.row_stride};
    graft_gemm_i8_pack(weight->core, &bytes, packed);
    return GRAFT_OK;
  }
  const size_t row_bytes = (size_t)graft_quantize_scratch_floats(k) * sizeof(float);
  char *memory = aligned_alloc(64, aligned(row_bytes + (size_t)(weight->core->panel * k) + 1));
  if (!memory) return GRAFT_E_NO_MEMORY;
  const size_t panels_end = graft_gemm_i8_packed_bytes(weight->core, n, k);
  memset((char *)packed + panels_end, 0, scales_offset(weight) - panels_end);
  pack_floats(weight, matrix, packed, memory);
  free(memory);
  return GRAFT_OK;
}
