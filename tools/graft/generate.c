// graft generate — a prompt becomes a picture.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/atomic_file.h"
#include "formats/png.h"
#include "formats/safetensors.h"
#include "graft/diffusion.h"
#include "tools/graft/device_list.h"
#include "tools/graft/dump.h"
#include "tools/graft/placement.h"
#include "tools/graft/profile.h"
#include "tools/graft/progress.h"
#include "tools/graft/tool.h"
#include "tools/graft/weight_type.h"

enum { MAX_BATCH = GRAFT_MAX_IMAGES };

typedef struct wishes {
  const char *prompt, *negative, *model, *output, *noise, *dump, *profile, *transformer, *type, *fusion, *devices;
  int64_t n_steps, n_images, n_threads, size[2];
  double guidance;
  uint64_t seed;
  bool has_steps, has_size, has_guidance, dump_blocks, is_quiet;
} wishes;

// What callbacks share.
typedef struct session {
  tool_progress progress;
  tool_profile *profile;
  tool_placement placement;
  tool_dump dump;
  bool wants_dump, is_quiet;
  graft_error *error;
  uint32_t n_written;  // pictures
} session;

static void on_progress(void *user, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps) {
  session *s = user;
  if (!s->is_quiet) tool_progress_report(&s->progress, phase, n_done, n_steps);
}

static graft_status on_tensor(void *user, const char *name, const graft_tensor_desc *desc, const void *data) {
  session *s = user;
  return tool_dump_add(&s->dump, name, desc, data, s->error);
}

static void on_plan_step(void *user, graft_pipeline_stage stage, const graft_plan *plan, uint32_t step, bool is_end) {
  session *s = user;
  tool_profile_step(s->profile, stage, plan, step, is_end);
}

static void on_plan(void *user, graft_pipeline_stage stage, const graft_plan *plan) {
  session *s = user;
  (void)stage;
  tool_placement_add(&s->placement, plan);
}

// "picture.png" for one image, "picture-2.png" for the second of several.
static graft_status image_path(const wishes *w, uint32_t index, graft_error *error, char path[TOOL_PATH_BYTES]) {
  size_t stem = strlen(w->output) - 4;
  int n = w->n_images == 1
              ? snprintf(path, TOOL_PATH_BYTES, "%s", w->output)
              : snprintf(path, TOOL_PATH_BYTES, "%.*s-%u%s", (int)stem, w->output, index + 1, w->output + stem);
  if (n < 0 || n >= TOOL_PATH_BYTES) return GRAFT_FAIL(error, GRAFT_E_INVALID, "the output path is too long");
  return GRAFT_OK;
}

// Fails now rather than after minutes of work when a file cannot be written.
static graft_status probe(const char *path, graft_error *error) {
  if (path == NULL) return GRAFT_OK;
  graft_atomic_file *file = NULL;
  GRAFT_TRY(graft_atomic_file_begin(path, error, &file));
  graft_atomic_file_abort(file);
  return GRAFT_OK;
}

static graft_status probe_outputs(const wishes *w, graft_error *error) {
  char path[TOOL_PATH_BYTES];
  for (uint32_t i = 0; i < w->n_images; ++i) {
    GRAFT_TRY(image_path(w, i, error, path));
    GRAFT_TRY(probe(path, error));
  }
  GRAFT_TRY(probe(w->dump, error));
  return probe(w->profile, error);
}

// The request as text, in the form that picture viewers of this field know.
static char *describe(const wishes *w, const graft_generate_request *request, uint64_t seed) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&text, &bytes);
  if (stream == NULL) return NULL;
  fprintf(stream, "%s\n", request->prompt);
  if (request->guidance > 0)
    fprintf(stream, "Negative prompt: %s\n", request->negative_prompt == NULL ? "" : request->negative_prompt);
  fprintf(stream, "Steps: %d, Sampler: Euler, CFG scale: %g, ", request->n_steps, request->guidance);
  if (w->noise == NULL) fprintf(stream, "Seed: %llu, ", (unsigned long long)seed);
  fprintf(stream, "Size: %dx%d, Version: graft %s", request->width, request->height, graft_version());
  if (fclose(stream) != 0) {
    free(text);
    return NULL;
  }
  return text;
}

