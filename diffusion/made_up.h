// made_up.h — weights that are made up, so that models can be measured of which there are no files. All are stretches
// of one block of random numbers, each from its own address on: a device gets one copy of each, the host holds one.
#ifndef GRAFT_DIFFUSION_MADE_UP_H
#define GRAFT_DIFFUSION_MADE_UP_H

#include "diffusion/weight_source.h"

// The shape of the tensor that builders call |name|, by the configuration |config|; its rank, or 0 where there is none.
typedef int32_t (*graft_made_up_shape)(const void *config, const char *name, int64_t shape[GRAFT_MAX_RANK]);

typedef struct graft_made_up_options {
  graft_made_up_shape shape_of;
  const void *config;  // borrowed
  const graft_weight_profile *profile;
  graft_weight_type type;  // int8 types: layers that are normally quantised are, all others bf16
  int64_t most_elements;   // of one tensor
} graft_made_up_options;

// Errors: GRAFT_E_NO_MEMORY.
GRAFT_NODISCARD graft_status graft_made_up_create(const graft_made_up_options *options, graft_error *error,
                                                  graft_made_up **out_made_up);
void graft_made_up_free(graft_made_up *made_up);

// Describes the tensor |name|, or |name| as a layer with what belongs to it; false where there is none. One thread at a
// time: every tensor that is asked for lies elsewhere.
bool graft_made_up_find(graft_made_up *made_up, const char *name, graft_safetensors_tensor *out_tensor);
bool graft_made_up_layer(graft_made_up *made_up, const char *name, graft_weight_layer *out_layer);

#endif
