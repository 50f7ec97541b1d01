#include "formats/safetensors_header.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/safetensors_dtype.h"

static const char metadata_key[] = "__metadata__";

// Where a fault was found: the file, and the tensor concerned.
typedef struct place {
  const char *path;
  const char *tensor;
} place;

static graft_status fail_tensor(place at, graft_status status, const char *reason, graft_error *error) {
  return GRAFT_FAIL(error, status, "%s: tensor `%s`: %s", graft_excerpt_path(at.path).text,
                    graft_excerpt_name(at.tensor).text, reason);
}

static graft_status parse_shape(const json_t *shape, place at, graft_safetensors_tensor *tensor, graft_error *error) {
  if (!json_is_array(shape)) return fail_tensor(at, GRAFT_E_FORMAT, "`shape` is missing or not a list", error);
  size_t rank = json_array_size(shape);
  for (size_t i = 0; i < rank; ++i) {
    const json_t *item = json_array_get(shape, i);
    if (!json_is_integer(item) || json_integer_value(item) < 0)
      return fail_tensor(at, GRAFT_E_FORMAT, "`shape` holds something that is not an integer of 0 or more", error);
    if (i < GRAFT_MAX_RANK) tensor->shape[i] = json_integer_value(item);
  }
  if (rank > GRAFT_MAX_RANK)
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: tensor `%s` has %zu dimensions, graft handles at most %d",
                      graft_excerpt_path(at.path).text, graft_excerpt_name(at.tensor).text, rank, GRAFT_MAX_RANK);
  tensor->rank = (int32_t)rank;
  return GRAFT_OK;
}

static graft_status parse_offsets(const json_t *offsets, place at, graft_safetensors_tensor *tensor,
                                  graft_error *error) {
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
      json_integer_value(begin) < 0)
    return fail_tensor(at, GRAFT_E_FORMAT, "`data_offsets` is not a pair of integers of 0 or more", error);
  if (json_integer_value(end) < json_integer_value(begin))
    return fail_tensor(at, GRAFT_E_FORMAT, "`data_offsets` ends before it begins", error);
  tensor->file_offset = (uint64_t)json_integer_value(begin);
  uint64_t bytes = (uint64_t)json_integer_value(end) - tensor->file_offset;
  if (bytes > SIZE_MAX) return fail_tensor(at, GRAFT_E_NO_MEMORY, "larger than the address space", error);
  tensor->bytes = (size_t)bytes;
  return GRAFT_OK;
}

static graft_status parse_tensor(const json_t *entry, place at, graft_safetensors_tensor *tensor, graft_error *error) {
  if (!json_is_object(entry)) return fail_tensor(at, GRAFT_E_FORMAT, "its entry is not an object", error);
  const char *dtype_name = json_string_value(json_object_get(entry, "dtype"));
  if (dtype_name == NULL) return fail_tensor(at, GRAFT_E_FORMAT, "`dtype` is missing or not a string", error);
  const graft_safetensors_dtype *dtype = graft_safetensors_dtype_find(dtype_name);
  if (dtype == NULL)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: tensor `%s` has the unknown element type \"%s\"",
                      graft_excerpt_path(at.path).text, graft_excerpt_name(at.tensor).text,
                      graft_excerpt_name(dtype_name).text);
  *tensor = (graft_safetensors_tensor){
      .name = at.tensor, .dtype_name = dtype->name, .dtype = dtype->dtype, .element_bits = dtype->bits};
  GRAFT_TRY(parse_shape(json_object_get(entry, "shape"), at, tensor, error));
  return parse_offsets(json_object_get(entry, "data_offsets"), at, tensor, error);
}

// Products are formed from left to right and checked at each step, as in the reference: [2^33, 2^33, 0] overflows.
static graft_status count_elements(graft_safetensors_tensor *tensor, place at, graft_error *error) {
  uint64_t elements = 1, bits = 0;
  bool overflow = false;
  for (int32_t i = 0; i < tensor->rank; ++i)
    overflow |= __builtin_mul_overflow(elements, (uint64_t)tensor->shape[i], &elements);
  overflow |= __builtin_mul_overflow(elements, tensor->element_bits, &bits);
  if (overflow) return fail_tensor(at, GRAFT_E_FORMAT, "the size that its shape gives overflows", error);
  if (bits % 8 != 0) return fail_tensor(at, GRAFT_E_FORMAT, "its shape is no whole number of bytes", error);
  tensor->n_elements = (int64_t)elements;
  if (bits / 8 == tensor->bytes) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                    "%s: tensor `%s` needs %llu bytes by its shape and type, `data_offsets` gives it %zu",
                    graft_excerpt_path(at.path).text, graft_excerpt_name(at.tensor).text,
                    (unsigned long long)(bits / 8), tensor->bytes);
}

