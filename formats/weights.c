#include "formats/weights.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "formats/excerpt.h"
#include "formats/file.h"
#include "formats/json.h"
#include "formats/name_table.h"
#include "formats/weights_folder.h"

enum { MAX_INDEX_BYTES = 64 << 20, MAX_SHARDS = 1024 };

struct graft_weights {
  char *path;
  graft_safetensors **files;
  const char **shard_names;  // of an index, parallel to |files|; borrowed from the index while it is open
  size_t n_files;
  const graft_safetensors_tensor **tensors;
  size_t n_tensors;
  graft_name_table names;
};

static graft_status fail_memory(const graft_weights *weights, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(weights->path).text);
}

static graft_status reserve_files(graft_weights *weights, size_t n, graft_error *error) {
  weights->files = calloc(n + 1, sizeof *weights->files);
  weights->shard_names = calloc(n + 1, sizeof *weights->shard_names);
  if (weights->files == NULL || weights->shard_names == NULL) return fail_memory(weights, error);
  return GRAFT_OK;
}

static graft_status open_single(graft_weights *weights, const char *path, graft_safetensors_access access,
                                graft_error *error) {
  GRAFT_TRY(reserve_files(weights, 1, error));
  GRAFT_TRY(graft_safetensors_open(path, access, error, &weights->files[0]));
  weights->n_files = 1;
  return GRAFT_OK;
}

// An index being followed. |folder_bytes| of |path|, slash included, are the folder of its shards.
typedef struct index_file {
  const char *path;
  size_t folder_bytes;
  json_t *weight_map;
} index_file;

static graft_status fail_index(const index_file *index, const char *tensor, const char *reason, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `weight_map`, tensor `%s`: %s", graft_excerpt_path(index->path).text,
                    graft_excerpt_name(tensor).text, reason);
}

static graft_status open_shard(graft_weights *weights, const index_file *index, const char *name,
                               graft_safetensors_access access, graft_error *error) {
  size_t n_name = strlen(name) + 1;
  char *path = malloc(index->folder_bytes + n_name);
  if (path == NULL) return fail_memory(weights, error);
  memcpy(path, index->path, index->folder_bytes);
  memcpy(path + index->folder_bytes, name, n_name);
  graft_status status = graft_safetensors_open(path, access, error, &weights->files[weights->n_files]);
  free(path);
  if (status != GRAFT_OK) {
    graft_error_note(error, "named by the index %s", graft_excerpt_path(index->path).text);
    return status;
  }
  weights->shard_names[weights->n_files++] = name;
  return GRAFT_OK;
}

static graft_safetensors *find_shard(const graft_weights *weights, const char *name) {
  for (size_t i = 0; i < weights->n_files; ++i)
    if (strcmp(weights->shard_names[i], name) == 0) return weights->files[i];
  return NULL;
}

static graft_status follow_entry(graft_weights *weights, const index_file *index, const char *tensor, const char *shard,
                                 graft_safetensors_access access, graft_error *error) {
  if (shard == NULL) return fail_index(index, tensor, "the file name is not a string", error);
  if (shard[0] == '\0' || strchr(shard, '/') != NULL || strcmp(shard, ".") == 0 || strcmp(shard, "..") == 0)
    return fail_index(index, tensor, "not the name of a file beside the index", error);
  graft_safetensors *file = find_shard(weights, shard);
  if (file == NULL) {
    if (weights->n_files == MAX_SHARDS) return fail_index(index, tensor, "more than 1024 shards", error);
    GRAFT_TRY(open_shard(weights, index, shard, access, error));
    file = weights->files[weights->n_files - 1];
  }
  if (graft_safetensors_find(file, tensor) == NULL)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: tensor `%s` is not in this file, though the index says so",
                      graft_excerpt_path(graft_safetensors_path(file)).text, graft_excerpt_name(tensor).text);
  return GRAFT_OK;
}

static graft_status follow_index(graft_weights *weights, const index_file *index, graft_safetensors_access access,
                                 graft_error *error) {
  GRAFT_TRY(reserve_files(weights, MAX_SHARDS, error));
  const char *tensor;
  json_t *shard;
  json_object_foreach(index->weight_map, tensor, shard) {
    GRAFT_TRY(follow_entry(weights, index, tensor, json_string_value(shard), access, error));
  }
  return GRAFT_OK;
}

static graft_status open_index(graft_weights *weights, const char *path, graft_safetensors_access access,
                               graft_error *error) {
  graft_json *json = NULL;
  GRAFT_TRY(graft_json_open(path, MAX_INDEX_BYTES, error, &json));
  const char *slash = strrchr(path, '/');
  index_file index = {path, slash == NULL ? 0 : (size_t)(slash - path) + 1,
                      json_object_get(graft_json_root(json), "weight_map")};
  graft_status status = json_is_object(index.weight_map)
                            ? follow_index(weights, &index, access, error)
                            : GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `weight_map` is missing or not an object",
                                         graft_excerpt_path(path).text);
  graft_json_close(json);
  return status;
}

