#include <math.h>
#include <stdlib.h>

#include "diffusion/pipelines/generation.h"

// From the transformer's scale to the autoencoder's, in f32 as diffusers does it.
static void unscale(const graft_autoencoder_config *config, float *values, size_t n) {
  const float scale = (float)config->scaling_factor, shift = (float)config->shift_factor;
  for (size_t i = 0; i < n; ++i) values[i] = values[i] / scale + shift;
}

static uint8_t to_byte(float sample) {
  const float half = sample / 2 + 0.5f;
  const float clamped = half < 0 ? 0 : half > 1 ? 1 : half;
  return (uint8_t)rintf(clamped * 255);
}

// Planes of samples to interleaved bytes.
static graft_status to_rgb(const generation *g, const float *samples, uint8_t *rgb) {
  const size_t n_pixels = (size_t)g->result.width * (size_t)g->result.height;
  for (size_t i = 0; i < n_pixels; ++i)
    for (size_t c = 0; c < 3; ++c) {
      const float sample = samples[c * n_pixels + i];
      if (!isfinite(sample))
        return GRAFT_FAIL(g->error, GRAFT_E_FORMAT,
                          "the picture holds values that are no finite numbers: the model's weights or the noise are "
                          "damaged");
      rgb[3 * i + c] = to_byte(sample);
    }
  return GRAFT_OK;
}

static graft_status allocate_result(generation *g, const graft_tensor_desc *image) {
  const size_t n = (size_t)graft_tensor_desc_elements(image);
  g->result.n_images = g->request->n_images;
  g->result.width = g->request->width;
  g->result.height = g->request->height;
  g->result.samples = graft_generation_values(g, n, "the pictures");
  if (!g->result.samples) return GRAFT_E_NO_MEMORY;
  g->result.rgb = malloc(n);
  return g->result.rgb ? GRAFT_OK : GRAFT_FAIL(g->error, GRAFT_E_NO_MEMORY, "out of memory for the pictures");
}

static graft_status decode_image(generation *g, const pipeline_stage *stage, uint32_t index) {
  const size_t n_latents = (size_t)graft_tensor_desc_elements(&g->latents_desc) / g->request->n_images;
  const size_t n_samples = 3 * (size_t)g->result.width * (size_t)g->result.height;
  float *latents = g->latents + index * n_latents, *samples = g->result.samples + index * n_samples;
  unscale(&g->pipeline->autoencoder, latents, n_latents);
  GRAFT_TRY(graft_pipeline_stage_write(stage, "latents", latents, n_latents * sizeof(float)));
  GRAFT_TRY(graft_generation_run(g, stage));
  GRAFT_TRY(graft_pipeline_stage_read(stage, "image", samples, n_samples * sizeof(float)));
  return to_rgb(g, samples, g->result.rgb + index * n_samples);
}

graft_status graft_generation_decode(generation *g) {
  const graft_stage_request request = {.struct_size = sizeof request,
                                       .stage = GRAFT_STAGE_DECODER,
                                       .width = g->request->width,
                                       .height = g->request->height};
  const int64_t shape[4] = {g->request->n_images, 3, g->request->height, g->request->width};
  graft_tensor_desc image;
  pipeline_stage *stage;
  graft_generation_progress(g, GRAFT_PHASE_DECODE, 0, g->request->n_images);
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_F32, 4, shape, g->error, &image));
  GRAFT_TRY(graft_pipeline_decoder(g->pipeline, &request, &stage));
  graft_generation_show_plan(g, stage);
  GRAFT_TRY(allocate_result(g, &image));
  for (uint32_t i = 0; i < g->request->n_images; ++i) {
    GRAFT_TRY(decode_image(g, stage, i));
    graft_generation_progress(g, GRAFT_PHASE_DECODE, i + 1, g->request->n_images);
  }
  return graft_generation_dump(g, "image", &image, g->result.samples);
}
