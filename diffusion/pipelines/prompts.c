#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/pipelines/generation.h"
#include "formats/chat_template.h"
#include "formats/excerpt.h"

static graft_status open_tokenizer(graft_pipeline *pipeline, graft_error *error) {
  if (pipeline->tokenizer) return GRAFT_OK;
  const char *folder = pipeline->parts[PART_TOKENIZER].folder;
  GRAFT_TRY(graft_chat_template_check(folder, error));
  return graft_tokenizer_open(folder, error, &pipeline->tokenizer);
}

static graft_status check_ids(const generation *g, const generation_prompt *prompt) {
  const size_t max_tokens = (size_t)graft_pipeline_max_tokens(g->pipeline);
  const graft_token_ids *ids = &prompt->ids;
  if (ids->n_ids == 0 || ids->n_ids > max_tokens)
    return GRAFT_FAIL(g->error, GRAFT_E_INVALID,
                      "the %s is too long: it has %zu tokens, and this model takes 1 to %zu; shorten it", prompt->name,
                      ids->n_ids, max_tokens);
  for (size_t i = 0; i < ids->n_ids; ++i)
    if (ids->ids[i] < 0 || ids->ids[i] >= g->pipeline->text.vocab_size)
      return GRAFT_FAIL(g->error, GRAFT_E_FORMAT,
                        "%s: the tokenizer gives token %d and the text encoder knows only %lld: these parts do not "
                        "belong together",
                        graft_excerpt_path(g->pipeline->path).text, ids->ids[i],
                        (long long)g->pipeline->text.vocab_size);
  return GRAFT_OK;
}

static graft_status tokenize(generation *g, generation_prompt *prompt) {
  char *chat;
  GRAFT_TRY(graft_chat_template_apply(prompt->text, g->error, &chat));
  graft_status status = graft_tokenizer_encode(g->pipeline->tokenizer, chat, strlen(chat), g->error, &prompt->ids);
  free(chat);
  GRAFT_TRY(status);
  prompt->n_padded = graft_z_image_padded((int64_t)prompt->ids.n_ids);
  return check_ids(g, prompt);
}

graft_status graft_generation_tokenize(generation *g) {
  GRAFT_TRY(open_tokenizer(g->pipeline, g->error));
  for (uint32_t i = 0; i < g->n_prompts; ++i) GRAFT_TRY(tokenize(g, &g->prompts[i]));
  return GRAFT_OK;
}

static graft_status dump_prompt(const generation *g, const generation_prompt *prompt, const char *prefix) {
  const int64_t n = (int64_t)prompt->ids.n_ids, shape[2] = {n, g->pipeline->transformer.caption_dim};
  graft_tensor_desc desc;
  char name[48];
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_I32, 1, &n, g->error, &desc));
  snprintf(name, sizeof name, "%stoken_ids", prefix);
  GRAFT_TRY(graft_generation_dump(g, name, &desc, prompt->ids.ids));
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_F32, 2, shape, g->error, &desc));
  snprintf(name, sizeof name, "%sprompt_embeds", prefix);
  return graft_generation_dump(g, name, &desc, prompt->embeds);
}

static graft_status encode(const generation *g, generation_prompt *prompt, const pipeline_stage *stage) {
  const size_t n = prompt->ids.n_ids, width = (size_t)g->pipeline->transformer.caption_dim;
  const size_t n_padded = (size_t)prompt->n_padded;
  prompt->embeds = graft_generation_values(g, n_padded * width, "a prompt");
  if (!prompt->embeds) return GRAFT_E_NO_MEMORY;
  prompt->keep = graft_generation_values(g, n_padded, "a prompt");
  if (!prompt->keep) return GRAFT_E_NO_MEMORY;
  for (size_t i = 0; i < n; ++i) prompt->keep[i] = 1;
  GRAFT_TRY(graft_pipeline_stage_write(stage, "ids", prompt->ids.ids, n * sizeof(int32_t)));
  GRAFT_TRY(graft_generation_run(g, stage));
  return graft_pipeline_stage_read(stage, "embeds", prompt->embeds, n * width * sizeof(float));
}

static graft_status open_stage(const generation *g, const generation_prompt *prompt, pipeline_stage *stage) {
  const graft_stage_request request = {.struct_size = sizeof request,
                                       .stage = GRAFT_STAGE_TEXT_ENCODER,
                                       .width = g->request->width,
                                       .height = g->request->height,
                                       .n_tokens = (int32_t)prompt->ids.n_ids};
  GRAFT_TRY(graft_pipeline_stage_open(g->pipeline, &request, 0, stage));
  graft_generation_show_plan(g, stage);
  return GRAFT_OK;
}

graft_status graft_generation_encode(generation *g) {
  // Both plans exist before the first one goes, so that they share their packed weights.
  pipeline_stage stages[2] = {0};
  const bool is_shared = g->n_prompts == 2 && g->prompts[0].ids.n_ids == g->prompts[1].ids.n_ids;
  graft_generation_progress(g, GRAFT_PHASE_ENCODE, 0, g->n_prompts);
  graft_status status = open_stage(g, &g->prompts[0], &stages[0]);
  if (status == GRAFT_OK && g->n_prompts == 2 && !is_shared) status = open_stage(g, &g->prompts[1], &stages[1]);
  for (uint32_t i = 0; i < g->n_prompts && status == GRAFT_OK; ++i) {
    status = encode(g, &g->prompts[i], &stages[is_shared ? 0 : i]);
    if (status == GRAFT_OK) status = dump_prompt(g, &g->prompts[i], i ? "negative_" : "");
    if (status == GRAFT_OK) graft_generation_progress(g, GRAFT_PHASE_ENCODE, i + 1, g->n_prompts);
  }
  graft_pipeline_stage_close(&stages[0]);
  graft_pipeline_stage_close(&stages[1]);
  return status;
}
