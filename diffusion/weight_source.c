#include "diffusion/weight_source.h"

#include <stdio.h>
#include <string.h>

#include "diffusion/converted.h"
#include "diffusion/made_up.h"
#include "graft/cuda.h"
#include "ops/common/hadamard.h"

static const char *const prefixes[] = {"", "model.diffusion_model.", "diffusion_model.", "transformer."};

static bool has(const graft_weight_source *source, const char *prefix, const char *name) {
  char full[GRAFT_WEIGHT_MAX_NAME];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  return graft_weights_find(source->weights, full) != NULL;
}

void graft_weight_source_detect(graft_weight_source *source) {
  if (source->profile == NULL) return;
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; ++i) {
    const bool is_comfy = has(source, prefixes[i], source->profile->mark);
    if (!is_comfy && !has(source, prefixes[i], source->profile->other_mark)) continue;
    source->prefix = prefixes[i];
    source->is_comfy = is_comfy;
    return;
  }
}

static graft_weight_place place_of(const graft_weight_source *source, const char *name) {
  graft_weight_place place = {.n_parts = 1};
  if (source->is_comfy) {
    source->profile->place(name, &place);
  } else {
    snprintf(place.name, sizeof place.name, "%s", name);
  }
  if (source->prefix == NULL || source->prefix[0] == '\0') return place;
  const size_t n_prefix = strlen(source->prefix), room = sizeof place.name - n_prefix - 1;
  memmove(place.name + n_prefix, place.name, strnlen(place.name, room) + 1);
  place.name[sizeof place.name - 1] = '\0';
  memcpy(place.name, source->prefix, n_prefix);
  return place;
}

// The rows of |tensor| that belong to |place|; all of them where they cannot be shared out evenly.
static graft_safetensors_tensor rows_of(const graft_safetensors_tensor *tensor, const graft_weight_place *place) {
  graft_safetensors_tensor rows = *tensor;
  if (place->n_parts == 1 || tensor->rank < 1 || tensor->shape[0] % place->n_parts != 0) return rows;
  rows.shape[0] /= place->n_parts;
  rows.n_elements /= place->n_parts;
  rows.bytes /= (size_t)place->n_parts;
  rows.data = (const char *)tensor->data + (size_t)place->part * rows.bytes;
  rows.file_offset += (uint64_t)place->part * rows.bytes;
  return rows;
}

bool graft_weight_source_find(const graft_weight_source *source, const char *name,
                              graft_safetensors_tensor *out_tensor) {
  if (source->made_up != NULL) return graft_made_up_find(source->made_up, name, out_tensor);
  const graft_weight_place place = place_of(source, name);
  const graft_safetensors_tensor *tensor = graft_weights_find(source->weights, place.name);
  if (tensor == NULL) return false;
  const graft_safetensors_tensor *converted = graft_converted_find(source->converted, tensor);
  *out_tensor = rows_of(converted ? converted : tensor, &place);
  return true;
}

// What the file says about the layer whose weight is at |place|; NULL: not quantised.
static const graft_quantized_layer *quantized_at(const graft_weight_source *source, const graft_weight_place *place) {
  char layer[GRAFT_WEIGHT_MAX_NAME];
  const size_t n = strlen(place->name), n_suffix = strlen(".weight");
  if (source->quantized == NULL || n < n_suffix || strcmp(place->name + n - n_suffix, ".weight") != 0) return NULL;
  memcpy(layer, place->name, n - n_suffix);
  layer[n - n_suffix] = '\0';
  return graft_quantized_find(source->quantized, layer);
}

bool graft_weight_source_is_quantized(const graft_weight_source *source, const char *name) {
  if (source->made_up != NULL) return false;
  const graft_weight_place place = place_of(source, name);
  return quantized_at(source, &place) != NULL;
}

bool graft_weight_source_layer(const graft_weight_source *source, const char *name, graft_weight_layer *out_layer) {
  if (source->made_up != NULL) return graft_made_up_layer(source->made_up, name, out_layer);
  char weight[GRAFT_WEIGHT_MAX_NAME];
  snprintf(weight, sizeof weight, "%s.weight", name);
  const graft_weight_place place = place_of(source, weight);
  const graft_safetensors_tensor *tensor = graft_weights_find(source->weights, place.name);
  if (tensor == NULL) return false;
  const graft_safetensors_tensor *converted = graft_converted_find(source->converted, tensor);
  *out_layer = (graft_weight_layer){.weight = rows_of(converted ? converted : tensor, &place), .group = 1};
  if (converted != NULL) return true;
  const graft_quantized_layer *layer = quantized_at(source, &place);
  if (layer == NULL) return true;
  out_layer->is_quantized = true;
  out_layer->format = layer->format;
  out_layer->group = layer->group;
  out_layer->has_scale = layer->scale != NULL;
  if (layer->scale == NULL) return true;
  out_layer->scale = layer->scale->bytes > sizeof(float) ? rows_of(layer->scale, &place) : *layer->scale;
  return true;
}

// GPUs multiply 16-bit numbers many times as fast as f32. On the CPU f32 costs no more, and is better.
graft_dtype graft_weight_type_activations(graft_weight_type type, const graft_device *device) {
  if (graft_device_service(device, GRAFT_GPU_CONTEXT_SERVICE) == NULL) return GRAFT_F32;
  switch (type) {
    case GRAFT_WEIGHT_F16: return GRAFT_F16;
    case GRAFT_WEIGHT_BF16:
    case GRAFT_WEIGHT_INT8:
    case GRAFT_WEIGHT_INT8_CONVROT: return GRAFT_BF16;
    default: return GRAFT_F32;
  }
}

bool graft_weight_source_quantizes(const graft_weight_source *source, const char *name, int64_t n_in,
                                   int64_t *out_group) {
  const bool is_rotated = source->type == GRAFT_WEIGHT_INT8_CONVROT;
  if ((!is_rotated && source->type != GRAFT_WEIGHT_INT8) || source->profile == NULL || n_in < 1) return false;
  *out_group = is_rotated ? graft_hadamard_fit(n_in, GRAFT_WEIGHT_GROUP) : 1;
  return source->profile->is_quantized(name);
}