static graft_status add_tensor(graft_weights *weights, const graft_safetensors_tensor *tensor, graft_error *error) {
  uint32_t index = (uint32_t)weights->n_tensors;
  graft_status status = graft_name_table_add(&weights->names, tensor->name, strlen(tensor->name), index);
  if (status == GRAFT_E_EXISTS)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: tensor `%s` is in another file of these weights too",
                      graft_excerpt_path(graft_safetensors_path(tensor->file)).text,
                      graft_excerpt_name(tensor->name).text);
  if (status != GRAFT_OK) return fail_memory(weights, error);
  weights->tensors[weights->n_tensors++] = tensor;
  return GRAFT_OK;
}

static graft_status index_tensors(graft_weights *weights, graft_error *error) {
  size_t n = 0;
  for (size_t i = 0; i < weights->n_files; ++i) n += graft_safetensors_count(weights->files[i]);
  weights->tensors = calloc(n + 1, sizeof(*weights->tensors));
  if (weights->tensors == NULL || graft_name_table_init(&weights->names, n) != GRAFT_OK)
    return fail_memory(weights, error);
  for (size_t i = 0; i < weights->n_files; ++i)
    for (size_t k = 0; k < graft_safetensors_count(weights->files[i]); ++k)
      GRAFT_TRY(add_tensor(weights, graft_safetensors_at(weights->files[i], k), error));
  return GRAFT_OK;
}

static graft_status open_path(graft_weights *weights, graft_safetensors_access access, graft_error *error) {
  char *chosen = NULL;
  if (graft_file_is_folder(weights->path)) GRAFT_TRY(graft_weights_folder_choose(weights->path, error, &chosen));
  const char *path = chosen != NULL ? chosen : weights->path;
  graft_status status = graft_weights_folder_is_index(path) ? open_index(weights, path, access, error)
                                                            : open_single(weights, path, access, error);
  free(chosen);
  // The names belonged to the index, which is closed by now.
  free(weights->shard_names);
  weights->shard_names = NULL;
  GRAFT_TRY(status);
  return index_tensors(weights, error);
}

graft_status graft_weights_open(const char *path, graft_safetensors_access access, graft_error *error,
                                graft_weights **out_weights) {
  if (path == NULL || path[0] == '\0') return GRAFT_FAIL(error, GRAFT_E_INVALID, "no weights named");
  graft_weights *weights = calloc(1, sizeof *weights);
  if (weights == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "%s: out of memory", graft_excerpt_path(path).text);
  size_t n = strlen(path) + 1;
  weights->path = malloc(n);
  if (weights->path != NULL) memcpy(weights->path, path, n);
  graft_status status = weights->path == NULL ? fail_memory(weights, error) : open_path(weights, access, error);
  if (status != GRAFT_OK) {
    graft_weights_close(weights);
    return status;
  }
  *out_weights = weights;
  return GRAFT_OK;
}

void graft_weights_close(graft_weights *weights) {
  if (weights == NULL) return;
  for (size_t i = 0; i < weights->n_files; ++i) graft_safetensors_close(weights->files[i]);
  graft_name_table_release(&weights->names);
  free(weights->tensors);
  free(weights->shard_names);
  free(weights->files);
  free(weights->path);
  free(weights);
}

const char *graft_weights_path(const graft_weights *weights) {
  return weights->path;
}

size_t graft_weights_file_count(const graft_weights *weights) {
  return weights->n_files;
}

const graft_safetensors *graft_weights_file(const graft_weights *weights, size_t index) {
  return weights->files[index];
}

graft_status graft_weights_check(const graft_weights *weights, graft_error *error) {
  for (size_t i = 0; i < weights->n_files; ++i) GRAFT_TRY(graft_safetensors_check(weights->files[i], error));
  return GRAFT_OK;
}

size_t graft_weights_count(const graft_weights *weights) {
  return weights->n_tensors;
}

const graft_safetensors_tensor *graft_weights_at(const graft_weights *weights, size_t index) {
  return weights->tensors[index];
}

const graft_safetensors_tensor *graft_weights_find(const graft_weights *weights, const char *name) {
  uint32_t index = 0;
  if (!graft_name_table_find(&weights->names, name, strlen(name), &index)) return NULL;
  return weights->tensors[index];
}

graft_status graft_weights_require(const graft_weights *weights, const char *name, graft_error *error,
                                   const graft_safetensors_tensor **out_tensor) {
  const graft_safetensors_tensor *tensor = graft_weights_find(weights, name);
  if (tensor != NULL) return graft_safetensors_require(tensor->file, name, error, out_tensor);
  return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: there is no tensor `%s`", graft_excerpt_path(weights->path).text,
                    graft_excerpt_name(name).text);
}
