#include "ops/common/cpu/gemm_i8.h"
#include "ops/common/cpu/simd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

// Number |j| of the row and its neighbours: scales, or one value repeated.
ALWAYS_INLINE vec column_scales(const graft_gemm_i8_scales *s, int64_t column, int64_t left) {
  if (!s->w) return vec_all(1);
  if (s->w_step == 0) return vec_all(s->w[0]);
  return left < LANES ? vec_load_n(s->w + column, left) : vec_load(s->w + column);
}

ALWAYS_INLINE vec round_to(vec v, graft_dtype_code type) {
  if (type == GRAFT_DTYPE_BF16) return vec_from_bf16(vec_to_bf16(v));
  if (type != GRAFT_DTYPE_F16) return v;
  uint16_t halves[LANES];
  vec_store_f16(halves, v);
  return vec_load_f16(halves);
}

ALWAYS_INLINE vec in_comfy_order(const graft_gemm_i8_scales *s, vec sum, vec scale, int64_t column, int64_t left) {
  const vec v = round_to(sum * scale, s->rounding);
  if (!s->bias.data) return v;
  const char *bias = (const char *)s->bias.data + column * graft_gemm_element_bytes(s->bias.type);
  const int64_t n = left < LANES ? left : LANES;
  return v + round_to(vec_load_typed_n(bias, s->bias.type, n), s->rounding);
}

static void dequantize_row(const graft_gemm_i8_scales *s, const graft_gemm_block *block, float x, const int64_t *wide,
                           int32_t *c) {
  const vec row_scale = vec_all(x);
  for (int64_t j = 0; j < block->columns; j += LANES) {
    const int64_t left = block->columns - j, column = block->column + j;
    vec_i32 sum;
    memcpy(&sum, c + j, sizeof sum);
    vec v = __builtin_convertvector(sum, vec);
    for (int64_t i = 0; wide && i < LANES && i < left; ++i) v[i] = (float)wide[j + i];
    const vec scale = column_scales(s, column, left);
    v = s->is_comfy ? in_comfy_order(s, v, row_scale * scale, column, left) : v * row_scale * scale;
    memcpy(c + j, &v, sizeof v);
  }
}

// What most products are: scales, perhaps a bias.
static bool is_plain(const graft_gemm_i8_scales *s, const graft_gemm_output *out) {
  return !s->is_comfy && out->activation == GRAFT_GEMM_LINEAR && !out->gate.data && !out->residual.data &&
         (!out->bias.data || (out->bias.column_stride == 1 && out->bias.row_stride == 0));
}

static void store_plain_row(const graft_gemm_i8_scales *s, const graft_gemm_output *out, const graft_gemm_block *block,
                            int64_t row, const int32_t *c) {
  const graft_dtype_code type = out->type, bias_type = out->bias.type;
  const int64_t element = graft_gemm_element_bytes(type), bias_element = graft_gemm_element_bytes(bias_type);
  const int64_t column = block->column, n = block->columns, w_step = s->w_step;
  const vec x = vec_all(s->x[row * s->x_step]), one_w = vec_all(s->w ? s->w[0] : 1);
  const float *w = s->w && w_step ? s->w + column : NULL;
  const char *bias = out->bias.data ? (const char *)out->bias.data + column * bias_element : NULL;
  char *to = (char *)out->data + (row * out->row_stride + column) * element;
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    vec_i32 sum;
    memcpy(&sum, c + j, sizeof sum);
    vec v = __builtin_convertvector(sum, vec) * x * (w ? vec_load(w + j) : one_w);
    if (bias) v += vec_load_typed(bias + j * bias_element, bias_type);
    vec_store_typed(to + j * element, type, v);
  }
  if (j == n) return;
  vec_i32 sum;
  memcpy(&sum, c + j, sizeof sum);
  vec v = __builtin_convertvector(sum, vec) * x * (w ? vec_load_n(w + j, n - j) : one_w);
  if (bias) v += vec_load_typed_n(bias + j * bias_element, bias_type, n - j);
  vec_store_typed_n(to + j * element, type, v, n - j);
}

void GRAFT_TARGETED(graft_gemm_i8_store)(const graft_gemm_i8_scales *s, const graft_gemm_output *out,
                                         const graft_gemm_block *block, const int64_t *wide, int32_t *c,
                                         size_t c_stride) {
  if (!wide && is_plain(s, out)) {
    for (int64_t i = 0; i < block->rows; ++i) store_plain_row(s, out, block, block->row + i, c + (size_t)i * c_stride);
    return;
  }
  for (int64_t i = 0; i < block->rows; ++i) {
    const size_t offset = (size_t)i * c_stride;
    dequantize_row(s, block, s->x[(block->row + i) * s->x_step], wide ? wide + offset : NULL, c + offset);
  }
  GRAFT_TARGETED(graft_gemm_core).store(out, block, (const float *)(const void *)c, c_stride);
}
