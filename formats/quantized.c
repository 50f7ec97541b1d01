#include "formats/quantized.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/json.h"
#include "formats/name_table.h"

enum { MAX_MARKER_BYTES = 65536, MAX_NAME_BYTES = 512, DEFAULT_GROUP = 256 };

static const char marker_suffix[] = ".comfy_quant";
static const char old_mark[] = "scaled_fp8";
static const char old_scale_suffix[] = ".scale_weight";
static const char header_key[] = "_quantization_metadata";
static const char usual_prefix[] = "model.diffusion_model.";

struct graft_quantized {
  graft_quantized_layer *layers;
  char **names;  // parallel, owned
  size_t n_layers, capacity;
  graft_name_table table;
};

// A table being filled from a file.
typedef struct reader {
  const graft_weights *weights;
  graft_quantized *out;
} reader;

static graft_status fail(const reader *r, const char *layer, graft_status status, const char *reason,
                         graft_error *error) {
  return GRAFT_FAIL(error, status, "%s: the quantised layer `%s`: %s",
                    graft_excerpt_path(graft_weights_path(r->weights)).text, graft_excerpt_name(layer).text, reason);
}

static graft_status fail_memory(const reader *r, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for its quantised layers",
                    graft_excerpt_path(graft_weights_path(r->weights)).text);
}

// The tensor `layer.suffix`, or NULL.
static const graft_safetensors_tensor *find(const reader *r, const char *layer, const char *suffix) {
  char name[MAX_NAME_BYTES];
  int n = snprintf(name, sizeof name, "%s%s", layer, suffix);
  return n > 0 && n < MAX_NAME_BYTES ? graft_weights_find(r->weights, name) : NULL;
}

// What a marker says.
typedef struct marker {
  const char *format;
  bool is_rotated, wants_float;
  json_int_t group;
} marker;

// A parameter may also stand inside `params`.
static const json_t *parameter(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return value != NULL ? value : json_object_get(json_object_get(object, "params"), key);
}

static graft_status read_marker(const reader *r, const char *layer, const json_t *object, graft_error *error,
                                marker *out) {
  if (json_is_string(object)) {
    *out = (marker){.format = json_string_value(object)};
    return GRAFT_OK;
  }
  *out = (marker){.format = json_string_value(json_object_get(object, "format")),
                  .is_rotated = json_is_true(parameter(object, "convrot")),
                  .wants_float = json_is_true(json_object_get(object, "full_precision_matrix_mult")),
                  .group = DEFAULT_GROUP};
  if (out->format == NULL) return fail(r, layer, GRAFT_E_FORMAT, "its marker names no `format`", error);
  const json_t *group = parameter(object, "convrot_groupsize");
  if (group != NULL && !json_is_integer(group))
    return fail(r, layer, GRAFT_E_FORMAT, "`convrot_groupsize` is not an integer", error);
  if (group != NULL) out->group = json_integer_value(group);
  return GRAFT_OK;
}

static graft_status set_format(const reader *r, const marker *m, graft_error *error, graft_quantized_layer *layer) {
  static const struct {
    const char *name;
    graft_quantized_format format;
    const graft_dtype_def *dtype;
  } formats[] = {{"int8_tensorwise", GRAFT_QUANTIZED_INT8, GRAFT_I8},
                 {"float8_e4m3fn", GRAFT_QUANTIZED_E4M3, GRAFT_F8_E4M3},
                 {"float8_e5m2", GRAFT_QUANTIZED_E5M2, GRAFT_F8_E5M2}};
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; ++i) {
    if (strcmp(m->format, formats[i].name) != 0) continue;
    layer->format = formats[i].format;
    if (layer->weight->dtype == formats[i].dtype) return GRAFT_OK;
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the quantised layer `%s`: its weight is %s, which is not %s",
                      graft_excerpt_path(graft_weights_path(r->weights)).text, graft_excerpt_name(layer->name).text,
                      layer->weight->dtype_name, m->format);
  }
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                    "%s: the layer `%s` is quantised as \"%s\"; graft reads int8_tensorwise, float8_e4m3fn and "
                    "float8_e5m2",
                    graft_excerpt_path(graft_weights_path(r->weights)).text, graft_excerpt_name(layer->name).text,
                    graft_excerpt_name(m->format).text);
}

