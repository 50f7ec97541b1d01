#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/pipelines/generation.h"
#include "diffusion/samplers/noise.h"

static size_t values_per_image(const generation *g) {
  return (size_t)(graft_tensor_desc_elements(&g->latents_desc) / g->latents_desc.shape[0]);
}

static graft_status make_noise(generation *g) {
  const size_t n = values_per_image(g);
  g->latents = graft_generation_values(g, n * g->request->n_images, "the latents");
  if (!g->latents) return GRAFT_E_NO_MEMORY;
  if (g->request->noise) {
    memcpy(g->latents, g->request->noise->data, n * g->request->n_images * sizeof(float));
  } else {
    for (uint32_t i = 0; i < g->request->n_images; ++i)
      graft_noise_fill(g->request->seeds ? g->request->seeds[i] : i, g->latents + i * n, n);
  }
  return graft_generation_dump(g, "noise", &g->latents_desc, g->latents);
}

static graft_status load(generation *g) {
  graft_generation_progress(g, GRAFT_PHASE_LOAD, 0, 1);
  graft_stage_request request = {.struct_size = sizeof request,
                                 .stage = GRAFT_STAGE_TRANSFORMER,
                                 .width = g->request->width,
                                 .height = g->request->height,
                                 .with_blocks = g->callbacks->dump_blocks && g->callbacks->on_tensor};
  for (uint32_t i = 0; i < g->n_prompts; ++i) {
    request.n_tokens = (int32_t)g->prompts[i].ids.n_ids;
    GRAFT_TRY(graft_pipeline_transformer(g->pipeline, &request, &g->prompts[i].transformer));
    if (i == 0 || g->prompts[i].transformer != g->prompts[0].transformer) {
      graft_generation_show_plan(g, g->prompts[i].transformer);
    }
    request.with_blocks = false;
  }
  graft_pipeline_drop_stages(g->pipeline, &request);
  for (uint32_t i = 0; i < g->n_prompts; ++i) {
    g->flows[i] = graft_generation_values(g, values_per_image(g), "the flow");
    if (!g->flows[i]) return GRAFT_E_NO_MEMORY;
  }
  graft_generation_progress(g, GRAFT_PHASE_LOAD, 1, 1);
  return GRAFT_OK;
}

// One evaluation of the transformer: the flow at |latents| and |time| for one prompt.
static graft_status evaluate(const generation *g, uint32_t prompt_index, const float *latents, float time) {
  const generation_prompt *prompt = &g->prompts[prompt_index];
  const pipeline_stage *stage = prompt->transformer;
  const size_t n = values_per_image(g), n_padded = (size_t)prompt->n_padded;
  const size_t embeds_bytes = n_padded * (size_t)g->pipeline->transformer.caption_dim * sizeof(float);
  GRAFT_TRY(graft_pipeline_stage_write(stage, "latents", latents, n * sizeof(float)));
  GRAFT_TRY(graft_pipeline_stage_write(stage, "time", &time, sizeof time));
  GRAFT_TRY(graft_pipeline_stage_write(stage, "caption", prompt->embeds, embeds_bytes));
  GRAFT_TRY(graft_pipeline_stage_write(stage, "caption_keep", prompt->keep, n_padded * sizeof(float)));
  GRAFT_TRY(graft_generation_run(g, stage));
  return graft_pipeline_stage_read(stage, "flow", g->flows[prompt_index], n * sizeof(float));
}

static graft_status dump_block(const generation *g, const pipeline_stage *stage, uint32_t index) {
  const char *output;
  const graft_tensor *tensor = graft_graph_output_at(stage->graph, index, &output);
  if (strcmp(output, "flow") == 0) return GRAFT_OK;
  graft_tensor_desc desc = *graft_tensor_describe(tensor);
  GRAFT_TRY(graft_tensor_desc_init(desc.dtype, desc.rank, desc.shape, g->error, &desc));
  const size_t bytes = graft_tensor_desc_bytes(&desc);
  float *values = graft_generation_values(g, bytes / sizeof(float), "a block's output");
  if (!values) return GRAFT_E_NO_MEMORY;
  char name[64];
  snprintf(name, sizeof name, "step0.%s", output);
  graft_status status = graft_plan_read(stage->plan, index, values, bytes);
  if (status == GRAFT_OK) status = graft_generation_dump(g, name, &desc, values);
  free(values);
  return status;
}

static graft_status dump_blocks(const generation *g) {
  const pipeline_stage *stage = g->prompts[0].transformer;
  for (uint32_t i = 0; i < graft_graph_n_outputs(stage->graph); ++i) GRAFT_TRY(dump_block(g, stage, i));
  return GRAFT_OK;
}

// The velocity noise - picture from the flows picture - noise, with guidance: -(p + guidance · (p - n)).
static void combine(const generation *g, float *velocity) {
  const float *positive = g->flows[0], *negative = g->flows[1];
  const float guidance = (float)g->request->guidance;
  const size_t n = values_per_image(g);
  for (size_t i = 0; i < n; ++i) {
    float flow = positive[i];
    if (negative) flow += guidance * (positive[i] - negative[i]);
    velocity[i] = -flow;
  }
}

static graft_status step(const generation *g, uint32_t index, const float *sigmas) {
  const float n_train = (float)g->pipeline->scheduler.n_train_timesteps;
  const float timestep = graft_flow_match_euler_timestep(&g->pipeline->scheduler, sigmas[index]);
  const float time = (n_train - timestep) / n_train;
  const size_t n = values_per_image(g);
  for (uint32_t image = 0; image < g->request->n_images; ++image) {
    float *latents = g->latents + image * n;
    for (uint32_t i = 0; i < g->n_prompts; ++i) {
      GRAFT_TRY(evaluate(g, i, latents, time));
      const bool has_blocks = index == 0 && image == 0 && i == 0 && g->prompts[0].transformer->request.with_blocks;
      if (has_blocks) GRAFT_TRY(dump_blocks(g));
    }
    combine(g, g->flows[0]);
    graft_flow_match_euler_step(latents, g->flows[0], n, sigmas[index], sigmas[index + 1]);
  }
  char name[48];
  snprintf(name, sizeof name, "latents_step_%u", index);
  return graft_generation_dump(g, name, &g->latents_desc, g->latents);
}

graft_status graft_generation_denoise(generation *g) {
  const uint32_t n_steps = (uint32_t)g->request->n_steps;
  GRAFT_TRY(make_noise(g));
  GRAFT_TRY(load(g));
  float *sigmas = graft_generation_values(g, (size_t)n_steps + 1, "the noise levels");
  if (!sigmas) return GRAFT_E_NO_MEMORY;
  graft_flow_match_euler_sigmas(&g->pipeline->scheduler, g->request->n_steps, sigmas);
  graft_generation_progress(g, GRAFT_PHASE_DENOISE, 0, n_steps);
  graft_status status = GRAFT_OK;
  for (uint32_t i = 0; i < n_steps && status == GRAFT_OK; ++i) {
    status = step(g, i, sigmas);
    if (status == GRAFT_OK) graft_generation_progress(g, GRAFT_PHASE_DENOISE, i + 1, n_steps);
  }
  free(sigmas);
  GRAFT_TRY(status);
  return graft_generation_dump(g, "latents", &g->latents_desc, g->latents);
}
