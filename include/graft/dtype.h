// dtype.h — element types. A dtype is the address of a constant description, so an application's own block-quantised
// type is used exactly like a built-in one: compare addresses, read sizes from the description.
#ifndef GRAFT_DTYPE_H
#define GRAFT_DTYPE_H

#include "graft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Codes of the built-in types, for `switch`. An application's dtype has code GRAFT_DTYPE_CUSTOM.
typedef enum graft_dtype_code {
  GRAFT_DTYPE_CUSTOM = 0,
  GRAFT_DTYPE_F32,
  GRAFT_DTYPE_F16,
  GRAFT_DTYPE_BF16,
  GRAFT_DTYPE_F8_E4M3,  // bias 7, largest 448, no infinity, S.1111.111 is NaN (the "fn" variant)
  GRAFT_DTYPE_F8_E5M2,  // bias 15, largest 57344, with infinity and NaN
  GRAFT_DTYPE_I8,
  GRAFT_DTYPE_I32,
  GRAFT_DTYPE_I64,
  GRAFT_DTYPE_U8,
  GRAFT_DTYPE_BOOL,  // one byte, zero is false
} graft_dtype_code;

// Description of an element type. Constant, with static storage; must outlive every graph and plan that uses it.
// Elements come in blocks of |block_elements| that occupy |block_bytes|; plain types have blocks of one element.
// Rows of a block type are contiguous and hold whole blocks.
typedef struct graft_dtype_def {
  uint32_t struct_size;
  graft_dtype_code code;
  const char
      *name;  // as safetensors spells it, in lower case: "f32", "bf16", "f8_e4m3"; an application's "vendor.name"
  uint32_t block_elements;
  uint32_t block_bytes;
  uint32_t alignment;  // of a block, in bytes
  bool is_float;
  // Convert |n| elements (a whole number of blocks) of a contiguous run. Source and target do not overlap.
  // from_f32 rounds to nearest, ties to even; finite values beyond the largest saturate; infinity and NaN stay what
  // they are, except that f8_e4m3 has no infinity and takes NaN. Integers saturate and NaN gives 0; in bool only 0 is
  // false. Thread-safe.
  void (*to_f32)(const void *source, float *target, size_t n);
  void (*from_f32)(const float *source, void *target, size_t n);
} graft_dtype_def;

typedef const graft_dtype_def *graft_dtype;

GRAFT_API extern const graft_dtype_def graft_dtype_f32, graft_dtype_f16, graft_dtype_bf16, graft_dtype_f8_e4m3,
    graft_dtype_f8_e5m2, graft_dtype_i8, graft_dtype_i32, graft_dtype_i64, graft_dtype_u8, graft_dtype_bool;

#define GRAFT_F32 (&graft_dtype_f32)
#define GRAFT_F16 (&graft_dtype_f16)
#define GRAFT_BF16 (&graft_dtype_bf16)
#define GRAFT_F8_E4M3 (&graft_dtype_f8_e4m3)
#define GRAFT_F8_E5M2 (&graft_dtype_f8_e5m2)
#define GRAFT_I8 (&graft_dtype_i8)
#define GRAFT_I32 (&graft_dtype_i32)
#define GRAFT_I64 (&graft_dtype_i64)
#define GRAFT_U8 (&graft_dtype_u8)
#define GRAFT_BOOL (&graft_dtype_bool)

// The built-in dtype named |name| ("f32", "bf16", …; upper case is accepted), or NULL. Thread-safe.
GRAFT_API graft_dtype graft_dtype_find(const char *name);

// Bytes of a contiguous row of |n| elements. GRAFT_E_SHAPE when |n| is negative or not a whole number of blocks,
// GRAFT_E_NO_MEMORY when the size overflows; no message is set. Thread-safe.
GRAFT_API GRAFT_NODISCARD graft_status graft_dtype_row_bytes(graft_dtype dtype, int64_t n, size_t *out_bytes);

// Converts one element of a plain (block of one) type, any alignment, by the rules above; built-in types round once,
// and 64-bit integers beyond 2^53 round. Thread-safe.
GRAFT_API double graft_dtype_load(graft_dtype dtype, const void *element);
GRAFT_API void graft_dtype_store(graft_dtype dtype, void *element, double value);

#ifdef __cplusplus
}
#endif

#endif
