#include "diffusion/converted.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "ops/common/hadamard.h"

enum { ITEM_BYTES = 1 << 20 };

typedef struct entry {
  const graft_safetensors_tensor *source;
  const graft_quantized_layer *layer;  // NULL: not quantised
  graft_safetensors_tensor tensor;     // what it becomes
  void *memory;
  int64_t rows_per_item, first_item;
} entry;

struct graft_converted {
  entry *entries;
  size_t n_entries;
  int64_t n_items;
  bool is_filled;
  atomic_bool has_failed;
};

static graft_status fail_memory(const graft_safetensors_tensor *tensor, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory to convert the tensor %s",
                    graft_excerpt_name(tensor->name).text);
}

static graft_status add(graft_converted *c, const graft_safetensors_tensor *source, const graft_quantized_layer *layer,
                        graft_dtype dtype, graft_error *error) {
  graft_tensor_desc desc;
  if (source->rank != 2 || source->shape[0] < 1 || source->shape[1] < 1) return GRAFT_OK;
  GRAFT_TRY(graft_tensor_desc_init(dtype, 2, source->shape, error, &desc));
  const size_t bytes = graft_tensor_desc_bytes(&desc);
  entry e = {.source = source, .layer = layer, .tensor = *source, .first_item = c->n_items};
  e.memory = malloc(bytes);
  if (e.memory == NULL) return fail_memory(source, error);
  e.tensor.dtype = dtype;
  e.tensor.dtype_name = dtype->name;
  e.tensor.data = e.memory;
  e.tensor.bytes = bytes;
  e.tensor.file = NULL;
  const int64_t row_bytes = source->shape[1] * (int64_t)sizeof(float);
  e.rows_per_item = row_bytes < ITEM_BYTES ? ITEM_BYTES / row_bytes : 1;
  c->n_items += (source->shape[0] + e.rows_per_item - 1) / e.rows_per_item;
  c->entries[c->n_entries++] = e;
  return GRAFT_OK;
}

static graft_dtype wanted_dtype(const graft_weight_source *source) {
  return source->type == GRAFT_WEIGHT_BF16 ? GRAFT_BF16 : GRAFT_F32;
}

static graft_status add_quantized(graft_converted *c, const graft_weight_source *source, graft_error *error) {
  const bool wants_floats = source->type == GRAFT_WEIGHT_BF16 || source->type == GRAFT_WEIGHT_F32;
  const size_t n = source->quantized ? graft_quantized_count(source->quantized) : 0;
  for (size_t i = 0; i < n; ++i) {
    const graft_quantized_layer *layer = graft_quantized_at(source->quantized, i);
    const bool must = layer->wants_float && layer->format == GRAFT_QUANTIZED_INT8;
    if (wants_floats || must) GRAFT_TRY(add(c, layer->weight, layer, wanted_dtype(source), error));
  }
  return GRAFT_OK;
}

// "layers.0.feed_forward.w1" of "prefix.layers.0.feed_forward.w1.weight"; false for other names.
static bool layer_name(const graft_weight_source *source, const char *tensor, char out[GRAFT_WEIGHT_MAX_NAME]) {
  const char *prefix = source->prefix ? source->prefix : "";
  const size_t n_prefix = strlen(prefix), n_suffix = strlen(".weight"), n = strlen(tensor);
  if (n < n_prefix + n_suffix || n >= GRAFT_WEIGHT_MAX_NAME || strncmp(tensor, prefix, n_prefix) != 0) return false;
  if (strcmp(tensor + n - n_suffix, ".weight") != 0) return false;
  memcpy(out, tensor + n_prefix, n - n_prefix - n_suffix);
  out[n - n_prefix - n_suffix] = '\0';
  return true;
}

