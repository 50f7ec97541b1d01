// diffusion.h — pictures from prompts: opens a model folder, says what it is, plans its stages and generates.
//
//   graft_pipeline *pipeline;
//   graft_pipeline_open(context, "models/emoji-zimage", NULL, &pipeline);
//   graft_generate_request request = {.struct_size = sizeof request};
//   graft_generate_request_init(pipeline, &request);       // the model's own size, steps and guidance
//   request.prompt = "a red apple on a blue background";
//   graft_generate_result result = {.struct_size = sizeof result};
//   graft_pipeline_generate(pipeline, &request, NULL, &result);
//   … result.rgb …
//   graft_generate_result_release(&result);
//   graft_pipeline_close(pipeline);
//
// Failures are described in the context's error record. A pipeline belongs to one thread at a time.
#ifndef GRAFT_DIFFUSION_H
#define GRAFT_DIFFUSION_H

#include "graft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_pipeline graft_pipeline;

// The neural networks of a pipeline, in the order in which they run.
typedef enum graft_pipeline_stage {
  GRAFT_STAGE_TEXT_ENCODER,
  GRAFT_STAGE_TRANSFORMER,
  GRAFT_STAGE_DECODER,  // the autoencoder's half that turns latents into a picture
} graft_pipeline_stage;

enum { GRAFT_N_STAGES = 3, GRAFT_MAX_PIPELINE_PARTS = 8, GRAFT_MAX_IMAGES = 1024 };

// "text encoder", "transformer", "decoder". Static storage. Thread-safe.
GRAFT_API const char *graft_pipeline_stage_name(graft_pipeline_stage stage);

// How the transformer's linear layers are computed. The int8 types quantise the layers of its blocks while they are
// loaded, rotated or not; activations are quantised row by row. With the others quantised weights become floating-point
// numbers. Sums are float32 throughout (docs/numerics.md).
typedef enum graft_weight_type {
  GRAFT_WEIGHT_AS_STORED = 0,
  GRAFT_WEIGHT_INT8_CONVROT,
  GRAFT_WEIGHT_INT8,
  GRAFT_WEIGHT_BF16,  // weights are stored as bf16
  GRAFT_WEIGHT_F32,   // weights keep the floating-point type they are stored in
  // What the model's folder recommends (`type` in graft_defaults.json), else, and for other weights than its own, as
  // stored.
  GRAFT_WEIGHT_RECOMMENDED,
  GRAFT_WEIGHT_F16,  // weights are stored as f16
} graft_weight_type;

// Finds the type called |text|: "int8_convrot", "int8", "bf16", "f16" or "f32"; false for any other text. Thread-safe.
GRAFT_API bool graft_weight_type_parse(const char *text, graft_weight_type *out_type);

// Zero-initialise, set struct_size and what differs from the defaults.
typedef struct graft_pipeline_options {
  uint32_t struct_size;
  uint32_t plan_flags;       // graft_plan_flags for every plan that the pipeline makes
  graft_device *device;      // NULL: "cpu"
  const char *force_kernel;  // as in graft_plan_options; must outlive the pipeline
  // The transformer's weights: a safetensors file or a folder that is used instead of the model's own. Names may be
  // those of diffusers or of ComfyUI, layers may be quantised (docs/quantisation.md). NULL: the model's own.
  const char *transformer;
  graft_weight_type type;
  // Several devices, best first, instead of |device|: graft_plan_options.devices of every plan. At most 16.
  graft_device *const *devices;
  uint32_t n_devices;
  // What all networks hand from layer to layer: GRAFT_F32, GRAFT_BF16 or GRAFT_F16; with the latter two weights of
  // layers become it as well. Noise, latents and pictures are f32 all the same. NULL: f32, but on a GPU f16 with the
  // type f16, and bf16 with bf16 and the int8 types.
  graft_dtype activations;
} graft_pipeline_options;

// Opens a model in the diffusers folder layout: |path| holds model_index.json, or only some of the part folders, or is
// itself a transformer's folder. Reads configurations and the tables of contents of the weight files, no weights. Parts
// may be missing: such a pipeline can be described, measured and planned as far as it goes. |options| may be NULL.
// Errors: GRAFT_E_NOT_FOUND (no model there), GRAFT_E_FORMAT (a file is broken), GRAFT_E_UNSUPPORTED (a class or an
// option of a configuration that graft does not know, or a format of quantised layers; the sentence names it and what
// is supported), GRAFT_E_IO, GRAFT_E_NO_MEMORY, GRAFT_E_INVALID (an option).
GRAFT_API GRAFT_NODISCARD graft_status graft_pipeline_open(graft_context *context, const char *path,
                                                           const graft_pipeline_options *options,
                                                           graft_pipeline **out_pipeline);

