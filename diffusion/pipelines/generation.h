// generation.h — one call of graft_pipeline_generate, shared by the files that do its phases.
#ifndef GRAFT_DIFFUSION_PIPELINES_GENERATION_H
#define GRAFT_DIFFUSION_PIPELINES_GENERATION_H

#include "diffusion/pipelines/pipeline_internal.h"

// A prompt on its way: text, ids, then numbers for the transformer.
typedef struct generation_prompt {
  const char *name;  // "prompt" or "negative prompt"
  const char *text;
  graft_token_ids ids;
  int64_t n_padded;
  float *embeds;                // [n_padded, caption_dim], zero beyond the ids
  float *keep;                  // [n_padded], 1 for tokens and 0 for padding
  pipeline_stage *transformer;  // borrowed from the pipeline
} generation_prompt;

typedef struct generation {
  graft_pipeline *pipeline;
  const graft_generate_request *request;
  const graft_generate_callbacks *callbacks;
  graft_error *error;
  generation_prompt prompts[2];  // positive, negative
  uint32_t n_prompts;
  graft_tensor_desc latents_desc;  // [n_images, channels, height, width]
  float *latents;
  float *flows[2];  // of one image, by prompt
  graft_generate_result result;
} generation;

// generate.c: what every phase uses.
void graft_generation_progress(const generation *g, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps);
// Tells the caller of the plan of |stage|, which is about to be used.
void graft_generation_show_plan(const generation *g, const pipeline_stage *stage);
GRAFT_NODISCARD graft_status graft_generation_run(const generation *g, const pipeline_stage *stage);
// Hands a contiguous tensor of |rank| dimensions to the caller's on_tensor.
GRAFT_NODISCARD graft_status graft_generation_dump(const generation *g, const char *name, const graft_tensor_desc *desc,
                                                   const void *data);
// |n| zeroed values, or NULL and a failure in the error record.
float *graft_generation_values(const generation *g, size_t n, const char *what);

// prompts.c
GRAFT_NODISCARD graft_status graft_generation_tokenize(generation *g);
GRAFT_NODISCARD graft_status graft_generation_encode(generation *g);

// denoise.c
GRAFT_NODISCARD graft_status graft_generation_denoise(generation *g);

// decode.c
GRAFT_NODISCARD graft_status graft_generation_decode(generation *g);

#endif
