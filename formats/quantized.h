// quantized.h — which layers of a file are quantised, and how: ComfyUI's conventions.
//  - `<layer>.comfy_quant`, a U8 tensor that holds JSON: {"format": "int8_tensorwise", "convrot": true, …};
//  - the same per layer in the header, `__metadata__._quantization_metadata`;
//  - the older one: a tensor `…scaled_fp8` marks the file, layers have `scale_weight` and sometimes `scale_input`.
// Formats: int8_tensorwise (with or without rotation), float8_e4m3fn, float8_e5m2. Any other is refused.
#ifndef GRAFT_FORMATS_QUANTIZED_H
#define GRAFT_FORMATS_QUANTIZED_H

#include "formats/weights.h"

typedef enum graft_quantized_format {
  GRAFT_QUANTIZED_INT8,
  GRAFT_QUANTIZED_E4M3,
  GRAFT_QUANTIZED_E5M2,
} graft_quantized_format;

// One layer. Everything it points to lives as long as the table and the weights.
typedef struct graft_quantized_layer {
  const char *name;  // "layers.0.attention.qkv", as in the file
  graft_quantized_format format;
  int64_t group;     // int8: of the rotation (ops/common/hadamard.h); 1: none
  bool wants_float;  // products must be of floating-point numbers
  const graft_safetensors_tensor *weight;
  const graft_safetensors_tensor *scale;  // F32, 1 element or one for each row of the weight; NULL: 1
} graft_quantized_layer;

typedef struct graft_quantized graft_quantized;

// Reads and checks what |weights|, which must stay open, say about their layers. Release with graft_quantized_free.
// Errors, naming file and layer: GRAFT_E_FORMAT (a marker or scale that is broken or missing, a group that is no power
// of four or does not divide the rows), GRAFT_E_UNSUPPORTED (a format that graft does not know), GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_quantized_read(const graft_weights *weights, graft_error *error,
                                                  graft_quantized **out_quantized);
void graft_quantized_free(graft_quantized *quantized);

size_t graft_quantized_count(const graft_quantized *quantized);
const graft_quantized_layer *graft_quantized_at(const graft_quantized *quantized, size_t index);

// The layer called |name|, or NULL: not quantised. Thread-safe.
const graft_quantized_layer *graft_quantized_find(const graft_quantized *quantized, const char *name);

enum { GRAFT_QUANTIZED_MAX_MARKER = 128 };

// Writes the JSON of a layer's `comfy_quant` tensor to |text|, as Python's json.dumps does; returns its length.
size_t graft_quantized_marker(graft_quantized_format format, int64_t group, char text[GRAFT_QUANTIZED_MAX_MARKER]);

#endif
