#include <stdio.h>
#include <stdlib.h>

#include "diffusion/pipelines/generation.h"
#include "graft/versioned.h"

void graft_generation_progress(const generation *g, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps) {
  if (g->callbacks->on_progress) g->callbacks->on_progress(g->callbacks->user, phase, n_done, n_steps);
}

void graft_generation_show_plan(const generation *g, const pipeline_stage *stage) {
  if (g->callbacks->on_plan) g->callbacks->on_plan(g->callbacks->user, stage->request.stage, stage->plan);
}

// Who is told about the steps of a run, and about which plan's.
typedef struct step_observer {
  const generation *g;
  const pipeline_stage *stage;
} step_observer;

static void observe_step(void *user, uint32_t step, bool is_end) {
  const step_observer *observer = user;
  const graft_generate_callbacks *callbacks = observer->g->callbacks;
  callbacks->on_plan_step(callbacks->user, observer->stage->request.stage, observer->stage->plan, step, is_end);
}

graft_status graft_generation_run(const generation *g, const pipeline_stage *stage) {
  step_observer observer = {g, stage};
  const graft_run_control control = {.struct_size = sizeof control,
                                     .abort = g->callbacks->abort,
                                     .abort_user = g->callbacks->user,
                                     .on_step = g->callbacks->on_plan_step ? observe_step : NULL,
                                     .on_step_user = &observer};
  return graft_plan_run(stage->plan, &control);
}

graft_status graft_generation_dump(const generation *g, const char *name, const graft_tensor_desc *desc,
                                   const void *data) {
  return g->callbacks->on_tensor ? g->callbacks->on_tensor(g->callbacks->user, name, desc, data) : GRAFT_OK;
}

float *graft_generation_values(const generation *g, size_t n, const char *what) {
  float *values = calloc(n, sizeof *values);
  if (!values) GRAFT_FAIL(g->error, GRAFT_E_NO_MEMORY, "out of memory for %s (%zu numbers)", what, n);
  return values;
}

static graft_status describe_latents(generation *g) {
  const int64_t factor = graft_pipeline_latent_factor(g->pipeline);
  const int64_t shape[4] = {g->request->n_images, g->pipeline->transformer.in_channels, g->request->height / factor,
                            g->request->width / factor};
  return graft_tensor_desc_init(GRAFT_F32, 4, shape, g->error, &g->latents_desc);
}

// Bytes that must lie in memory at once. Mapped weights of a host device may be paged in and out; all else must stay.
static graft_status measure(const generation *g, uint32_t device, const graft_device_info *info, uint64_t *out_bytes) {
  graft_stage_request request = {
      .struct_size = sizeof request, .width = g->request->width, .height = g->request->height};
  uint64_t most = 0;
  for (uint32_t i = 0; i < g->n_prompts; ++i) {
    graft_pipeline_memory memory = {.struct_size = sizeof memory};
    request.n_tokens = (int32_t)g->prompts[i].ids.n_ids;
    GRAFT_TRY(graft_pipeline_measure_device(g->pipeline, &request, device, &memory));
    uint64_t bytes = memory.peak_bytes;
    if (info->flags & GRAFT_DEVICE_HOST_MEMORY)
      bytes -= memory.constant_bytes[GRAFT_STAGE_TRANSFORMER] + memory.constant_bytes[GRAFT_STAGE_DECODER];
    if (bytes > most) most = bytes;
  }
  const uint64_t pixels = (uint64_t)g->request->width * (uint64_t)g->request->height * g->request->n_images;
  *out_bytes = most + 3 * pixels * (sizeof(float) + 1);
  return GRAFT_OK;
}

static const char *format_bytes(uint64_t bytes, char text[16]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1024;
  snprintf(text, 16, unit == 0 ? "%.0f %s" : "%.1f %s", value > 1e9 ? 1e9 : value, units[unit]);
  return text;
}