static bool is_power_of_four(int64_t n) {
  while (n > 1 && n % 4 == 0) n /= 4;
  return n == 1;
}

static graft_status check_group(const reader *r, const graft_quantized_layer *layer, graft_error *error) {
  const int64_t k = layer->weight->shape[1];
  if (layer->group >= 1 && is_power_of_four(layer->group) && k % layer->group == 0) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                    "%s: the layer `%s` is rotated in groups of %lld, which must be a power of four that divides its "
                    "%lld inputs",
                    graft_excerpt_path(graft_weights_path(r->weights)).text, graft_excerpt_name(layer->name).text,
                    (long long)layer->group, (long long)k);
}

static graft_status check_scale(const reader *r, const graft_quantized_layer *layer, graft_error *error) {
  const graft_safetensors_tensor *scale = layer->scale;
  const bool is_int8 = layer->format == GRAFT_QUANTIZED_INT8;
  if (scale == NULL) return fail(r, layer->name, GRAFT_E_FORMAT, "its scale is missing", error);
  if (scale->dtype != GRAFT_F32) return fail(r, layer->name, GRAFT_E_FORMAT, "its scale is not F32", error);
  const size_t n = scale->bytes / sizeof(float);
  if (n == 1 || (is_int8 && n == (size_t)layer->weight->shape[0] && scale->shape[0] == layer->weight->shape[0]))
    return GRAFT_OK;
  return fail(r, layer->name, GRAFT_E_FORMAT,
              is_int8 ? "its scale has neither one element nor one for each row of the weight"
                      : "its scale has more than one element",
              error);
}

static graft_status grow(const reader *r, graft_error *error) {
  graft_quantized *out = r->out;
  if (out->n_layers < out->capacity) return GRAFT_OK;
  const size_t capacity = out->capacity == 0 ? 64 : 2 * out->capacity;
  graft_quantized_layer *layers = realloc(out->layers, capacity * sizeof *layers);
  if (layers == NULL) return fail_memory(r, error);
  out->layers = layers;
  char **names = realloc(out->names, capacity * sizeof *names);
  if (names == NULL) return fail_memory(r, error);
  out->names = names;
  out->capacity = capacity;
  return GRAFT_OK;
}

static graft_status add(const reader *r, const char *name, const marker *m, const char *scale, graft_error *error) {
  graft_quantized *out = r->out;
  GRAFT_TRY(grow(r, error));
  char *copy = strdup(name);
  if (copy == NULL) return fail_memory(r, error);
  out->names[out->n_layers] = copy;
  graft_quantized_layer *layer = &out->layers[out->n_layers++];
  *layer = (graft_quantized_layer){.name = copy,
                                   .group = m->is_rotated ? m->group : 1,
                                   .wants_float = m->wants_float,
                                   .weight = find(r, name, ".weight"),
                                   .scale = find(r, name, scale)};
  if (layer->weight == NULL) return fail(r, name, GRAFT_E_FORMAT, "it has no weight", error);
  GRAFT_TRY(set_format(r, m, error, layer));
  GRAFT_TRY(check_scale(r, layer, error));
  if (layer->format != GRAFT_QUANTIZED_INT8) return GRAFT_OK;
  if (layer->weight->rank != 2) return fail(r, name, GRAFT_E_UNSUPPORTED, "its int8 weight is no matrix", error);
  return check_group(r, layer, error);
}