static graft_status write_image(const wishes *w, const graft_generate_request *request,
                                const graft_generate_result *result, uint32_t index, graft_error *error) {
  char path[TOOL_PATH_BYTES];
  GRAFT_TRY(image_path(w, index, error, path));
  char *text = describe(w, request, request->seeds[index]);
  if (text == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to write %s", path);
  size_t row_bytes = 3 * (size_t)result->width;
  graft_png_image image = {.width = result->width,
                           .height = result->height,
                           .row_bytes = row_bytes,
                           .pixels = result->rgb + index * row_bytes * (size_t)result->height};
  graft_png_text remark = {.key = "parameters", .value = text};
  graft_status status = graft_png_write(path, &image, &remark, 1, error);
  free(text);
  if (status == GRAFT_OK && !w->is_quiet) fprintf(stderr, "graft: wrote %s\n", path);
  return status;
}

static graft_status write_outputs(const wishes *w, const graft_generate_request *request, session *s,
                                  const graft_generate_result *result) {
  for (; s->n_written < result->n_images; ++s->n_written) {
    if (tool_is_interrupted(NULL)) return GRAFT_FAIL(s->error, GRAFT_E_CANCELLED, "interrupted");
    GRAFT_TRY(write_image(w, request, result, s->n_written, s->error));
  }
  if (w->dump != NULL) GRAFT_TRY(tool_dump_write(&s->dump, w->dump, s->error));
  if (w->profile != NULL) GRAFT_TRY(tool_profile_write(s->profile, w->profile, s->error));
  return GRAFT_OK;
}

static graft_status generate(graft_pipeline *pipeline, const wishes *w, const graft_generate_request *request,
                             session *s) {
  graft_generate_callbacks callbacks = {.struct_size = sizeof callbacks,
                                        .dump_blocks = w->dump_blocks,
                                        .user = s,
                                        .on_progress = on_progress,
                                        .on_plan = on_plan,
                                        .abort = tool_is_interrupted};
  if (w->dump != NULL) callbacks.on_tensor = on_tensor;
  if (w->profile != NULL) {
    GRAFT_TRY(tool_profile_create(s->error, &s->profile));
    callbacks.on_plan_step = on_plan_step;
  }
  tool_progress_begin(&s->progress);
  graft_generate_result result = {.struct_size = sizeof result};
  graft_status status = graft_pipeline_generate(pipeline, request, &callbacks, &result);
  tool_progress_end(&s->progress);
  if (status == GRAFT_OK && !w->is_quiet) tool_placement_print(&s->placement);
  if (status == GRAFT_OK) status = write_outputs(w, request, s, &result);
  graft_generate_result_release(&result);
  if (status == GRAFT_OK && !w->is_quiet)
    fprintf(stderr, "graft: done in %.2f s\n", tool_progress_elapsed(&s->progress));
  return status;
}

// Opens the noise file and points |out_view| at its tensor. The file stays open while the view is used.
static graft_status open_noise(const char *path, graft_error *error, graft_safetensors **out_file,
                               graft_view *out_view) {
  graft_safetensors *file = NULL;
  const graft_safetensors_tensor *tensor = NULL;
  GRAFT_TRY(graft_safetensors_open(path, GRAFT_SAFETENSORS_READ, error, &file));
  graft_status status = graft_safetensors_require(file, "noise", error, &tensor);
  if (status == GRAFT_OK && tensor->dtype != GRAFT_F32)
    status = GRAFT_FAIL(error, GRAFT_E_INVALID, "%s: `noise` must be F32, not %s", path, tensor->dtype_name);
  if (status == GRAFT_OK)
    status = graft_tensor_desc_init(GRAFT_F32, tensor->rank, tensor->shape, error, &out_view->desc);
  if (status != GRAFT_OK) {
    graft_safetensors_close(file);
    return status;
  }
  out_view->data = (void *)(uintptr_t)tensor->data;
  *out_file = file;
  return GRAFT_OK;
}

static void fill_request(const graft_pipeline *pipeline, const wishes *w, graft_generate_request *request) {
  graft_generate_request_init(pipeline, request);
  request->prompt = w->prompt;
  request->negative_prompt = w->negative;
  request->n_images = (uint32_t)w->n_images;
  if (w->has_steps) request->n_steps = w->n_steps < INT32_MAX ? (int32_t)w->n_steps : INT32_MAX;
  if (w->has_guidance) request->guidance = w->guidance;
  if (!w->has_size) return;
  request->width = (int32_t)w->size[0];
  request->height = (int32_t)w->size[1];
}

// What of several files there is although the command failed.
static void tell_what_is_written(const wishes *w, uint32_t n_written) {
  char first[TOOL_PATH_BYTES], last[TOOL_PATH_BYTES];
  const uint32_t n = (uint32_t)w->n_images;
  if (image_path(w, 0, NULL, first) != GRAFT_OK || image_path(w, n_written - 1, NULL, last) != GRAFT_OK) return;
  fprintf(stderr, "graft: %u of %u picture%s %s written: %s%s%s", (unsigned)n_written, (unsigned)n, tool_s(n),
          n_written == 1 ? "was" : "were", first, n_written > 1 ? " to " : "", n_written > 1 ? last : "");
  if (n_written < n && image_path(w, n_written, NULL, first) == GRAFT_OK &&
      image_path(w, n - 1, NULL, last) == GRAFT_OK)
    fprintf(stderr, "; not %s%s%s", first, n - n_written > 1 ? " to " : "", n - n_written > 1 ? last : "");
  fprintf(stderr, "\n");
}

static int report(const wishes *w, const session *s) {
  if (s->n_written == 0) return tool_report(s->error);
  const bool is_interrupted = s->error->status == GRAFT_E_CANCELLED && tool_is_interrupted(NULL);
  if (is_interrupted) fprintf(stderr, "graft: interrupted\n");
  const int code = is_interrupted ? TOOL_INTERRUPTED : tool_report(s->error);
  tell_what_is_written(w, s->n_written);
  return code;
}

static graft_status run_request(graft_context *context, const char *model, const wishes *w, graft_weight_type type,
                                session *s) {
  graft_error *error = s->error;
  GRAFT_TRY(probe_outputs(w, error));
  uint64_t seeds[MAX_BATCH];
  for (int64_t i = 0; i < w->n_images; ++i) seeds[i] = w->seed + (uint64_t)i;
  graft_pipeline *pipeline = NULL;
  graft_safetensors *noise_file = NULL;
  graft_view noise = {0};
  tool_device_list devices = {.n = 0};
  graft_pipeline_options options = {.struct_size = sizeof options, .transformer = w->transformer, .type = type};
  graft_status status = tool_device_list_open(context, w->devices, &devices);
  options.devices = devices.items;
  options.n_devices = devices.n;
  if (status == GRAFT_OK) status = graft_pipeline_open(context, model, &options, &pipeline);
  if (status == GRAFT_OK && w->noise != NULL) status = open_noise(w->noise, error, &noise_file, &noise);
  if (status == GRAFT_OK) {
    graft_generate_request request = {.struct_size = sizeof request};
    fill_request(pipeline, w, &request);
    request.seeds = seeds;
    if (w->noise != NULL) request.noise = &noise;
    status = generate(pipeline, w, &request, s);
  }
  tool_profile_destroy(s->profile);
  tool_dump_release(&s->dump);
  graft_safetensors_close(noise_file);
  graft_pipeline_close(pipeline);
  return status;
}

static bool is_same(const char *path, const char *other) {
  return path != NULL && other != NULL && strcmp(path, other) == 0;
}

static int check(const tool_command *self, const wishes *w) {
  if (w->prompt == NULL) return tool_usage(self, "say what to draw: graft generate -p \"a red apple\"");
  size_t n = strlen(w->output);
  if (n < 5 || strcmp(w->output + n - 4, ".png") != 0)
    return tool_usage(self, "-o takes a file name that ends in .png; got '%s'", w->output);
  if (is_same(w->dump, w->output) || is_same(w->profile, w->output) || is_same(w->profile, w->dump))
    return tool_usage(self, "-o, --dump and --profile need names of their own");
  if (w->seed > UINT64_MAX - (uint64_t)(w->n_images - 1))
    return tool_usage(self, "--seed %llu with --batch %lld: the last seed would be beyond 18446744073709551615",
                      (unsigned long long)w->seed, (long long)w->n_images);
  if (w->dump_blocks && w->dump == NULL) return tool_usage(self, "--dump-blocks needs --dump FILE.safetensors");
  return TOOL_PARSED;
}

static int run(const tool_command *self, int argc, char **argv) {
  wishes w = {.output = "graft.png", .n_images = 1};
  const double any = 1e9;
  const tool_option options[] = {
      {"prompt", 'p', TOOL_TEXT, "TEXT", "What to draw.", &w.prompt, 0, 0, NULL},
      {"negative", 'n', TOOL_TEXT, "TEXT", "What to stay away from.", &w.negative, 0, 0, NULL},
      {"output", 'o', TOOL_TEXT, "FILE.png", "Where to write (default: graft.png; several: graft-1.png, …).", &w.output,
       0, 0, NULL},
      {"model", 'm', TOOL_TEXT, "FOLDER", "Model in the diffusers layout (default: the one that ships with graft).",
       &w.model, 0, 0, NULL},
      {"device", 0, TOOL_TEXT, "NAMES", TOOL_DEVICES_HELP, &w.devices, 0, 0, NULL},
      {"transformer", 0, TOOL_TEXT, "FILE", TOOL_TRANSFORMER_HELP, &w.transformer, 0, 0, NULL},
      {"type", 0, TOOL_TEXT, "TYPE", TOOL_TYPE_HELP, &w.type, 0, 0, NULL},
      {"steps", 0, TOOL_INT, "N", "Sampler steps (default: the model's).", &w.n_steps, 1, TOOL_NO_LIMIT, &w.has_steps},
      {"guidance", 0, TOOL_REAL, "G",
       "How strongly to follow the prompt; 0 is off and twice as fast (default: the model's).", &w.guidance, -1e6, 1e6,
       &w.has_guidance},
      {"seed", 0, TOOL_SEED, "S", "Which noise to begin with (default: 0). The same seed gives the same picture.",
       &w.seed, 0, 0, NULL},
      {"batch", 0, TOOL_INT, "N", "Number of pictures, with seeds S, S+1, … (default: 1).", &w.n_images, 1, MAX_BATCH,
       NULL},
      {"size", 0, TOOL_SIZE, "WxH", "Size in pixels (default: the model's).", w.size, -any, any, &w.has_size},
      {"threads", 0, TOOL_INT, "N", "CPU threads (default: all cores). Does not change the picture.", &w.n_threads, 1,
       1024, NULL},
      {"fusion", 0, TOOL_TEXT, "RULES", "on, off, or fusion rules to leave out: -swiglu,-gated_residual.", &w.fusion, 0,
       0, NULL},
      {"noise", 0, TOOL_TEXT, "FILE", "Begin with tensor `noise` of a safetensors file, F32 [N, channels, H/8, W/8].",
       &w.noise, 0, 0, NULL},
      {"dump", 0, TOOL_TEXT, "FILE", "Also write intermediate tensors to a safetensors file.", &w.dump, 0, 0, NULL},
      {"dump-blocks", 0, TOOL_FLAG, NULL, "With --dump: also each transformer block's output of step 0.",
       &w.dump_blocks, 0, 0, NULL},
      {"profile", 0, TOOL_TEXT, "FILE.json", "Also write a Chrome trace of every operator.", &w.profile, 0, 0, NULL},
      {"quiet", 'q', TOOL_FLAG, NULL, "No progress.", &w.is_quiet, 0, 0, NULL},
  };
  int parsed = tool_parse(self, argc, argv, options, sizeof options / sizeof options[0], NULL, 0, NULL);
  graft_weight_type type = GRAFT_WEIGHT_AS_STORED;
  if (parsed == TOOL_PARSED) parsed = check(self, &w);
  if (parsed == TOOL_PARSED) parsed = tool_weight_type(self, w.type, &type);
  if (parsed != TOOL_PARSED) return parsed;
  char model[TOOL_PATH_BYTES];
  if (!tool_find_model(w.model, model)) return TOOL_FAILED;
  tool_catch_interrupt();
  graft_context *context = tool_open_planning_context(&(tool_planning){w.n_threads, w.fusion, w.devices});
  if (context == NULL) return TOOL_FAILED;
  session s = {.is_quiet = w.is_quiet, .error = graft_context_error_slot(context)};
  graft_status status = run_request(context, model, &w, type, &s);
  int code = status == GRAFT_OK ? TOOL_OK : report(&w, &s);
  graft_context_destroy(context);
  return code;
}

const tool_command tool_generate = {"generate", "Draws a picture from a prompt.", "-p TEXT [OPTIONS]", run};
