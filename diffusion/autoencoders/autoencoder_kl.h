// autoencoder_kl.h — the convolutional autoencoder of SD, SDXL, SD3, Flux and Z-Image: pictures to latents and back.
// Names are those of diffusers' AutoencoderKL.
#ifndef GRAFT_DIFFUSION_AUTOENCODERS_AUTOENCODER_KL_H
#define GRAFT_DIFFUSION_AUTOENCODERS_AUTOENCODER_KL_H

#include "diffusion/model.h"
#include "formats/json.h"

enum { GRAFT_AUTOENCODER_MAX_LEVELS = 8 };

typedef struct graft_autoencoder_config {
  int64_t in_channels, out_channels, latent_channels;
  int64_t channels[GRAFT_AUTOENCODER_MAX_LEVELS];
  int64_t n_levels, layers_per_block, n_groups;
  bool has_quant_conv, has_post_quant_conv, has_mid_attention;
  double scaling_factor, shift_factor;  // latents of the transformer = (latents - shift_factor) · scaling_factor
} graft_autoencoder_config;

// Reads config.json. Errors: GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED (an option that is not built, by name). Thread-safe.
GRAFT_NODISCARD graft_status graft_autoencoder_read(const graft_json *json, graft_error *error,
                                                    graft_autoencoder_config *out_config);

// Pixels along one side of a latent: each level but the last halves the size. Thread-safe.
int64_t graft_autoencoder_factor(const graft_autoencoder_config *config);

typedef struct graft_autoencoder_shape {
  int64_t batch, height, width;  // of the graph's input
} graft_autoencoder_shape;

// Input `latents` f32 [B, z, h, w] in the autoencoder's own scale; output `image` f32 [B, 3, h · factor, w · factor],
// about -1 … 1. Failures stick to |model|.
void graft_autoencoder_build_decoder(graft_model *model, const graft_autoencoder_config *config,
                                     const graft_autoencoder_shape *shape);

// Input `image` f32 [B, 3, H, W], sides multiples of the factor; outputs `mean` and `logvar` f32 [B, z, …], logvar not
// clamped. Failures stick to |model|.
void graft_autoencoder_build_encoder(graft_model *model, const graft_autoencoder_config *config,
                                     const graft_autoencoder_shape *shape);

#endif