// The part of |text| before |suffix|, into |out|; false where it does not end so.
static bool cut(const char *text, const char *suffix, char out[MAX_NAME_BYTES]) {
  const size_t n = strlen(text), n_suffix = strlen(suffix);
  if (n < n_suffix || n - n_suffix >= MAX_NAME_BYTES || strcmp(text + n - n_suffix, suffix) != 0) return false;
  memcpy(out, text, n - n_suffix);
  out[n - n_suffix] = '\0';
  return true;
}

static graft_status read_marker_tensor(const reader *r, const graft_safetensors_tensor *tensor, const char *layer,
                                       graft_error *error) {
  if (tensor->dtype != GRAFT_U8 || tensor->bytes == 0 || tensor->bytes > MAX_MARKER_BYTES)
    return fail(r, layer, GRAFT_E_FORMAT, "its `comfy_quant` is not a short text", error);
  graft_json *json = NULL;
  marker m;
  GRAFT_TRY(graft_json_parse(tensor->data, tensor->bytes, tensor->name, error, &json));
  graft_status status = read_marker(r, layer, graft_json_root(json), error, &m);
  if (status == GRAFT_OK) status = add(r, layer, &m, ".weight_scale", error);
  graft_json_close(json);
  return status;
}

static graft_status read_marker_tensors(const reader *r, graft_error *error) {
  char layer[MAX_NAME_BYTES];
  for (size_t i = 0; i < graft_weights_count(r->weights); ++i) {
    const graft_safetensors_tensor *tensor = graft_weights_at(r->weights, i);
    if (cut(tensor->name, marker_suffix, layer)) GRAFT_TRY(read_marker_tensor(r, tensor, layer, error));
  }
  return GRAFT_OK;
}

// Writers disagree about whether keys carry the prefix that the tensors have.
static const char *name_in_file(const reader *r, const char *key, char name[MAX_NAME_BYTES]) {
  const size_t n_prefix = sizeof usual_prefix - 1;
  if (find(r, key, ".weight") != NULL) return key;
  if (strncmp(key, usual_prefix, n_prefix) == 0 && find(r, key + n_prefix, ".weight") != NULL) return key + n_prefix;
  snprintf(name, MAX_NAME_BYTES, "%s%s", usual_prefix, key);
  return find(r, name, ".weight") != NULL ? name : key;
}

static graft_status read_header_layers(const reader *r, const graft_json *json, graft_error *error) {
  json_t *layers = json_object_get(graft_json_root(json), "layers");
  if (!json_is_object(layers))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `%s` has no object `layers`",
                      graft_excerpt_path(graft_weights_path(r->weights)).text, header_key);
  const char *key;
  json_t *value;
  json_object_foreach(layers, key, value) {
    char name[MAX_NAME_BYTES];
    marker m;
    const char *layer = name_in_file(r, key, name);
    GRAFT_TRY(read_marker(r, layer, value, error, &m));
    GRAFT_TRY(add(r, layer, &m, ".weight_scale", error));
  }
  return GRAFT_OK;
}

// Sets |out_found| where one of the files has the header form.
static graft_status read_headers(const reader *r, graft_error *error, bool *out_found) {
  for (size_t i = 0; i < graft_weights_file_count(r->weights); ++i) {
    const char *text = graft_safetensors_metadata(graft_weights_file(r->weights, i), header_key);
    if (text == NULL) continue;
    *out_found = true;
    graft_json *json = NULL;
    GRAFT_TRY(graft_json_parse(text, strlen(text), graft_weights_path(r->weights), error, &json));
    graft_status status = read_header_layers(r, json, error);
    graft_json_close(json);
    GRAFT_TRY(status);
  }
  return GRAFT_OK;
}

static graft_status read_old_layers(const reader *r, const char *prefix, const marker *m, graft_error *error) {
  char layer[MAX_NAME_BYTES];
  for (size_t i = 0; i < graft_weights_count(r->weights); ++i) {
    const char *name = graft_weights_at(r->weights, i)->name;
    if (strncmp(name, prefix, strlen(prefix)) != 0 || !cut(name, old_scale_suffix, layer)) continue;
    GRAFT_TRY(add(r, layer, m, old_scale_suffix, error));
  }
  return GRAFT_OK;
}

