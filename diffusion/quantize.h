// quantize.h — writing a model's transformer with quantised layers: a safetensors file in ComfyUI's names and layout.
//
//   graft_quantize_options options = {.struct_size = sizeof options, .model = "models/emoji-zimage", .output =
//   "q.safetensors",
//                                     .kind = GRAFT_QUANTIZE_INT8_CONVROT, .group = 256};
//   graft_quantize_report *report;
//   graft_quantize_model(context, &options, &report);
//   graft_quantize_report_free(report);
#ifndef GRAFT_DIFFUSION_QUANTIZE_H
#define GRAFT_DIFFUSION_QUANTIZE_H

#include "graft/context.h"

typedef enum graft_quantize_kind {
  GRAFT_QUANTIZE_KIND_F32,
  GRAFT_QUANTIZE_KIND_F16,
  GRAFT_QUANTIZE_KIND_BF16,
  GRAFT_QUANTIZE_KIND_FP8,           // float8_e4m3fn with one scale
  GRAFT_QUANTIZE_KIND_INT8,          // a scale for each row
  GRAFT_QUANTIZE_KIND_INT8_CONVROT,  // and rotated
} graft_quantize_kind;

// "f32", "f16", "bf16", "fp8", "int8", "int8_convrot"; false for any other text. Thread-safe.
bool graft_quantize_kind_parse(const char *text, size_t n_bytes, graft_quantize_kind *out_kind);
const char *graft_quantize_kind_name(graft_quantize_kind kind);

// Layers whose names match |pattern| anywhere (a POSIX extended regular expression; names as in the output, without
// ".weight") become |kind|. The quantised kinds concern matrices only. A pattern that matches none is refused.
typedef struct graft_quantize_rule {
  const char *pattern;
  graft_quantize_kind kind;
} graft_quantize_rule;

// One line of the report: a quantised layer.
typedef struct graft_quantize_layer {
  char *name;
  graft_quantize_kind kind;
  int64_t rows, columns;
  int64_t group;           // of the rotation: the largest power of four up to the wanted one that divides the columns
  double error;            // ‖stored - original‖ / ‖original‖
  double worst_row_error;  // the largest such error of a single row …
  int64_t worst_row;       // … and which
} graft_quantize_layer;

typedef struct graft_quantize_report {
  size_t n_layers;  // quantised ones
  graft_quantize_layer *layers;
  size_t n_tensors;  // in the file
  uint64_t bytes;    // of the file
} graft_quantize_report;

// Zero-initialise, set struct_size and what is wanted. All is borrowed for the call.
typedef struct graft_quantize_options {
  uint32_t struct_size;
  const char *model;         // a model's folder, a transformer's, or a safetensors file in either naming
  const char *output;        // written whole or not at all
  graft_quantize_kind kind;  // of the layers that the model's family normally has quantised; all else becomes F32
  int64_t group;             // the largest that the rotation's groups may be
  const graft_quantize_rule *rules;  // the last that matches decides
  size_t n_rules;
  void *user;
  void (*on_progress)(void *user, size_t n_done, size_t n_tensors);
  bool (*abort)(void *user);  // true stops soon, unless the file is whole and only compared
} graft_quantize_options;

// Reads the model, writes the file, reads it again and compares. Works through the tensors in pieces: neither the model
// nor the result is in memory as a whole. Free the report with graft_quantize_report_free.
// Errors: GRAFT_E_INVALID (an option), GRAFT_E_NOT_FOUND (a file; layers for a rule), GRAFT_E_FORMAT (a broken file;
// weights that are no finite numbers), GRAFT_E_UNSUPPORTED (an unknown family; a model that is quantised already),
// GRAFT_E_IO, GRAFT_E_CANCELLED, GRAFT_E_NO_MEMORY. Details are in the context's error record.
GRAFT_NODISCARD graft_status graft_quantize_model(graft_context *context, const graft_quantize_options *options,
                                                  graft_quantize_report **out_report);
void graft_quantize_report_free(graft_quantize_report *report);

#endif
