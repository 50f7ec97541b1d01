#include "src/graph/convert.h"

#include <float.h>
#include <math.h>
#include <string.h>

// A floating-point format of at most 16 bits: sign, exponent, |mantissa_bits|.
typedef struct small_float {
  int mantissa_bits;
  int bias;
  uint32_t largest;   // pattern of the largest finite value
  uint32_t infinity;  // pattern of infinity, or of NaN where there is none
  uint32_t quiet;     // pattern of a quiet NaN
  uint32_t sign;
} small_float;

static const small_float f16 = {10, 15, 0x7BFF, 0x7C00, 0x7E00, 0x8000};
static const small_float bf16 = {7, 127, 0x7F7F, 0x7F80, 0x7FC0, 0x8000};
static const small_float f8_e4m3 = {3, 7, 0x7E, 0x7F, 0x7F, 0x80};
static const small_float f8_e5m2 = {2, 15, 0x7B, 0x7C, 0x7E, 0x80};

// From double, so that f32 and f64 values are both rounded exactly once.
static inline uint32_t encode(double value, const small_float *format) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint32_t sign = bits >> 63 ? format->sign : 0;
  int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
  uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
  if (exponent == 1024) return sign | (mantissa == 0 ? format->infinity : format->quiet);
  if (exponent == -1023) return sign;  // zero, or a double subnormal: far below half of any smallest value

  mantissa |= UINT64_C(1) << 52;
  int least = 1 - format->bias;
  int shift = 52 - format->mantissa_bits + (exponent < least ? least - exponent : 0);
  if (shift > 53) return sign;
  uint64_t half = UINT64_C(1) << (shift - 1);
  uint64_t rounded = (mantissa + half - 1 + (mantissa >> shift & 1)) >> shift;
  // The hidden bit, and a carry out of the mantissa, add one to the exponent field.
  if (exponent > least) rounded += (uint64_t)(exponent - least) << format->mantissa_bits;
  return sign | (rounded > format->largest ? format->largest : (uint32_t)rounded);
}

// |with_infinity|: the all-ones exponent means infinity and NaN; without, only the all-ones pattern is NaN.
static inline float decode(uint32_t pattern, const small_float *format, bool with_infinity) {
  uint32_t magnitude = pattern & (format->sign - 1);
  uint32_t sign = pattern & format->sign ? UINT32_C(0x80000000) : 0;
  int up = 23 - format->mantissa_bits;
  uint32_t bits;
  if (magnitude >= format->infinity) {
    uint32_t payload = with_infinity ? (magnitude - format->infinity) << up : UINT32_C(0x00400000);
    bits = UINT32_C(0x7F800000) | payload;
  } else if (magnitude >> format->mantissa_bits == 0) {
    // |magnitude| units of the smallest subnormal, 2^(1 - bias - mantissa_bits): a power of two, so the product is
    // exact.
    uint32_t unit_bits = (uint32_t)(127 + 1 - format->bias - format->mantissa_bits) << 23;
    float unit, value;
    memcpy(&unit, &unit_bits, sizeof unit);
    value = (float)magnitude * unit;
    memcpy(&bits, &value, sizeof bits);
  } else {
    bits = (magnitude << up) + ((uint32_t)(127 - format->bias) << 23);
  }
  bits |= sign;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

void graft_convert_f32_to_f32(const void *source, float *target, size_t n) {
  memcpy(target, source, n * sizeof *target);
}

void graft_convert_f32_from_f32(const float *source, void *target, size_t n) {
  memcpy(target, source, n * sizeof *source);
}

void graft_convert_f16_to_f32(const void *source, float *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t pattern;
    memcpy(&pattern, (const char *)source + 2 * i, sizeof pattern);
    target[i] = decode(pattern, &f16, true);
  }
}

void graft_convert_f16_from_f32(const float *source, void *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t pattern = (uint16_t)encode((double)source[i], &f16);
    memcpy((char *)target + 2 * i, &pattern, sizeof pattern);
  }
}

void graft_convert_bf16_to_f32(const void *source, float *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t pattern;
    memcpy(&pattern, (const char *)source + 2 * i, sizeof pattern);
    uint32_t bits = (uint32_t)pattern << 16;
    memcpy(&target[i], &bits, sizeof bits);
  }
}

void graft_convert_bf16_from_f32(const float *source, void *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t pattern = (uint16_t)encode((double)source[i], &bf16);
    memcpy((char *)target + 2 * i, &pattern, sizeof pattern);
  }
}

void graft_convert_f8_e4m3_to_f32(const void *source, float *target, size_t n) {
  const uint8_t *patterns = source;
  for (size_t i = 0; i < n; ++i) target[i] = decode(patterns[i], &f8_e4m3, false);
}

void graft_convert_f8_e4m3_from_f32(const float *source, void *target, size_t n) {
  uint8_t *patterns = target;
  for (size_t i = 0; i < n; ++i) patterns[i] = (uint8_t)encode((double)source[i], &f8_e4m3);
}

