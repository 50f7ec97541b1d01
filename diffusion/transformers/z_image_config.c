#include <string.h>

#include "diffusion/transformers/z_image.h"
#include "formats/excerpt.h"

static graft_status refuse(const graft_json *json, const char *option, const char *supported, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: the transformer option `%s` is not supported; graft knows only %s",
                    graft_excerpt_path(graft_json_origin(json)).text, option, supported);
}

static graft_status get_size(const graft_json *json, const char *key, int64_t max, graft_error *error, int64_t *out) {
  return graft_json_get_int(json, key, (graft_json_int_rule){.min = 1, .max = max, .required = true}, error, out);
}

static graft_status read_patch(const graft_json *json, graft_error *error, int64_t *out_patch) {
  int64_t patch = 2, frames = 1;
  size_t n;
  const graft_json_list_rule rule = {.max_count = 1, .min = 1, .max = 64};
  GRAFT_TRY(graft_json_get_ints(json, "all_patch_size", rule, error, &patch, &n));
  GRAFT_TRY(graft_json_get_ints(json, "all_f_patch_size", rule, error, &frames, &n));
  if (frames != 1) return refuse(json, "all_f_patch_size", "[1]", error);
  *out_patch = patch;
  return GRAFT_OK;
}

static graft_status refuse_options(const graft_json *json, const graft_z_image_config *config, graft_error *error) {
  bool has_norm;
  int64_t n_kv_heads;
  GRAFT_TRY(graft_json_get_bool(json, "qk_norm", (graft_json_bool_rule){.otherwise = true}, error, &has_norm));
  if (!has_norm) return refuse(json, "qk_norm", "true", error);
  graft_json_int_rule rule = {.min = 1, .max = 4096, .otherwise = config->n_heads};
  GRAFT_TRY(graft_json_get_int(json, "n_kv_heads", rule, error, &n_kv_heads));
  if (n_kv_heads != config->n_heads) return refuse(json, "n_kv_heads", "the same as n_heads", error);
  if (graft_json_find(json, "siglip_feat_dim")) return refuse(json, "siglip_feat_dim", "null", error);
  return GRAFT_OK;
}

static graft_status read_axes(const graft_json *json, graft_error *error, graft_z_image_config *c) {
  size_t n;
  const graft_json_list_rule dims = {GRAFT_Z_IMAGE_N_AXES, GRAFT_Z_IMAGE_N_AXES, 2, 8192};
  const graft_json_list_rule lens = {GRAFT_Z_IMAGE_N_AXES, GRAFT_Z_IMAGE_N_AXES, 1, 1 << 24};
  GRAFT_TRY(graft_json_get_ints(json, "axes_dims", dims, error, c->axes_dims, &n));
  GRAFT_TRY(graft_json_get_ints(json, "axes_lens", lens, error, c->axes_lens, &n));
  int64_t sum = 0;
  bool is_even = true;
  for (int axis = 0; axis < GRAFT_Z_IMAGE_N_AXES; ++axis) {
    sum += c->axes_dims[axis];
    is_even = is_even && c->axes_dims[axis] % 2 == 0;
  }
  c->head_dim = c->dim / c->n_heads;
  if (c->dim % c->n_heads != 0 || sum != c->head_dim || !is_even)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s: `axes_dims` must be even and add up to the size of a head, dim / n_heads = %lld / %lld",
                      graft_excerpt_path(graft_json_origin(json)).text, (long long)c->dim, (long long)c->n_heads);
  return GRAFT_OK;
}

graft_status graft_z_image_read(const graft_json *json, graft_error *error, graft_z_image_config *out_config) {
  graft_z_image_config c = {0};
  GRAFT_TRY(get_size(json, "dim", 1 << 20, error, &c.dim));
  GRAFT_TRY(get_size(json, "n_heads", 4096, error, &c.n_heads));
  GRAFT_TRY(get_size(json, "n_layers", 1024, error, &c.n_layers));
  GRAFT_TRY(get_size(json, "in_channels", 4096, error, &c.in_channels));
  GRAFT_TRY(get_size(json, "cap_feat_dim", 1 << 20, error, &c.caption_dim));
  graft_json_int_rule refiner_rule = {.min = 0, .max = 1024, .otherwise = 2};
  GRAFT_TRY(graft_json_get_int(json, "n_refiner_layers", refiner_rule, error, &c.n_refiner_layers));
  GRAFT_TRY(read_patch(json, error, &c.patch));
  GRAFT_TRY(refuse_options(json, &c, error));
  GRAFT_TRY(read_axes(json, error, &c));
  graft_json_number_rule eps_rule = {.min = 0, .max = 1, .otherwise = 1e-5};
  GRAFT_TRY(graft_json_get_number(json, "norm_eps", eps_rule, error, &c.norm_eps));
  graft_json_number_rule theta_rule = {.min = 1, .max = 1e12, .otherwise = 256};
  GRAFT_TRY(graft_json_get_number(json, "rope_theta", theta_rule, error, &c.rope_theta));
  graft_json_number_rule scale_rule = {.min = 1e-6, .max = 1e6, .otherwise = 1000};
  GRAFT_TRY(graft_json_get_number(json, "t_scale", scale_rule, error, &c.t_scale));
  *out_config = c;
  return GRAFT_OK;
}
