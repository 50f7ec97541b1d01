// weight_source.h — where a builder's weights come from: names as the builder says them, found in files that may name
// them otherwise, hold several in one tensor, or have them quantised.
#ifndef GRAFT_DIFFUSION_WEIGHT_SOURCE_H
#define GRAFT_DIFFUSION_WEIGHT_SOURCE_H

#include "formats/quantized.h"
#include "graft/device.h"
#include "graft/diffusion.h"

enum { GRAFT_WEIGHT_MAX_NAME = 192 };

// Where a tensor is in a file: as the |part|-th of |n_parts| equal runs of rows of the tensor |name|.
typedef struct graft_weight_place {
  char name[GRAFT_WEIGHT_MAX_NAME];
  int32_t part, n_parts;
} graft_weight_place;

enum { GRAFT_WEIGHT_GROUP = 256 };  // the largest group of the rotation

// How a family of models names and treats its layers. Constant.
typedef struct graft_weight_profile {
  // Where the tensor that builders call |name| is in a file of ComfyUI's naming. Thread-safe.
  void (*place)(const char *name, graft_weight_place *out_place);
  // Whether the linear layer |name| (of either naming) is one that is normally quantised. Thread-safe.
  bool (*is_quantized)(const char *name);
  const char *mark;        // a tensor that a file of ComfyUI's naming has
  const char *other_mark;  // and one that a file of the builders' naming has
} graft_weight_profile;

typedef struct graft_converted graft_converted;
typedef struct graft_made_up graft_made_up;

// Zero-initialise; all is borrowed.
typedef struct graft_weight_source {
  const graft_weights *weights;
  const graft_quantized *quantized;     // NULL: nothing in the files is
  const graft_weight_profile *profile;  // NULL: names are the files', and nothing is converted
  const char *prefix;                   // of all names in the files; NULL: none
  bool is_comfy;                        // the files have ComfyUI's names
  graft_weight_type type;
  // What is computed with between layers: GRAFT_BF16 or GRAFT_F16, and weights of layers become it; NULL: float32, and
  // weights stay as they are stored.
  graft_dtype activations;
  graft_made_up *made_up;            // instead of all above but |type|: diffusion/made_up.h; NULL: none
  const graft_converted *converted;  // weights that were converted beforehand; NULL: none
} graft_weight_source;

// Finds out how the files of |source->weights| name tensors: sets prefix and is_comfy.
void graft_weight_source_detect(graft_weight_source *source);

// Describes the tensor that builders call |name|, part of a larger one where need be; false where there is none.
// Thread-safe.
bool graft_weight_source_find(const graft_weight_source *source, const char *name,
                              graft_safetensors_tensor *out_tensor);

// Whether the tensor that builders call |name| is a quantised layer's weight. Thread-safe.
bool graft_weight_source_is_quantized(const graft_weight_source *source, const char *name);

// A linear layer's weight with what belongs to it.
typedef struct graft_weight_layer {
  graft_safetensors_tensor weight;
  bool is_quantized;              // in the file
  graft_quantized_format format;  // of a quantised weight
  int64_t group;
  bool has_scale;
  graft_safetensors_tensor scale;
} graft_weight_layer;

// The layer that builders call |name|, without ".weight"; false where there is none. Thread-safe.
bool graft_weight_source_layer(const graft_weight_source *source, const char *name, graft_weight_layer *out_layer);

// What is computed with between layers where the caller has no wish (graft_pipeline_options): GRAFT_BF16, GRAFT_F16 or
// GRAFT_F32. Thread-safe.
graft_dtype graft_weight_type_activations(graft_weight_type type, const graft_device *device);

// Whether the layer |name| is to be quantised while it is loaded, and in groups of how many of |n_in| inputs.
bool graft_weight_source_quantizes(const graft_weight_source *source, const char *name, int64_t n_in,
                                   int64_t *out_group);

#endif
