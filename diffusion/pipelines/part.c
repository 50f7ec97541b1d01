#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/pipelines/pipeline_internal.h"
#include "formats/weights_folder.h"

enum { MAX_DTYPES = 16 };

typedef struct dtype_share {
  const char *name;
  uint64_t bytes;
} dtype_share;

static void add_share(dtype_share *shares, size_t *n, const graft_safetensors_tensor *tensor) {
  size_t i = 0;
  while (i < *n && strcmp(shares[i].name, tensor->dtype_name) != 0) ++i;
  if (i == MAX_DTYPES) return;
  if (i == *n) shares[(*n)++] = (dtype_share){.name = tensor->dtype_name};
  shares[i].bytes += tensor->bytes;
  for (; i > 0 && shares[i].bytes > shares[i - 1].bytes; --i) {
    dtype_share moved = shares[i];
    shares[i] = shares[i - 1];
    shares[i - 1] = moved;
  }
}

static void count_weights(pipeline_part *part) {
  dtype_share shares[MAX_DTYPES];
  size_t n_shares = 0;
  for (size_t i = 0; i < graft_weights_count(part->weights); ++i) {
    const graft_safetensors_tensor *tensor = graft_weights_at(part->weights, i);
    part->n_parameters += tensor->n_elements;
    part->weight_bytes += tensor->bytes;
    add_share(shares, &n_shares, tensor);
  }
  for (size_t i = 0; i < n_shares; ++i) {
    size_t used = strlen(part->dtypes);
    snprintf(part->dtypes + used, sizeof part->dtypes - used, "%s%s", i ? ", " : "", shares[i].name);
  }
  for (char *c = part->dtypes; *c; ++c)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
}

static graft_status open_weights(pipeline_part *part, const char *path, graft_error *error) {
  GRAFT_TRY(graft_weights_open(path, GRAFT_SAFETENSORS_MAP, error, &part->weights));
  GRAFT_TRY(graft_quantized_read(part->weights, error, &part->quantized));
  part->source.weights = part->weights;
  part->source.quantized = part->quantized;
  graft_weight_source_detect(&part->source);
  GRAFT_TRY(graft_converted_create(&part->source, error, &part->converted));
  part->source.converted = part->converted;
  count_weights(part);
  part->is_present = true;
  return GRAFT_OK;
}

graft_status graft_pipeline_part_open_weights(pipeline_part *part, const char *path, graft_error *error) {
  if (path != NULL) return open_weights(part, path, error);
  char *chosen;
  graft_status status = graft_weights_folder_choose(part->folder, error, &chosen);
  if (status == GRAFT_E_NOT_FOUND) return GRAFT_OK;
  if (status != GRAFT_OK) return status;
  status = open_weights(part, chosen, error);
  free(chosen);
  return status;
}

graft_status graft_pipeline_check_weights(const graft_pipeline *pipeline, graft_error *error) {
  for (int i = 0; i < N_PARTS; ++i) {
    if (pipeline->parts[i].weights != NULL) GRAFT_TRY(graft_weights_check(pipeline->parts[i].weights, error));
  }
  return GRAFT_OK;
}

void graft_pipeline_part_release(pipeline_part *part) {
  graft_converted_free(part->converted);
  graft_quantized_free(part->quantized);
  graft_weights_close(part->weights);
  free(part->folder);
  *part = (pipeline_part){0};
}
