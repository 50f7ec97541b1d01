// z_image_made_up.h — the tensors of a Z-Image transformer by its configuration, for weights that are made up.
#ifndef GRAFT_DIFFUSION_TRANSFORMERS_Z_IMAGE_MADE_UP_H
#define GRAFT_DIFFUSION_TRANSFORMERS_Z_IMAGE_MADE_UP_H

#include "diffusion/transformers/z_image.h"

// A graft_made_up_shape; |config| is a graft_z_image_config. What no configuration says is as in the published models:
// feed-forward layers of 8/3 of the width, 256 frequencies of the time. Thread-safe.
int32_t graft_z_image_made_up_shape(const void *config, const char *name, int64_t shape[GRAFT_MAX_RANK]);

// At least as many elements as any of these tensors has. Thread-safe.
int64_t graft_z_image_made_up_largest(const graft_z_image_config *config);

#endif
