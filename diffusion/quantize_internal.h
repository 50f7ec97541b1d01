// quantize_internal.h — the files that make up graft_quantize_model.
#ifndef GRAFT_DIFFUSION_QUANTIZE_INTERNAL_H
#define GRAFT_DIFFUSION_QUANTIZE_INTERNAL_H

#include "diffusion/quantize.h"
#include "diffusion/weight_source.h"
#include "formats/safetensors_writer.h"
#include "graft/device.h"

enum { QUANTIZE_MAX_PARTS = 3 };

// A tensor on its way: some of the model's, one below the other, become one of the file, with a scale and a marker
// where it is quantised.
typedef struct quantize_entry {
  char name[GRAFT_WEIGHT_MAX_NAME];   // of the tensor in the file
  char layer[GRAFT_WEIGHT_MAX_NAME];  // the same without ".weight"
  char scale_name[GRAFT_WEIGHT_MAX_NAME], marker_name[GRAFT_WEIGHT_MAX_NAME];
  const graft_safetensors_tensor *parts[QUANTIZE_MAX_PARTS];
  int32_t n_parts;
  int64_t rows, columns;  // all dimensions but the last are rows
  graft_quantize_kind kind;
  bool is_copied;  // not of a float type: as it is
  int64_t group;
  char marker[GRAFT_QUANTIZED_MAX_MARKER];
  size_t marker_bytes;
  size_t weight, scale, mark;  // indices of tensors in the file
} quantize_entry;

typedef struct quantize_job {
  const graft_quantize_options *options;
  graft_error *error;
  graft_device *device;
  graft_weights *weights;
  graft_weight_source source;
  quantize_entry *entries;
  size_t n_entries;
  graft_safetensors_source *tensors;  // of the file
  uint64_t *checksums;                // of what was written, by tensor
  size_t n_tensors;
  graft_quantize_report *report;
} quantize_job;

static inline bool quantize_is_quantized(graft_quantize_kind kind) {
  return kind >= GRAFT_QUANTIZE_KIND_FP8;
}

// quantize.c: opens job->options->model and finds out its family.
GRAFT_NODISCARD graft_status quantize_open_model(quantize_job *job);

// quantize_entries.c: what becomes of each tensor, and how the file is laid out.
GRAFT_NODISCARD graft_status quantize_collect(quantize_job *job);

// quantize_rows.c: numbers. |rows| of an entry from |first| on are converted into |data| (rows · bytes of a row), and
// their |scales| (int8: one each; fp8: |scale| is used), squared errors and squared sizes noted.
typedef struct quantize_rows {
  const quantize_entry *entry;
  int64_t first, rows;
  float scale;
  char *data;
  float *scales;
  double *errors, *sizes;
} quantize_rows;
GRAFT_NODISCARD graft_status quantize_convert(const graft_device *device, const quantize_rows *rows,
                                              graft_error *error);
// The largest absolute value among such rows; infinite where one is no number.
GRAFT_NODISCARD graft_status quantize_largest(const graft_device *device, const quantize_rows *rows, graft_error *error,
                                              float *out_largest);
// Bytes of one row of the entry's tensor in the file.
size_t quantize_row_bytes(const quantize_entry *entry);
graft_dtype quantize_dtype(const quantize_entry *entry);

#endif