static int compare_offsets(const void *left, const void *right) {
  const graft_safetensors_tensor *a = left, *b = right;
  if (a->file_offset != b->file_offset) return a->file_offset < b->file_offset ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return strcmp(a->name, b->name);
}

static graft_status check_layout(graft_safetensors_header *header, const char *path, uint64_t data_bytes,
                                 graft_error *error) {
  qsort(header->tensors, header->n_tensors, sizeof *header->tensors, compare_offsets);
  uint64_t position = 0;
  for (size_t i = 0; i < header->n_tensors; ++i) {
    graft_safetensors_tensor *tensor = &header->tensors[i];
    place at = {path, tensor->name};
    if (tensor->file_offset != position)
      return fail_tensor(at, GRAFT_E_FORMAT,
                         tensor->file_offset > position ? "its data leaves a gap after the tensor before it"
                                                        : "its data overlaps another tensor's",
                         error);
    GRAFT_TRY(count_elements(tensor, at, error));
    position += tensor->bytes;
    if (position > data_bytes)
      return fail_tensor(at, GRAFT_E_FORMAT, "its data reaches beyond the end of the file", error);
  }
  if (position == data_bytes) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: %llu bytes follow the last tensor", graft_excerpt_path(path).text,
                    (unsigned long long)(data_bytes - position));
}

static graft_status check_metadata(json_t *metadata, const char *path, graft_error *error) {
  if (metadata != NULL && !json_is_object(metadata))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `__metadata__` is not an object", graft_excerpt_path(path).text);
  const char *key;
  json_t *value;
  json_object_foreach(metadata, key, value) {
    if (!json_is_string(value))
      return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `__metadata__` entry `%s` is not a string",
                        graft_excerpt_path(path).text, graft_excerpt_name(key).text);
  }
  return GRAFT_OK;
}

static graft_status parse_tensors(graft_safetensors_header *header, json_t *root, const char *path,
                                  graft_error *error) {
  const char *key;
  json_t *value;
  json_object_foreach(root, key, value) {
    if (strcmp(key, metadata_key) == 0) continue;
    GRAFT_TRY(parse_tensor(value, (place){path, key}, &header->tensors[header->n_tensors], error));
    ++header->n_tensors;
  }
  return GRAFT_OK;
}

static graft_status index_names(graft_safetensors_header *header, const char *path, graft_error *error) {
  graft_status status = graft_name_table_init(&header->names, header->n_tensors);
  for (size_t i = 0; status == GRAFT_OK && i < header->n_tensors; ++i) {
    const char *name = header->tensors[i].name;
    status = graft_name_table_add(&header->names, name, strlen(name), (uint32_t)i);
  }
  if (status == GRAFT_OK) return GRAFT_OK;
  return GRAFT_FAIL(error, status, "%s: out of memory for %zu tensor names", graft_excerpt_path(path).text,
                    header->n_tensors);
}

graft_status graft_safetensors_header_parse(graft_safetensors_header *header, const char *path, graft_json *json,
                                            uint64_t data_bytes, graft_error *error) {
  *header = (graft_safetensors_header){.json = json};
  json_t *root = graft_json_root(json);
  if (!json_is_object(root))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: the header is not a JSON object", graft_excerpt_path(path).text);
  header->metadata = json_object_get(root, metadata_key);
  GRAFT_TRY(check_metadata(header->metadata, path, error));
  header->tensors = calloc(json_object_size(root) + 1, sizeof *header->tensors);
  if (header->tensors == NULL)
    return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for %zu tensors", graft_excerpt_path(path).text,
                      json_object_size(root));
  GRAFT_TRY(parse_tensors(header, root, path, error));
  GRAFT_TRY(check_layout(header, path, data_bytes, error));
  return index_names(header, path, error);
}

void graft_safetensors_header_release(graft_safetensors_header *header) {
  graft_name_table_release(&header->names);
  free(header->tensors);
  graft_json_close(header->json);
  *header = (graft_safetensors_header){0};
}
