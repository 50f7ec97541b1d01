#include "diffusion/transformers/z_image_made_up.h"

#include <string.h>

enum { FREQUENCIES = 256, TIME_HIDDEN = 1024, MOST_TIME = 256 };

typedef struct tensor_rule {
  const char *ending;
  int64_t rows, columns;  // columns 0: a vector
} tensor_rule;

static bool ends_in(const char *name, const char *ending) {
  const size_t n = strlen(name), n_ending = strlen(ending);
  return n >= n_ending && strcmp(name + n - n_ending, ending) == 0;
}

static int64_t hidden_of(const graft_z_image_config *c) {
  return c->dim / 3 * 8;
}

int32_t graft_z_image_made_up_shape(const void *config, const char *name, int64_t shape[GRAFT_MAX_RANK]) {
  const graft_z_image_config *c = config;
  const int64_t dim = c->dim, hidden = hidden_of(c), time = dim < MOST_TIME ? dim : MOST_TIME;
  const int64_t pixels = c->patch * c->patch * c->in_channels;
  // The first rule that fits counts: those of single layers stand before those of blocks.
  const tensor_rule rules[] = {
      {"t_embedder.mlp.0.weight", TIME_HIDDEN, FREQUENCIES},
      {"t_embedder.mlp.0.bias", TIME_HIDDEN, 0},
      {"t_embedder.mlp.2.weight", time, TIME_HIDDEN},
      {"t_embedder.mlp.2.bias", time, 0},
      {"cap_embedder.0.weight", c->caption_dim, 0},
      {"cap_embedder.1.weight", dim, c->caption_dim},
      {"cap_embedder.1.bias", dim, 0},
      {".linear.weight", pixels, dim},
      {".linear.bias", pixels, 0},
      {".adaLN_modulation.1.weight", dim, time},
      {".adaLN_modulation.1.bias", dim, 0},
      {".adaLN_modulation.0.weight", 4 * dim, time},
      {".adaLN_modulation.0.bias", 4 * dim, 0},
      {"x_pad_token", 1, dim},
      {"cap_pad_token", 1, dim},
      {".norm_q.weight", c->head_dim, 0},
      {".norm_k.weight", c->head_dim, 0},
      {"_norm1.weight", dim, 0},
      {"_norm2.weight", dim, 0},
      {".w1.weight", hidden, dim},
      {".w3.weight", hidden, dim},
      {".w2.weight", dim, hidden},
      {".to_q.weight", dim, dim},
      {".to_k.weight", dim, dim},
      {".to_v.weight", dim, dim},
      {".to_out.0.weight", dim, dim},
      {"-1.weight", dim, pixels},  // all_x_embedder.2-1
      {"-1.bias", dim, 0},
  };
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
    if (!ends_in(name, rules[i].ending)) continue;
    shape[0] = rules[i].rows;
    shape[1] = rules[i].columns;
    return rules[i].columns == 0 ? 1 : 2;
  }
  return 0;
}

int64_t graft_z_image_made_up_largest(const graft_z_image_config *config) {
  const int64_t dim = config->dim, layer = dim * hidden_of(config), caption = dim * config->caption_dim;
  const int64_t others = 4 * dim * MOST_TIME + TIME_HIDDEN * (int64_t)FREQUENCIES;
  const int64_t pixels = dim * config->patch * config->patch * config->in_channels;
  return layer + caption + others + pixels;
}
