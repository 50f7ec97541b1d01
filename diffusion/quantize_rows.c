#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/quantize_internal.h"
#include "ops/common/hadamard.h"
#include "ops/common/quantize.h"

enum { ITEM_ELEMENTS = 1 << 16 };

graft_dtype quantize_dtype(const quantize_entry *entry) {
  if (entry->is_copied) return entry->parts[0]->dtype;
  switch (entry->kind) {
    case GRAFT_QUANTIZE_KIND_F16: return GRAFT_F16;
    case GRAFT_QUANTIZE_KIND_BF16: return GRAFT_BF16;
    case GRAFT_QUANTIZE_KIND_FP8: return GRAFT_F8_E4M3;
    case GRAFT_QUANTIZE_KIND_INT8:
    case GRAFT_QUANTIZE_KIND_INT8_CONVROT: return GRAFT_I8;
    case GRAFT_QUANTIZE_KIND_F32: break;
  }
  return GRAFT_F32;
}

size_t quantize_row_bytes(const quantize_entry *entry) {
  return (size_t)entry->columns * quantize_dtype(entry)->block_bytes;
}

// A pass over rows in parallel.
typedef struct pass {
  const quantize_rows *rows;
  bool only_looks;  // for the largest value
  int64_t rows_per_item;
  float *largest;  // of each item
  atomic_bool has_failed;
} pass;

static void load_row(const quantize_entry *entry, int64_t row, float *out) {
  int32_t part = 0;
  while (part + 1 < entry->n_parts && row >= entry->parts[part]->shape[0]) row -= entry->parts[part++]->shape[0];
  const graft_safetensors_tensor *tensor = entry->parts[part];
  const size_t row_bytes = (size_t)entry->columns * tensor->dtype->block_bytes;
  tensor->dtype->to_f32((const char *)tensor->data + (size_t)row * row_bytes, out, (size_t)entry->columns);
}

static float largest_of(const float *x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float size = fabsf(x[i]);
    if (!(size <= most)) most = isnan(size) ? HUGE_VALF : size;
  }
  return most;
}

// Writes |x| in the entry's type to |data| and what that means as numbers to |got|.
static void convert_row(const quantize_rows *r, int64_t i, const float *x, float *got) {
  const quantize_entry *entry = r->entry;
  const int64_t n = entry->columns;
  char *data = r->data + (size_t)i * quantize_row_bytes(entry);
  graft_dtype dtype = quantize_dtype(entry);
  if (dtype == GRAFT_I8) {
    memcpy(got, x, (size_t)n * sizeof *got);
    const float scale = graft_quantize_reference_row(got, n, entry->group, false, (int8_t *)data);
    r->scales[i] = scale;
    for (int64_t k = 0; k < n; ++k) got[k] = ((const int8_t *)data)[k] * scale;
    graft_hadamard_rotate(got, n, entry->group);
    return;
  }
  const float factor = dtype == GRAFT_F8_E4M3 ? 1 / r->scale : 1;
  for (int64_t k = 0; k < n; ++k) got[k] = x[k] * factor;
  dtype->from_f32(got, data, (size_t)n);
  dtype->to_f32(data, got, (size_t)n);
  for (int64_t k = 0; k < n && factor != 1; ++k) got[k] *= r->scale;
}

static void note_error(const quantize_rows *r, int64_t i, const float *x, const float *got) {
  double error = 0, size = 0;
  for (int64_t k = 0; k < r->entry->columns; ++k) {
    const double difference = (double)got[k] - (double)x[k];
    error += difference * difference;
    size += (double)x[k] * (double)x[k];
  }
  r->errors[i] = error;
  r->sizes[i] = size;
}

static void run_item(void *arg, int64_t item) {
  pass *p = arg;
  const quantize_rows *r = p->rows;
  const int64_t n = r->entry->columns, begin = item * p->rows_per_item;
  const int64_t end = begin + p->rows_per_item < r->rows ? begin + p->rows_per_item : r->rows;
  float *x = malloc(2 * (size_t)n * sizeof *x + 1);
  if (x == NULL) {
    atomic_store(&p->has_failed, true);
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    load_row(r->entry, r->first + i, x);
    if (p->only_looks) {
      const float most = largest_of(x, n);
      if (most > p->largest[item]) p->largest[item] = most;
      continue;
    }
    convert_row(r, i, x, x + n);
    note_error(r, i, x, x + n);
  }
  free(x);
}

static graft_status run_pass(const graft_device *device, pass *p, int64_t n_items, graft_error *error) {
  const graft_backend_def *backend = graft_device_backend(device);
  if (backend->parallel != NULL) {
    backend->parallel(graft_device_state(device), run_item, p, n_items);
  } else {
    for (int64_t i = 0; i < n_items; ++i) run_item(p, i);
  }
  if (!atomic_load(&p->has_failed)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for rows of %lld numbers",
                    (long long)p->rows->entry->columns);
}

static pass pass_of(const quantize_rows *rows) {
  const int64_t n = rows->entry->columns > 0 ? rows->entry->columns : 1;
  return (pass){.rows = rows, .rows_per_item = n < ITEM_ELEMENTS ? ITEM_ELEMENTS / n : 1};
}

graft_status quantize_convert(const graft_device *device, const quantize_rows *rows, graft_error *error) {
  pass p = pass_of(rows);
  return run_pass(device, &p, (rows->rows + p.rows_per_item - 1) / p.rows_per_item, error);
}

graft_status quantize_largest(const graft_device *device, const quantize_rows *rows, graft_error *error,
                              float *out_largest) {
  pass p = pass_of(rows);
  const int64_t n_items = (rows->rows + p.rows_per_item - 1) / p.rows_per_item;
  p.only_looks = true;
  p.largest = calloc((size_t)n_items + 1, sizeof *p.largest);
  if (p.largest == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for a table of rows");
  graft_status status = run_pass(device, &p, n_items, error);
  *out_largest = largest_of(p.largest, n_items);
  free(p.largest);
  return status;
}