// Frees the pipeline and its plans. Graphs and plans that the caller made of its stages must be gone.
GRAFT_API void graft_pipeline_close(graft_pipeline *pipeline);

// A part of a model folder. Strings are borrowed from the pipeline. Frozen.
typedef struct graft_pipeline_part {
  const char *name;        // the folder: "transformer"
  const char *class_name;  // "ZImageTransformer2DModel", or "" where nothing says
  bool is_present;         // its configuration and, where it has weights, all weight files are there
  uint32_t n_tensors;      // 0: a part without weights
  int64_t n_parameters;
  uint64_t weight_bytes;
  const char *dtypes;  // those of the tensors, most bytes first: "bf16" or "f32, f16"
} graft_pipeline_part;

// What a pipeline is and what it can be asked for.
typedef struct graft_pipeline_info {
  uint32_t struct_size;
  const char *family;      // "Z-Image"
  const char *class_name;  // "ZImagePipeline"
  const char *path;
  int32_t width, height;  // defaults, in pixels
  int32_t n_steps;
  double guidance;
  int32_t size_multiple;          // widths and heights are multiples of this many pixels
  int32_t max_width, max_height;  // limits of the position tables; 0 without a transformer
  int32_t latent_channels;
  int32_t latent_factor;  // pixels along one side of a latent
  int32_t max_steps;
  int32_t max_tokens;    // of a formatted prompt
  int64_t n_parameters;  // of all parts that are present
  uint64_t weight_bytes;
  uint32_t n_parts;
  graft_pipeline_part parts[GRAFT_MAX_PIPELINE_PARTS];
  const char *weight_type;  // what graft_weight_type_parse takes: as asked for or recommended; NULL: as stored
} graft_pipeline_info;

GRAFT_API void graft_pipeline_describe(const graft_pipeline *pipeline, graft_pipeline_info *out_info);

// Which graph of a pipeline is meant. Zero-initialise, set struct_size.
typedef struct graft_stage_request {
  uint32_t struct_size;
  graft_pipeline_stage stage;
  int32_t width, height;  // pixels; 0: the default
  int32_t n_tokens;       // of the formatted prompt; 0: 32
  bool with_blocks;       // the transformer's inner results are outputs too
} graft_stage_request;

// Builds the graph of a stage, of batch 1, without reading weights; plan it with graft_plan_create (for a report with
// GRAFT_PLAN_MEASURE_ONLY). The caller destroys the graph; it and its plans must not outlive the pipeline.
// Errors: GRAFT_E_NOT_FOUND (that part is missing, or tensors of it are; they are listed), GRAFT_E_SHAPE (a tensor is
// not what the configuration says), GRAFT_E_INVALID (a size or token count out of range), GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_pipeline_stage_graph(graft_pipeline *pipeline,
                                                                  const graft_stage_request *request,
                                                                  graft_graph **out_graph);

// Memory that a picture needs on the device.
typedef struct graft_pipeline_memory {
  uint32_t struct_size;
  size_t peak_bytes;  // of the whole: the text encoder is gone before the transformer begins, the decoder joins it
  size_t stage_bytes[GRAFT_N_STAGES];     // the peak of each; 0 for parts that are missing
  size_t constant_bytes[GRAFT_N_STAGES];  // of these, weights that are used where they lie, or uploaded
} graft_pipeline_memory;

// Plans every stage that is there without allocating and adds up. |request->stage| is ignored.
// Errors: those of graft_pipeline_stage_graph and graft_plan_create.
GRAFT_API GRAFT_NODISCARD graft_status graft_pipeline_measure(graft_pipeline *pipeline,
                                                              const graft_stage_request *request,
                                                              graft_pipeline_memory *out_memory);