// An F32 mark is one of E4M3; two elements ask for floating-point products.
static graft_status read_old_marks(const reader *r, graft_error *error) {
  char prefix[MAX_NAME_BYTES];
  for (size_t i = 0; i < graft_weights_count(r->weights); ++i) {
    const graft_safetensors_tensor *mark = graft_weights_at(r->weights, i);
    if (!cut(mark->name, old_mark, prefix)) continue;
    if (prefix[0] != '\0' && prefix[strlen(prefix) - 1] != '.') continue;
    const marker m = {.format = mark->dtype == GRAFT_F8_E5M2 ? "float8_e5m2" : "float8_e4m3fn",
                      .wants_float = mark->rank == 1 && mark->shape[0] == 2};
    GRAFT_TRY(read_old_layers(r, prefix, &m, error));
  }
  return GRAFT_OK;
}

static graft_status index_layers(const reader *r, graft_error *error) {
  graft_quantized *out = r->out;
  if (graft_name_table_init(&out->table, out->n_layers) != GRAFT_OK) return fail_memory(r, error);
  for (size_t i = 0; i < out->n_layers; ++i) {
    const char *name = out->layers[i].name;
    graft_status status = graft_name_table_add(&out->table, name, strlen(name), (uint32_t)i);
    if (status == GRAFT_E_EXISTS) return fail(r, name, GRAFT_E_FORMAT, "it is described twice", error);
    if (status != GRAFT_OK) return fail_memory(r, error);
  }
  return GRAFT_OK;
}

graft_status graft_quantized_read(const graft_weights *weights, graft_error *error, graft_quantized **out_quantized) {
  reader r = {.weights = weights, .out = calloc(1, sizeof *r.out)};
  if (r.out == NULL) return fail_memory(&r, error);
  bool has_header = false;
  graft_status status = read_marker_tensors(&r, error);
  if (status == GRAFT_OK) status = read_headers(&r, error, &has_header);
  if (status == GRAFT_OK && !has_header) status = read_old_marks(&r, error);
  if (status == GRAFT_OK) status = index_layers(&r, error);
  if (status != GRAFT_OK) {
    graft_quantized_free(r.out);
    return status;
  }
  *out_quantized = r.out;
  return GRAFT_OK;
}

void graft_quantized_free(graft_quantized *quantized) {
  if (quantized == NULL) return;
  for (size_t i = 0; i < quantized->n_layers; ++i) free(quantized->names[i]);
  graft_name_table_release(&quantized->table);
  free(quantized->names);
  free(quantized->layers);
  free(quantized);
}

size_t graft_quantized_count(const graft_quantized *quantized) {
  return quantized->n_layers;
}

const graft_quantized_layer *graft_quantized_at(const graft_quantized *quantized, size_t index) {
  return &quantized->layers[index];
}

const graft_quantized_layer *graft_quantized_find(const graft_quantized *quantized, const char *name) {
  uint32_t index = 0;
  if (!graft_name_table_find(&quantized->table, name, strlen(name), &index)) return NULL;
  return &quantized->layers[index];
}

size_t graft_quantized_marker(graft_quantized_format format, int64_t group, char text[GRAFT_QUANTIZED_MAX_MARKER]) {
  static const char *const names[] = {"int8_tensorwise", "float8_e4m3fn", "float8_e5m2"};
  int n = snprintf(text, GRAFT_QUANTIZED_MAX_MARKER, "{\"format\": \"%s\"", names[format]);
  if (group > 1)
    n += snprintf(text + n, GRAFT_QUANTIZED_MAX_MARKER - (size_t)n, ", \"convrot\": true, \"convrot_groupsize\": %lld",
                  (long long)group);
  n += snprintf(text + n, GRAFT_QUANTIZED_MAX_MARKER - (size_t)n, "}");
  return (size_t)n;
}
