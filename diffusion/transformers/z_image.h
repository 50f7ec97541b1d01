// z_image.h — the Z-Image transformer (S3-DiT): image and caption tokens in one sequence, each refined alone first,
// modulated by the time, positions turned into rotations on three axes. Names are those of diffusers'
// ZImageTransformer2DModel.
#ifndef GRAFT_DIFFUSION_TRANSFORMERS_Z_IMAGE_H
#define GRAFT_DIFFUSION_TRANSFORMERS_Z_IMAGE_H

#include "diffusion/model.h"
#include "formats/json.h"

enum { GRAFT_Z_IMAGE_N_AXES = 3, GRAFT_Z_IMAGE_TOKEN_MULTIPLE = 32 };

typedef struct graft_z_image_config {
  int64_t dim, n_heads, head_dim;
  int64_t n_layers, n_refiner_layers;
  int64_t in_channels, caption_dim, patch;
  int64_t axes_dims[GRAFT_Z_IMAGE_N_AXES];  // channels of a head for time, row, column; all of head_dim together
  int64_t axes_lens[GRAFT_Z_IMAGE_N_AXES];  // positions that exist on each axis
  double norm_eps, rope_theta, t_scale;
} graft_z_image_config;

// Its names in files of ComfyUI's naming, and which layers are quantised.
extern const graft_weight_profile graft_z_image_profile;

// Reads config.json. Errors: GRAFT_E_FORMAT, GRAFT_E_UNSUPPORTED (an option that is not built, by name). Thread-safe.
GRAFT_NODISCARD graft_status graft_z_image_read(const graft_json *json, graft_error *error,
                                                graft_z_image_config *out_config);

typedef struct graft_z_image_shape {
  int64_t batch;
  int64_t height, width;  // of the latents; multiples of the patch
  int64_t n_caption;      // caption tokens, padding included; a multiple of GRAFT_Z_IMAGE_TOKEN_MULTIPLE
  bool rotary_per_item;   // the input `rotary` has a batch dimension: captions of different padded lengths
  bool has_mask;          // an input `mask` says which tokens may be attended to
  bool with_blocks;       // inner results are outputs too, under their names in the file
} graft_z_image_shape;

// Numbers of tokens with padding: n_image rows of patches first, then n_caption.
int64_t graft_z_image_n_image_tokens(const graft_z_image_config *config, const graft_z_image_shape *shape);
int64_t graft_z_image_padded(int64_t n_tokens);

// Inputs: `latents` f32 [B, C, H, W]; `time` f32 [B], 0 for noise to 1; `caption` f32 [B, n_caption, caption_dim];
// `caption_keep` f32 [B, n_caption, 1], 1 for tokens and 0 for padding; `rotary` f32 [n, head_dim / 2, 2] or with a
// batch dimension, n all tokens; with a mask also `mask` bool [B, n].
// Output: `flow` f32 [B, C, H, W], picture - noise. Failures stick to |model|.
void graft_z_image_build(graft_model *model, const graft_z_image_config *config, const graft_z_image_shape *shape);

// Fills |table| (n · head_dim values) for the input `rotary` of one item whose caption is padded to |n_caption| tokens
// of the shape's: cosine and sine of position · theta^(-2i/d), computed in f64 and rounded to f32. Thread-safe.
void graft_z_image_rotary(const graft_z_image_config *config, const graft_z_image_shape *shape, int64_t n_caption,
                          float *table);

#endif