// A wish. Set struct_size, fill it with graft_generate_request_init, then change what you like. Pointers are borrowed
// for the call.
typedef struct graft_generate_request {
  uint32_t struct_size;
  uint32_t n_images;            // 1 … GRAFT_MAX_IMAGES
  const char *prompt;           // UTF-8
  const char *negative_prompt;  // UTF-8; NULL: the empty prompt. Used where the guidance is above 0
  int32_t width, height;        // pixels
  int32_t n_steps;              // 1 … info.max_steps; this many evaluations of the transformer, twice with guidance
  double guidance;              // Z-Image: positive + guidance · (positive - negative); 0 or less: no guidance
  const uint64_t *seeds;        // n_images of them; NULL: 0, 1, 2, …
  const graft_view *noise;  // f32 [n_images, channels, height / factor, width / factor], contiguous; NULL: from seeds
} graft_generate_request;

// Fills a request whose struct_size is set with the pipeline's defaults: one image, its size, steps and guidance; no
// prompt.
GRAFT_API void graft_generate_request_init(const graft_pipeline *pipeline, graft_generate_request *out_request);

typedef enum graft_generate_phase {
  GRAFT_PHASE_PREPARE,  // sizes, memory, tokenizer
  GRAFT_PHASE_ENCODE,   // text; steps are prompts
  GRAFT_PHASE_LOAD,     // planning and packing the transformer
  GRAFT_PHASE_DENOISE,  // steps are sampler steps, of all images together
  GRAFT_PHASE_DECODE,   // steps are images
} graft_generate_phase;

// How a caller watches and stops a generation. Zero-initialise, set struct_size and what is wanted. Apart from |abort|
// all are called on the thread that called graft_pipeline_generate.
typedef struct graft_generate_callbacks {
  uint32_t struct_size;
  bool dump_blocks;  // on_tensor also receives the transformer's inner results of the first step
  void *user;
  // |n_done| of |n_steps| steps of |phase| are finished; called with 0 at its beginning.
  void (*on_progress)(void *user, graft_generate_phase phase, uint32_t n_done, uint32_t n_steps);
  // True stops soon with GRAFT_E_CANCELLED. May be called from any thread; must not block.
  graft_abort_fn abort;
  // A named intermediate value, contiguous, valid during the call. A status other than GRAFT_OK ends the generation
  // with it. In order: token_ids, prompt_embeds (with guidance also negative_token_ids, negative_prompt_embeds), noise,
  // step0.<name> (dump_blocks: of the first image, positive prompt), latents_step_<k>, latents, image.
  graft_status (*on_tensor)(void *user, const char *name, const graft_tensor_desc *desc, const void *data);
  // Before and after each step of a plan, for profiles. |plan| tells what the step is (graft_plan_step).
  void (*on_plan_step)(void *user, graft_pipeline_stage stage, const graft_plan *plan, uint32_t step, bool is_end);
  // Once for each plan of a generation, before it runs for the first time. Borrowed for the call.
  void (*on_plan)(void *user, graft_pipeline_stage stage, const graft_plan *plan);
} graft_generate_callbacks;

// Pictures. Owned by the caller; released with graft_generate_result_release.
typedef struct graft_generate_result {
  uint32_t struct_size;
  uint32_t n_images;
  int32_t width, height;
  float *samples;  // [n_images, 3, height, width], about -1 … 1, not clamped
  uint8_t *rgb;    // [n_images, height, width, 3]: clamp(sample / 2 + 0.5, 0, 1) · 255, ties to even
} graft_generate_result;

// Makes pictures. Everything that can be refused is refused before weights are read: sizes (with the nearest legal
// one), step counts, a guidance that is no number, text that is no UTF-8 or too long, a request that the device's
// memory cannot hold. The same request gives the same bytes on any number of threads. Plans are kept for the next call.
// |callbacks| may be NULL. Errors: GRAFT_E_INVALID (the request), GRAFT_E_NOT_FOUND (a part of the model is missing),
// GRAFT_E_NO_MEMORY, GRAFT_E_CANCELLED, those of loading and running, and what on_tensor returns.
GRAFT_API GRAFT_NODISCARD graft_status graft_pipeline_generate(graft_pipeline *pipeline,
                                                               const graft_generate_request *request,
                                                               const graft_generate_callbacks *callbacks,
                                                               graft_generate_result *out_result);
// Frees the pictures and clears the record but for its struct_size. NULL and a zeroed record are accepted.
GRAFT_API void graft_generate_result_release(graft_generate_result *result);

#ifdef __cplusplus
}
#endif

#endif