static graft_status check_memory(const generation *g, uint32_t device) {
  graft_device_info info = {.struct_size = sizeof info};
  uint64_t bytes;
  char wanted[16], there[16];
  graft_device_describe(g->pipeline->devices[device], &info);
  GRAFT_TRY(measure(g, device, &info, &bytes));
  if (info.memory_bytes == 0 || bytes <= info.memory_bytes) return GRAFT_OK;
  return GRAFT_FAIL(g->error, GRAFT_E_NO_MEMORY,
                    "%u picture%s of %dx%d would take %s of memory and %s has %s: ask for a smaller size",
                    g->request->n_images, g->request->n_images == 1 ? "" : "s", g->request->width, g->request->height,
                    format_bytes(bytes, wanted), info.name, format_bytes(info.memory_bytes, there));
}

static graft_status prepare(generation *g) {
  GRAFT_TRY(graft_pipeline_check_request(g->pipeline, g->request, g->error));
  graft_generation_progress(g, GRAFT_PHASE_PREPARE, 0, 1);
  GRAFT_TRY(describe_latents(g));
  GRAFT_TRY(graft_generation_tokenize(g));
  // What does not fit a device goes to the next: the last one must have room for what is left.
  GRAFT_TRY(check_memory(g, g->pipeline->n_devices - 1));
  graft_generation_progress(g, GRAFT_PHASE_PREPARE, 1, 1);
  return GRAFT_OK;
}

static void release(generation *g) {
  for (uint32_t i = 0; i < 2; ++i) {
    graft_token_ids_release(&g->prompts[i].ids);
    free(g->prompts[i].embeds);
    free(g->prompts[i].keep);
    free(g->flows[i]);
  }
  free(g->latents);
  graft_generate_result_release(&g->result);
}

static graft_status generate(generation *g) {
  GRAFT_TRY(prepare(g));
  GRAFT_TRY(graft_generation_encode(g));
  GRAFT_TRY(graft_generation_denoise(g));
  GRAFT_TRY(graft_generation_decode(g));
  return graft_pipeline_check_weights(g->pipeline, g->error);
}

graft_status graft_pipeline_generate(graft_pipeline *pipeline, const graft_generate_request *request,
                                     const graft_generate_callbacks *callbacks, graft_generate_result *out_result) {
  graft_error *error = graft_context_error_slot(pipeline->context);
  graft_generate_request wish = {.struct_size = sizeof wish};
  graft_generate_callbacks watcher = {.struct_size = sizeof watcher};
  GRAFT_TRY(graft_versioned_copy(&wish, sizeof wish, request, "a graft_generate_request", error));
  if (out_result->struct_size < offsetof(graft_generate_result, rgb) + sizeof out_result->rgb ||
      out_result->struct_size > GRAFT_VERSIONED_MOST_BYTES)
    return GRAFT_FAIL(error, GRAFT_E_INVALID,
                      "struct_size of a graft_generate_result is %u; set it to sizeof the struct",
                      out_result->struct_size);
  if (callbacks)
    GRAFT_TRY(graft_versioned_copy(&watcher, sizeof watcher, callbacks, "a graft_generate_callbacks", error));
  generation g = {
      .pipeline = pipeline,
      .request = &wish,
      .callbacks = &watcher,
      .error = error,
      .prompts = {{.name = "prompt", .text = wish.prompt},
                  {.name = "negative prompt", .text = wish.negative_prompt ? wish.negative_prompt : ""}},
      .n_prompts = wish.guidance > 0 ? 2 : 1,
  };
  graft_status status = generate(&g);
  if (status == GRAFT_OK) {
    graft_versioned_fill(out_result, &g.result, sizeof g.result);
    g.result = (graft_generate_result){0};
  }
  release(&g);
  return status;
}

void graft_generate_result_release(graft_generate_result *result) {
  if (!result) return;
  free(result->samples);
  free(result->rgb);
  const graft_generate_result nothing = {.struct_size = sizeof nothing};
  graft_versioned_fill(result, &nothing, sizeof nothing);
}
