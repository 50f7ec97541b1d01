#include <limits.h>
#include <math.h>
#include <string.h>

#include "diffusion/pipelines/pipeline_internal.h"
#include "formats/excerpt.h"
#include "formats/utf8.h"

int32_t graft_pipeline_latent_factor(const graft_pipeline *pipeline) {
  const bool has_decoder = pipeline->parts[PART_DECODER].is_present;
  return has_decoder ? (int32_t)graft_autoencoder_factor(&pipeline->autoencoder) : pipeline->family->latent_factor;
}

int32_t graft_pipeline_size_multiple(const graft_pipeline *pipeline) {
  const int64_t patch = pipeline->parts[PART_TRANSFORMER].is_present ? pipeline->transformer.patch : 1;
  return (int32_t)(graft_pipeline_latent_factor(pipeline) * patch);
}

int32_t graft_pipeline_max_side(const graft_pipeline *pipeline, bool is_width) {
  const int64_t multiple = graft_pipeline_size_multiple(pipeline);
  const int64_t positions =
      pipeline->parts[PART_TRANSFORMER].is_present ? pipeline->transformer.axes_lens[is_width ? 2 : 1] : INT_MAX;
  const int64_t most = INT_MAX / multiple;
  return (int32_t)((positions < most ? positions : most) * multiple);
}

int32_t graft_pipeline_max_tokens(const graft_pipeline *pipeline) {
  double most = pipeline->family->max_tokens;
  if (pipeline->model_max_tokens < most) most = pipeline->model_max_tokens;
  if (pipeline->parts[PART_TEXT_ENCODER].is_present && (double)pipeline->text.max_positions < most)
    most = (double)pipeline->text.max_positions;
  if (pipeline->parts[PART_TRANSFORMER].is_present) {
    // Captions take time positions 1 … n, padding included, and the image the one behind them.
    const int64_t multiple = GRAFT_Z_IMAGE_TOKEN_MULTIPLE;
    const int64_t positions = (pipeline->transformer.axes_lens[0] - 2) / multiple * multiple;
    if ((double)positions < most) most = (double)positions;
  }
  return most > 0 ? (int32_t)most : 0;
}

int64_t graft_pipeline_nearest_side(const graft_pipeline *pipeline, int64_t side, bool is_width) {
  const int64_t multiple = graft_pipeline_size_multiple(pipeline);
  const int64_t most = graft_pipeline_max_side(pipeline, is_width);
  if (side >= most) return most;
  const int64_t rounded = (side + multiple / 2) / multiple * multiple;
  return rounded < multiple ? multiple : rounded;
}

graft_status graft_pipeline_check_size(const graft_pipeline *pipeline, int64_t width, int64_t height,
                                       graft_error *error) {
  const int64_t legal_width = graft_pipeline_nearest_side(pipeline, width, true),
                legal_height = graft_pipeline_nearest_side(pipeline, height, false);
  if (width == legal_width && height == legal_height) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID,
                    "a picture of %lldx%lld is not possible: width and height must be multiples of %d, at most %dx%d; "
                    "the nearest legal size is %lldx%lld",
                    (long long)width, (long long)height, graft_pipeline_size_multiple(pipeline),
                    graft_pipeline_max_side(pipeline, true), graft_pipeline_max_side(pipeline, false),
                    (long long)legal_width, (long long)legal_height);
}

graft_status graft_pipeline_require_part(const graft_pipeline *pipeline, part_id part, graft_error *error) {
  const pipeline_part *p = &pipeline->parts[part];
  if (p->is_present) return GRAFT_OK;
  const char *name = pipeline->family->part_names[part];
  if (!p->folder)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: the part `%s` is missing: there is no such folder",
                      graft_excerpt_path(pipeline->path).text, name);
  return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND,
                    "%s: the part `%s` is incomplete: its configuration or weights are missing",
                    graft_excerpt_path(p->folder).text, name);
}

static graft_status check_text(const char *what, const char *text, graft_error *error) {
  size_t offset;
  if (graft_utf8_is_valid(text, strlen(text), &offset)) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "the %s is not UTF-8 text: byte %zu is wrong", what, offset + 1);
}

static graft_status check_noise(const graft_pipeline *pipeline, const graft_generate_request *r, graft_error *error) {
  const int64_t factor = graft_pipeline_latent_factor(pipeline);
  const int64_t shape[4] = {r->n_images, pipeline->transformer.in_channels, r->height / factor, r->width / factor};
  const graft_tensor_desc *desc = &r->noise->desc;
  char found[128];
  if (desc->dtype != GRAFT_F32 || !graft_tensor_desc_has_shape(desc, 4, shape) ||
      !graft_tensor_desc_is_contiguous(desc))
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "the noise must be a contiguous f32[%lld, %lld, %lld, %lld], not %s",
                      (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)shape[3],
                      graft_tensor_desc_format(desc, found, sizeof found));
  const float *values = r->noise->data;
  const int64_t n = graft_tensor_desc_elements(desc);
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(values[i]))
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "the noise holds a value that is no finite number, at element %lld",
                        (long long)i);
  return GRAFT_OK;
}

graft_status graft_pipeline_check_request(const graft_pipeline *pipeline, const graft_generate_request *r,
                                          graft_error *error) {
  if (!r->prompt) return GRAFT_FAIL(error, GRAFT_E_INVALID, "a prompt is needed");
  GRAFT_TRY(check_text("prompt", r->prompt, error));
  if (r->negative_prompt) GRAFT_TRY(check_text("negative prompt", r->negative_prompt, error));
  if (r->n_images < 1 || r->n_images > GRAFT_MAX_IMAGES)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the number of pictures must be between 1 and %d, not %u",
                      GRAFT_MAX_IMAGES, r->n_images);
  if (r->n_steps < 1 || r->n_steps > pipeline->scheduler.n_train_timesteps)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the number of steps must be between 1 and %d, not %d",
                      pipeline->scheduler.n_train_timesteps, r->n_steps);
  if (!isfinite(r->guidance) || fabs(r->guidance) > 1e6)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "the guidance must be a number of at most a million, not %g",
                      r->guidance);
  for (int part = 0; part < N_PARTS; ++part) GRAFT_TRY(graft_pipeline_require_part(pipeline, (part_id)part, error));
  GRAFT_TRY(graft_pipeline_check_size(pipeline, r->width, r->height, error));
  return r->noise ? check_noise(pipeline, r, error) : GRAFT_OK;
}
