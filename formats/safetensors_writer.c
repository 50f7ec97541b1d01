#include "formats/safetensors_writer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/atomic_file.h"
#include "formats/excerpt.h"
#include "formats/safetensors_dtype.h"
#include "formats/utf8.h"

typedef struct item {
  const graft_safetensors_source *source;
  const graft_safetensors_dtype *dtype;
  size_t bytes, begin;
} item;

typedef struct writer {
  const char *path;
  bool has_no_data;  // as yet: the tensors' data is not looked at
  item *items;
  size_t n_items;
  char *header;
  size_t header_bytes;
} writer;

static graft_status fail(const writer *w, const char *name, graft_status status, const char *reason,
                         graft_error *error) {
  return GRAFT_FAIL(error, status, "%s: cannot write tensor `%s`: %s", graft_excerpt_path(w->path).text,
                    graft_excerpt_name(name).text, reason);
}

static graft_status fail_memory(const writer *w, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory for its header", graft_excerpt_path(w->path).text);
}

static graft_status measure(const writer *w, item *it, graft_error *error) {
  const graft_safetensors_source *source = it->source;
  if (source->rank < 0 || source->rank > GRAFT_MAX_RANK)
    return fail(w, source->name, GRAFT_E_SHAPE, "its rank is out of range", error);
  size_t bytes = it->dtype->bits / 8;
  for (int32_t i = 0; i < source->rank; ++i) {
    if (source->shape[i] < 0) return fail(w, source->name, GRAFT_E_SHAPE, "a dimension is negative", error);
    if (__builtin_mul_overflow(bytes, (size_t)source->shape[i], &bytes) || bytes > INT64_MAX)
      return fail(w, source->name, GRAFT_E_NO_MEMORY, "its size overflows", error);
  }
  if (bytes > 0 && source->data == NULL && !w->has_no_data)
    return fail(w, source->name, GRAFT_E_INVALID, "it has no data", error);
  it->bytes = bytes;
  return GRAFT_OK;
}

static graft_status check_item(const writer *w, item *it, graft_error *error) {
  const char *name = it->source->name;
  if (name == NULL || strcmp(name, "__metadata__") == 0)
    return fail(w, name, GRAFT_E_INVALID, "a name that no tensor may have", error);
  if (!graft_utf8_is_valid(name, strlen(name), NULL))
    return fail(w, name, GRAFT_E_INVALID, "its name is not UTF-8", error);
  it->dtype = graft_safetensors_dtype_of(it->source->dtype);
  if (it->dtype == NULL) return fail(w, name, GRAFT_E_UNSUPPORTED, "safetensors has no such element type", error);
  return measure(w, it, error);
}

static int compare_items(const void *left, const void *right) {
  const item *a = left, *b = right;
  if (a->dtype != b->dtype) return a->dtype > b->dtype ? -1 : 1;
  return strcmp(a->source->name, b->source->name);
}

static graft_status collect(writer *w, const graft_safetensors_contents *contents, graft_error *error) {
  w->items = calloc(contents->n_tensors + 1, sizeof *w->items);
  if (w->items == NULL) return fail_memory(w, error);
  w->n_items = contents->n_tensors;
  for (size_t i = 0; i < w->n_items; ++i) {
    w->items[i].source = &contents->tensors[i];
    GRAFT_TRY(check_item(w, &w->items[i], error));
  }
  qsort(w->items, w->n_items, sizeof *w->items, compare_items);
  return GRAFT_OK;
}

static json_t *describe(const item *it, size_t begin) {
  json_t *shape = json_array();
  for (int32_t i = 0; i < it->source->rank; ++i)
    if (json_array_append_new(shape, json_integer(it->source->shape[i])) != 0) {
      json_decref(shape);
      return NULL;
    }
  // "o" takes the reference to the shape, also when packing fails.
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", it->dtype->name, "shape", shape, "data_offsets", (json_int_t)begin,
                   (json_int_t)(begin + it->bytes));
}

static graft_status add_metadata(const writer *w, json_t *root, const graft_safetensors_contents *contents,
                                 graft_error *error) {
  if (contents->n_metadata == 0 && !contents->has_metadata) return GRAFT_OK;
  json_t *metadata = json_object();
  if (json_object_set_new(root, "__metadata__", metadata) != 0) return fail_memory(w, error);
  for (size_t i = 0; i < contents->n_metadata; ++i) {
    const graft_safetensors_pair *pair = &contents->metadata[i];
    if (!graft_utf8_is_valid(pair->key, strlen(pair->key), NULL) ||
        !graft_utf8_is_valid(pair->value, strlen(pair->value), NULL))
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s: metadata `%s` is not UTF-8", graft_excerpt_path(w->path).text,
                        graft_excerpt_name(pair->key).text);
    if (json_object_set_new(metadata, pair->key, json_string(pair->value)) != 0) return fail_memory(w, error);
  }
  return GRAFT_OK;
}

static graft_status add_tensors(writer *w, json_t *root, graft_error *error) {
  size_t position = 0;
  for (size_t i = 0; i < w->n_items; ++i) {
    const char *name = w->items[i].source->name;
    if (json_object_get(root, name) != NULL) return fail(w, name, GRAFT_E_INVALID, "two tensors have this name", error);
    w->items[i].begin = position;
    json_t *entry = describe(&w->items[i], position);
    if (json_object_set_new(root, name, entry) != 0) return fail_memory(w, error);
    if (__builtin_add_overflow(position, w->items[i].bytes, &position) || position > INT64_MAX)
      return fail(w, name, GRAFT_E_NO_MEMORY, "the file's size overflows", error);
  }
  return GRAFT_OK;
}

