// weights.h — the tensors of a model part: one or several safetensors files with one name space.
#ifndef GRAFT_FORMATS_WEIGHTS_H
#define GRAFT_FORMATS_WEIGHTS_H

#include "formats/safetensors.h"

typedef struct graft_weights graft_weights;

// Opens what |path| names:
//  - a safetensors file;
//  - an index (`*.safetensors.index.json`), whose shards lie beside it. Every shard must exist, every listed tensor
//  must
//    be in the shard that the index says, and no tensor may be in two shards;
//  - a folder with, in this order of preference, `diffusion_pytorch_model.safetensors`, `model.safetensors`, these two
//  as
//    an index, or else any single index or any single safetensors file.
// Close the result with graft_weights_close. Errors are those of graft_safetensors_open.
GRAFT_NODISCARD graft_status graft_weights_open(const char *path, graft_safetensors_access access, graft_error *error,
                                                graft_weights **out_weights);
void graft_weights_close(graft_weights *weights);

// What graft_weights_open was given. Borrowed.
const char *graft_weights_path(const graft_weights *weights);

// The files, in the order in which they were opened. |index| is below the count.
size_t graft_weights_file_count(const graft_weights *weights);
const graft_safetensors *graft_weights_file(const graft_weights *weights, size_t index);

// As graft_safetensors_check, of every file. For the end of what read the weights: a mapped file that was cut by less
// than a page gives zeros there and no signal.
GRAFT_NODISCARD graft_status graft_weights_check(const graft_weights *weights, graft_error *error);

// All tensors, file by file. |index| is below the count.
size_t graft_weights_count(const graft_weights *weights);
const graft_safetensors_tensor *graft_weights_at(const graft_weights *weights, size_t index);

// The tensor called |name|, or NULL. Thread-safe.
const graft_safetensors_tensor *graft_weights_find(const graft_weights *weights, const char *name);

// The tensor called |name|, of a type that graft can compute with. Errors name file, tensor and reason:
// GRAFT_E_NOT_FOUND, GRAFT_E_UNSUPPORTED (its element type). Thread-safe.
GRAFT_NODISCARD graft_status graft_weights_require(const graft_weights *weights, const char *name, graft_error *error,
                                                   const graft_safetensors_tensor **out_tensor);

#endif
