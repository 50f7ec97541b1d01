// convert.h — conversions of the built-in dtypes to and from f32. Not installed.
#ifndef GRAFT_SRC_GRAPH_CONVERT_H
#define GRAFT_SRC_GRAPH_CONVERT_H

#include "graft/dtype.h"

#define GRAFT_CONVERT_DECLARE(symbol)                                                \
  void graft_convert_##symbol##_to_f32(const void *source, float *target, size_t n); \
  void graft_convert_##symbol##_from_f32(const float *source, void *target, size_t n);

GRAFT_CONVERT_DECLARE(f32)
GRAFT_CONVERT_DECLARE(f16)
GRAFT_CONVERT_DECLARE(bf16)
GRAFT_CONVERT_DECLARE(f8_e4m3)
GRAFT_CONVERT_DECLARE(f8_e5m2)
GRAFT_CONVERT_DECLARE(i8)
GRAFT_CONVERT_DECLARE(i32)
GRAFT_CONVERT_DECLARE(i64)
GRAFT_CONVERT_DECLARE(u8)
GRAFT_CONVERT_DECLARE(bool)

#undef GRAFT_CONVERT_DECLARE

// Stores |value| as one element of a built-in type, rounding once; false, with nothing stored, for a custom type.
bool graft_convert_store(graft_dtype_code code, void *element, double value);

// The built-in dtype with |code|, or NULL.
graft_dtype graft_dtype_of_code(int64_t code);

#endif