static graft_status add_floats(graft_converted *c, const graft_weight_source *source, graft_error *error) {
  char name[GRAFT_WEIGHT_MAX_NAME];
  if (source->type != GRAFT_WEIGHT_BF16 || source->profile == NULL) return GRAFT_OK;
  for (size_t i = 0; i < graft_weights_count(source->weights); ++i) {
    const graft_safetensors_tensor *tensor = graft_weights_at(source->weights, i);
    if (tensor->dtype != GRAFT_F32 || !layer_name(source, tensor->name, name)) continue;
    if (source->profile->is_quantized(name)) GRAFT_TRY(add(c, tensor, NULL, GRAFT_BF16, error));
  }
  return GRAFT_OK;
}

graft_status graft_converted_create(const graft_weight_source *source, graft_error *error,
                                    graft_converted **out_converted) {
  *out_converted = NULL;
  const size_t most = graft_weights_count(source->weights) + 1;
  graft_converted *c = calloc(1, sizeof *c);
  if (c != NULL) c->entries = calloc(most, sizeof *c->entries);
  if (c == NULL || c->entries == NULL) {
    graft_converted_free(c);
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory for a table of %zu weights", most);
  }
  graft_status status = add_quantized(c, source, error);
  if (status == GRAFT_OK) status = add_floats(c, source, error);
  if (status != GRAFT_OK || c->n_entries == 0) {
    graft_converted_free(c);
    return status;
  }
  *out_converted = c;
  return GRAFT_OK;
}

void graft_converted_free(graft_converted *converted) {
  if (converted == NULL) return;
  for (size_t i = 0; i < converted->n_entries; ++i) free(converted->entries[i].memory);
  free(converted->entries);
  free(converted);
}

static void convert_row(const entry *e, int64_t row, float *values) {
  const int64_t k = e->source->shape[1];
  graft_dtype from = e->source->dtype, to = e->tensor.dtype;
  const char *bytes = (const char *)e->source->data + row * k * (int64_t)from->block_bytes;
  from->to_f32(bytes, values, (size_t)k);
  if (e->layer != NULL) {
    float scale = 1;
    const graft_safetensors_tensor *scales = e->layer->scale;
    const size_t at = scales && scales->bytes > sizeof scale ? (size_t)row * sizeof scale : 0;
    if (scales) memcpy(&scale, (const char *)scales->data + at, sizeof scale);
    for (int64_t i = 0; i < k; ++i) values[i] *= scale;
    graft_hadamard_rotate(values, k, e->layer->group);
  }
  to->from_f32(values, (char *)e->memory + row * k * (int64_t)to->block_bytes, (size_t)k);
}

static void convert_item(void *arg, int64_t item) {
  graft_converted *c = arg;
  size_t i = 0;
  while (i + 1 < c->n_entries && c->entries[i + 1].first_item <= item) ++i;
  const entry *e = &c->entries[i];
  const int64_t first = (item - e->first_item) * e->rows_per_item, n = e->source->shape[0];
  const int64_t end = first + e->rows_per_item < n ? first + e->rows_per_item : n;
  float *values = malloc((size_t)e->source->shape[1] * sizeof *values);
  if (values == NULL) {
    atomic_store(&c->has_failed, true);
    return;
  }
  for (int64_t row = first; row < end; ++row) convert_row(e, row, values);
  free(values);
}

graft_status graft_converted_fill(graft_converted *converted, const graft_device *device, graft_error *error) {
  if (converted == NULL || converted->is_filled) return GRAFT_OK;
  const graft_backend_def *backend = graft_device_backend(device);
  atomic_store(&converted->has_failed, false);
  if (backend->parallel != NULL) {
    backend->parallel(graft_device_state(device), convert_item, converted, converted->n_items);
  } else {
    for (int64_t i = 0; i < converted->n_items; ++i) convert_item(converted, i);
  }
  if (atomic_load(&converted->has_failed))
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory to convert weights");
  converted->is_filled = true;
  return GRAFT_OK;
}

const graft_safetensors_tensor *graft_converted_find(const graft_converted *converted,
                                                     const graft_safetensors_tensor *tensor) {
  for (size_t i = 0; converted != NULL && i < converted->n_entries; ++i)
    if (converted->entries[i].source == tensor) return &converted->entries[i].tensor;
  return NULL;
}
