#include <string.h>

#include "diffusion/autoencoders/autoencoder_kl.h"
#include "formats/excerpt.h"

static graft_status refuse(const graft_json *json, const char *option, const char *supported, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: the autoencoder option `%s` is not supported; graft knows only %s",
                    graft_excerpt_path(graft_json_origin(json)).text, option, supported);
}

static graft_status require_blocks(const graft_json *json, const char *key, const char *wanted, graft_error *error) {
  const char *types[GRAFT_AUTOENCODER_MAX_LEVELS];
  size_t n;
  const graft_json_list_rule rule = {.max_count = GRAFT_AUTOENCODER_MAX_LEVELS};
  GRAFT_TRY(graft_json_get_strings(json, key, rule, error, types, &n));
  for (size_t i = 0; i < n; ++i)
    if (strcmp(types[i], wanted) != 0) return refuse(json, key, wanted, error);
  return GRAFT_OK;
}

static graft_status refuse_options(const graft_json *json, graft_error *error) {
  const char *activation;
  GRAFT_TRY(graft_json_get_string(json, "act_fn", "silu", error, &activation));
  if (strcmp(activation, "silu") != 0) return refuse(json, "act_fn", "silu", error);
  if (graft_json_find(json, "latents_mean")) return refuse(json, "latents_mean", "null", error);
  if (graft_json_find(json, "latents_std")) return refuse(json, "latents_std", "null", error);
  GRAFT_TRY(require_blocks(json, "down_block_types", "DownEncoderBlock2D", error));
  return require_blocks(json, "up_block_types", "UpDecoderBlock2D", error);
}

static graft_status read_channels(const graft_json *json, graft_error *error, graft_autoencoder_config *c) {
  size_t n_levels;
  const graft_json_list_rule rule = {1, GRAFT_AUTOENCODER_MAX_LEVELS, 1, 1 << 16};
  GRAFT_TRY(graft_json_get_ints(json, "block_out_channels", rule, error, c->channels, &n_levels));
  c->n_levels = (int64_t)n_levels;
  graft_json_int_rule group_rule = {.min = 1, .max = 1 << 16, .otherwise = 32};
  GRAFT_TRY(graft_json_get_int(json, "norm_num_groups", group_rule, error, &c->n_groups));
  for (int64_t i = 0; i < c->n_levels; ++i)
    if (c->channels[i] % c->n_groups != 0)
      return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                        "%s: every entry of `block_out_channels` must be a multiple of `norm_num_groups`, and %lld is "
                        "none of %lld",
                        graft_excerpt_path(graft_json_origin(json)).text, (long long)c->channels[i],
                        (long long)c->n_groups);
  return GRAFT_OK;
}

static graft_status read_switches(const graft_json *json, graft_error *error, graft_autoencoder_config *c) {
  const graft_json_bool_rule on = {.otherwise = true};
  GRAFT_TRY(graft_json_get_bool(json, "use_quant_conv", on, error, &c->has_quant_conv));
  GRAFT_TRY(graft_json_get_bool(json, "use_post_quant_conv", on, error, &c->has_post_quant_conv));
  return graft_json_get_bool(json, "mid_block_add_attention", on, error, &c->has_mid_attention);
}

graft_status graft_autoencoder_read(const graft_json *json, graft_error *error, graft_autoencoder_config *out_config) {
  graft_autoencoder_config c = {0};
  GRAFT_TRY(refuse_options(json, error));
  const graft_json_int_rule colours = {.min = 1, .max = 4096, .otherwise = 3};
  GRAFT_TRY(graft_json_get_int(json, "in_channels", colours, error, &c.in_channels));
  GRAFT_TRY(graft_json_get_int(json, "out_channels", colours, error, &c.out_channels));
  const graft_json_int_rule latents = {.min = 1, .max = 4096, .otherwise = 4};
  GRAFT_TRY(graft_json_get_int(json, "latent_channels", latents, error, &c.latent_channels));
  const graft_json_int_rule layers = {.min = 1, .max = 256, .otherwise = 1};
  GRAFT_TRY(graft_json_get_int(json, "layers_per_block", layers, error, &c.layers_per_block));
  GRAFT_TRY(read_channels(json, error, &c));
  GRAFT_TRY(read_switches(json, error, &c));
  const graft_json_number_rule scale = {.min = 1e-6, .max = 1e6, .otherwise = 0.18215};
  GRAFT_TRY(graft_json_get_number(json, "scaling_factor", scale, error, &c.scaling_factor));
  const graft_json_number_rule shift = {.min = -1e6, .max = 1e6, .otherwise = 0};
  GRAFT_TRY(graft_json_get_number(json, "shift_factor", shift, error, &c.shift_factor));
  *out_config = c;
  return GRAFT_OK;
}

int64_t graft_autoencoder_factor(const graft_autoencoder_config *config) {
  return (int64_t)1 << (config->n_levels - 1);
}
