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
  int64_t n_rows, k;  // as a matrix
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
  if (source->rank < 1 || source->n_elements < 1) return GRAFT_OK;
  GRAFT_TRY(graft_tensor_desc_init(dtype, source->rank, source->shape, error, &desc));
  const size_t bytes = graft_tensor_desc_bytes(&desc);
  const int64_t n_rows = source->rank > 1 ? source->shape[0] : 1, k = source->n_elements / n_rows;
  entry e = {.source = source, .layer = layer, .tensor = *source, .n_rows = n_rows, .k = k, .first_item = c->n_items};
  e.memory = malloc(bytes);
  if (e.memory == NULL) return fail_memory(source, error);
  e.tensor.dtype = dtype;
  e.tensor.dtype_name = dtype->name;
  e.tensor.data = e.memory;
  e.tensor.bytes = bytes;
  e.tensor.file = NULL;
  const int64_t row_bytes = k * (int64_t)sizeof(float);
  e.rows_per_item = row_bytes < ITEM_BYTES ? ITEM_BYTES / row_bytes : 1;
  c->n_items += (n_rows + e.rows_per_item - 1) / e.rows_per_item;
  c->entries[c->n_entries++] = e;
  return GRAFT_OK;
}

static bool wants_half(const graft_weight_source *source) {
  return source->type == GRAFT_WEIGHT_BF16 || source->type == GRAFT_WEIGHT_F16;
}

// What layers become that are computed in floating-point numbers.
static graft_dtype wanted_dtype(const graft_weight_source *source) {
  if (source->activations != NULL) return source->activations;
  return !wants_half(source) ? GRAFT_F32 : source->type == GRAFT_WEIGHT_BF16 ? GRAFT_BF16 : GRAFT_F16;
}

static graft_status add_quantized(graft_converted *c, const graft_weight_source *source, graft_error *error) {
  const bool wants_floats = wants_half(source) || source->type == GRAFT_WEIGHT_F32;
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

// Whether |tensor| is the weight of a layer that int8 types keep in int8.
static bool is_layer(const graft_weight_source *source, const graft_safetensors_tensor *tensor) {
  char name[GRAFT_WEIGHT_MAX_NAME];
  return source->profile != NULL && layer_name(source, tensor->name, name) && source->profile->is_quantized(name);
}

static bool ends_in(const char *name, const char *suffix) {
  const size_t n = strlen(name), n_suffix = strlen(suffix);
  return n >= n_suffix && strcmp(name + n - n_suffix, suffix) == 0;
}

static bool is_float(const graft_safetensors_tensor *tensor) {
  return tensor->dtype == GRAFT_F32 || tensor->dtype == GRAFT_F16 || tensor->dtype == GRAFT_BF16;
}

// Whether |tensor|, a matrix, filters or a bias, must have the type of activations. Weights of norms keep their own.
static bool follows_activations(const graft_weight_source *source, const graft_safetensors_tensor *tensor) {
  const bool is_quantized_later = source->type == GRAFT_WEIGHT_INT8 || source->type == GRAFT_WEIGHT_INT8_CONVROT;
  if (source->activations == NULL || !is_float(tensor) || tensor->dtype == source->activations) return false;
  if (tensor->rank == 1) return ends_in(tensor->name, ".bias");
  return ends_in(tensor->name, ".weight") && !(is_quantized_later && is_layer(source, tensor));
}

static graft_status add_floats(graft_converted *c, const graft_weight_source *source, graft_error *error) {
  for (size_t i = 0; i < graft_weights_count(source->weights); ++i) {
    const graft_safetensors_tensor *tensor = graft_weights_at(source->weights, i);
    const bool is_wide = wants_half(source) && tensor->dtype == GRAFT_F32 && is_layer(source, tensor);
    if (!is_wide && !follows_activations(source, tensor)) continue;
    GRAFT_TRY(add(c, tensor, NULL, wanted_dtype(source), error));
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
  const int64_t k = e->k;
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
  const int64_t first = (item - e->first_item) * e->rows_per_item, n = e->n_rows;
  const int64_t end = first + e->rows_per_item < n ? first + e->rows_per_item : n;
  float *values = malloc((size_t)e->k * sizeof *values);
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