void graft_convert_f8_e5m2_to_f32(const void *source, float *target, size_t n) {
  const uint8_t *patterns = source;
  for (size_t i = 0; i < n; ++i) target[i] = decode(patterns[i], &f8_e5m2, true);
}

void graft_convert_f8_e5m2_from_f32(const float *source, void *target, size_t n) {
  uint8_t *patterns = target;
  for (size_t i = 0; i < n; ++i) patterns[i] = (uint8_t)encode((double)source[i], &f8_e5m2);
}

// |beyond| is one above the largest value and, like |least|, exact in double.
static inline int64_t round_to_integer(double value, double least, double beyond, int64_t low, int64_t high) {
  if (isnan(value)) return 0;
  double rounded = nearbyint(value);
  if (rounded < least) return low;
  return rounded >= beyond ? high : (int64_t)rounded;
}

static inline int8_t to_i8(double v) {
  return (int8_t)round_to_integer(v, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX);
}
static inline uint8_t to_u8(double v) {
  return (uint8_t)round_to_integer(v, 0, 0x1p8, 0, UINT8_MAX);
}
static inline int32_t to_i32(double v) {
  return (int32_t)round_to_integer(v, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX);
}
static inline int64_t to_i64(double v) {
  return round_to_integer(v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
}

void graft_convert_i8_to_f32(const void *source, float *target, size_t n) {
  const int8_t *values = source;
  for (size_t i = 0; i < n; ++i) target[i] = values[i];
}

void graft_convert_i8_from_f32(const float *source, void *target, size_t n) {
  int8_t *values = target;
  for (size_t i = 0; i < n; ++i) values[i] = to_i8((double)source[i]);
}

void graft_convert_u8_to_f32(const void *source, float *target, size_t n) {
  const uint8_t *values = source;
  for (size_t i = 0; i < n; ++i) target[i] = values[i];
}

void graft_convert_u8_from_f32(const float *source, void *target, size_t n) {
  uint8_t *values = target;
  for (size_t i = 0; i < n; ++i) values[i] = to_u8((double)source[i]);
}

void graft_convert_i32_to_f32(const void *source, float *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    int32_t value;
    memcpy(&value, (const char *)source + sizeof value * i, sizeof value);
    target[i] = (float)value;
  }
}

void graft_convert_i32_from_f32(const float *source, void *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    int32_t value = to_i32((double)source[i]);
    memcpy((char *)target + sizeof value * i, &value, sizeof value);
  }
}

void graft_convert_i64_to_f32(const void *source, float *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    int64_t value;
    memcpy(&value, (const char *)source + sizeof value * i, sizeof value);
    target[i] = (float)value;
  }
}

void graft_convert_i64_from_f32(const float *source, void *target, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    int64_t value = to_i64((double)source[i]);
    memcpy((char *)target + sizeof value * i, &value, sizeof value);
  }
}

void graft_convert_bool_to_f32(const void *source, float *target, size_t n) {
  const uint8_t *values = source;
  for (size_t i = 0; i < n; ++i) target[i] = values[i] != 0;
}

void graft_convert_bool_from_f32(const float *source, void *target, size_t n) {
  uint8_t *values = target;
  for (size_t i = 0; i < n; ++i) values[i] = source[i] != 0;
}

static bool store_small_float(graft_dtype_code code, void *element, double value) {
  const small_float *format = code == GRAFT_DTYPE_F16       ? &f16
                              : code == GRAFT_DTYPE_BF16    ? &bf16
                              : code == GRAFT_DTYPE_F8_E4M3 ? &f8_e4m3
                              : code == GRAFT_DTYPE_F8_E5M2 ? &f8_e5m2
                                                            : NULL;
  if (format == NULL) return false;
  uint32_t pattern = encode(value, format);
  if (format->sign == 0x80) {
    *(uint8_t *)element = (uint8_t)pattern;
  } else {
    uint16_t wide = (uint16_t)pattern;
    memcpy(element, &wide, sizeof wide);
  }
  return true;
}

static float to_f32(double value) {
  if (isfinite(value) && fabs(value) > (double)FLT_MAX) return value < 0 ? -FLT_MAX : FLT_MAX;
  return (float)value;
}

bool graft_convert_store(graft_dtype_code code, void *element, double value) {
  switch (code) {
    case GRAFT_DTYPE_F32: {
      float v = to_f32(value);
      memcpy(element, &v, sizeof v);
      return true;
    }
    case GRAFT_DTYPE_I32: {
      int32_t v = to_i32(value);
      memcpy(element, &v, sizeof v);
      return true;
    }
    case GRAFT_DTYPE_I64: {
      int64_t v = to_i64(value);
      memcpy(element, &v, sizeof v);
      return true;
    }
    case GRAFT_DTYPE_I8: *(int8_t *)element = to_i8(value); return true;
    case GRAFT_DTYPE_U8: *(uint8_t *)element = to_u8(value); return true;
    case GRAFT_DTYPE_BOOL: *(uint8_t *)element = value != 0; return true;
    default: return store_small_float(code, element, value);
  }
}
