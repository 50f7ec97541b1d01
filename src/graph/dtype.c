#include "graft/dtype.h"

#include <string.h>

#include "src/base/checked.h"
#include "src/graph/convert.h"

#define PLAIN(symbol, text, enumerator, bytes, floating)                                   \
  const graft_dtype_def graft_dtype_##symbol = {.struct_size = sizeof(graft_dtype_def),    \
                                                .code = enumerator,                        \
                                                .name = text,                              \
                                                .block_elements = 1,                       \
                                                .block_bytes = bytes,                      \
                                                .alignment = bytes,                        \
                                                .is_float = floating,                      \
                                                .to_f32 = graft_convert_##symbol##_to_f32, \
                                                .from_f32 = graft_convert_##symbol##_from_f32}

PLAIN(f32, "f32", GRAFT_DTYPE_F32, 4, true);
PLAIN(f16, "f16", GRAFT_DTYPE_F16, 2, true);
PLAIN(bf16, "bf16", GRAFT_DTYPE_BF16, 2, true);
PLAIN(f8_e4m3, "f8_e4m3", GRAFT_DTYPE_F8_E4M3, 1, true);
PLAIN(f8_e5m2, "f8_e5m2", GRAFT_DTYPE_F8_E5M2, 1, true);
PLAIN(i8, "i8", GRAFT_DTYPE_I8, 1, false);
PLAIN(i32, "i32", GRAFT_DTYPE_I32, 4, false);
PLAIN(i64, "i64", GRAFT_DTYPE_I64, 8, false);
PLAIN(u8, "u8", GRAFT_DTYPE_U8, 1, false);
PLAIN(bool, "bool", GRAFT_DTYPE_BOOL, 1, false);

static const graft_dtype built_in[] = {
    [GRAFT_DTYPE_CUSTOM] = NULL,
    [GRAFT_DTYPE_F32] = &graft_dtype_f32,
    [GRAFT_DTYPE_F16] = &graft_dtype_f16,
    [GRAFT_DTYPE_BF16] = &graft_dtype_bf16,
    [GRAFT_DTYPE_F8_E4M3] = GRAFT_F8_E4M3,
    [GRAFT_DTYPE_F8_E5M2] = GRAFT_F8_E5M2,
    [GRAFT_DTYPE_I8] = &graft_dtype_i8,
    [GRAFT_DTYPE_I32] = &graft_dtype_i32,
    [GRAFT_DTYPE_I64] = &graft_dtype_i64,
    [GRAFT_DTYPE_U8] = &graft_dtype_u8,
    [GRAFT_DTYPE_BOOL] = &graft_dtype_bool,
};
enum { N_BUILT_IN = sizeof built_in / sizeof built_in[0] };

graft_dtype graft_dtype_of_code(int64_t code) {
  return code > 0 && code < N_BUILT_IN ? built_in[code] : NULL;
}

// Locale-free comparison: names of types are ASCII.
static bool equals_ignoring_case(const char *name, const char *lower) {
  for (;; ++name, ++lower) {
    char c = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;
    if (c != *lower) return false;
    if (c == '\0') return true;
  }
}

graft_dtype graft_dtype_find(const char *name) {
  if (name == NULL) return NULL;
  for (int code = 1; code < N_BUILT_IN; ++code) {
    if (equals_ignoring_case(name, built_in[code]->name)) return built_in[code];
  }
  return NULL;
}

graft_status graft_dtype_row_bytes(graft_dtype dtype, int64_t n, size_t *out_bytes) {
  if (n < 0 || n % dtype->block_elements != 0) return GRAFT_E_SHAPE;
  size_t bytes;
  if (!graft_checked_mul((size_t)(n / dtype->block_elements), dtype->block_bytes, &bytes)) return GRAFT_E_NO_MEMORY;
  if (bytes > INT64_MAX) return GRAFT_E_NO_MEMORY;
  *out_bytes = bytes;
  return GRAFT_OK;
}

double graft_dtype_load(graft_dtype dtype, const void *element) {
  if (dtype->code == GRAFT_DTYPE_I32) {
    int32_t v;
    memcpy(&v, element, sizeof v);
    return v;
  }
  if (dtype->code == GRAFT_DTYPE_I64) {
    int64_t v;
    memcpy(&v, element, sizeof v);
    return (double)v;
  }
  float v;
  dtype->to_f32(element, &v, 1);
  return (double)v;
}

void graft_dtype_store(graft_dtype dtype, void *element, double value) {
  if (!graft_convert_store(dtype->code, element, value)) {
    float narrow = (float)value;
    dtype->from_f32(&narrow, element, 1);
  }
}