// The length prefix, the JSON text, and spaces up to a multiple of 8.
static graft_status dump_header(writer *w, const json_t *root, graft_error *error) {
  size_t n = json_dumpb(root, NULL, 0, JSON_COMPACT), padded = (n + 7) / 8 * 8;
  w->header = malloc(8 + padded);
  if (n == 0 || w->header == NULL || json_dumpb(root, w->header + 8, n, JSON_COMPACT) != n)
    return fail_memory(w, error);
  memset(w->header + 8 + n, ' ', padded - n);
  for (int i = 0; i < 8; ++i) w->header[i] = (char)(unsigned char)((uint64_t)padded >> (8 * i));
  w->header_bytes = 8 + padded;
  return GRAFT_OK;
}

static graft_status build_header(writer *w, const graft_safetensors_contents *contents, graft_error *error) {
  json_t *root = json_object();
  if (root == NULL) return fail_memory(w, error);
  graft_status status = add_metadata(w, root, contents, error);
  if (status == GRAFT_OK) status = add_tensors(w, root, error);
  if (status == GRAFT_OK) status = dump_header(w, root, error);
  json_decref(root);
  return status;
}

static graft_status write_file(const writer *w, graft_error *error) {
  graft_atomic_file *file = NULL;
  GRAFT_TRY(graft_atomic_file_begin(w->path, error, &file));
  graft_status status = graft_atomic_file_append(file, w->header, w->header_bytes, error);
  for (size_t i = 0; status == GRAFT_OK && i < w->n_items; ++i)
    status = graft_atomic_file_append(file, w->items[i].source->data, w->items[i].bytes, error);
  if (status == GRAFT_OK) return graft_atomic_file_commit(file, error);
  graft_atomic_file_abort(file);
  return status;
}

graft_status graft_safetensors_write(const char *path, const graft_safetensors_contents *contents, graft_error *error) {
  writer w = {.path = path};
  graft_status status = collect(&w, contents, error);
  if (status == GRAFT_OK) status = build_header(&w, contents, error);
  if (status == GRAFT_OK) status = write_file(&w, error);
  free(w.header);
  free(w.items);
  return status;
}

struct graft_safetensors_output {
  writer writer;
  size_t *items;  // of the tensors, in their order
  uint64_t bytes;
  graft_atomic_file *file;
};

static void release(graft_safetensors_output *output) {
  free(output->items);
  free(output->writer.header);
  free(output->writer.items);
  free(output);
}

static graft_status lay_out(graft_safetensors_output *output, const graft_safetensors_contents *contents,
                            graft_error *error) {
  writer *w = &output->writer;
  GRAFT_TRY(collect(w, contents, error));
  GRAFT_TRY(build_header(w, contents, error));
  output->items = calloc(w->n_items + 1, sizeof *output->items);
  if (output->items == NULL) return fail_memory(w, error);
  output->bytes = w->header_bytes;
  for (size_t i = 0; i < w->n_items; ++i) {
    output->items[w->items[i].source - contents->tensors] = i;
    output->bytes += w->items[i].bytes;
  }
  return GRAFT_OK;
}

static graft_status begin_file(graft_safetensors_output *output, graft_error *error) {
  GRAFT_TRY(graft_atomic_file_begin(output->writer.path, error, &output->file));
  graft_status status = graft_atomic_file_resize(output->file, output->bytes, error);
  if (status == GRAFT_OK)
    status = graft_atomic_file_write_at(output->file, 0, output->writer.header, output->writer.header_bytes, error);
  if (status != GRAFT_OK) graft_atomic_file_abort(output->file);
  return status;
}

graft_status graft_safetensors_output_begin(const char *path, const graft_safetensors_contents *contents,
                                            graft_error *error, graft_safetensors_output **out_output) {
  graft_safetensors_output *output = calloc(1, sizeof *output);
  if (output == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(path).text);
  output->writer.path = path;
  output->writer.has_no_data = true;
  graft_status status = lay_out(output, contents, error);
  if (status == GRAFT_OK) status = begin_file(output, error);
  if (status != GRAFT_OK) {
    release(output);
    return status;
  }
  *out_output = output;
  return GRAFT_OK;
}

uint64_t graft_safetensors_output_bytes(const graft_safetensors_output *output) {
  return output->bytes;
}

static const item *item_of(const graft_safetensors_output *output, size_t tensor) {
  return &output->writer.items[output->items[tensor]];
}

uint64_t graft_safetensors_output_offset(const graft_safetensors_output *output, size_t tensor) {
  return output->writer.header_bytes + item_of(output, tensor)->begin;
}

static bool is_zero(const char *bytes, size_t n) {
  return n == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0);
}

graft_status graft_safetensors_output_write(graft_safetensors_output *output, size_t tensor, uint64_t offset,
                                            const void *data, size_t bytes, graft_error *error) {
  enum { PIECE = 64 << 10 };
  const item *it = item_of(output, tensor);
  if (offset > it->bytes || bytes > it->bytes - offset)
    return fail(&output->writer, it->source->name, GRAFT_E_INVALID, "bytes beyond its end", error);
  const uint64_t begin = output->writer.header_bytes + it->begin + offset;
  for (size_t done = 0; done < bytes; done += PIECE) {
    const char *piece = (const char *)data + done;
    const size_t n = bytes - done < PIECE ? bytes - done : PIECE;
    if (!is_zero(piece, n)) GRAFT_TRY(graft_atomic_file_write_at(output->file, begin + done, piece, n, error));
  }
  return GRAFT_OK;
}

graft_status graft_safetensors_output_commit(graft_safetensors_output *output, graft_error *error) {
  graft_status status = graft_atomic_file_commit(output->file, error);
  release(output);
  return status;
}

void graft_safetensors_output_abort(graft_safetensors_output *output) {
  if (output == NULL) return;
  graft_atomic_file_abort(output->file);
  release(output);
}
