// pipeline_internal.h — a pipeline as its own files see it: what was found in the folder, and the plans made so far.
#ifndef GRAFT_DIFFUSION_PIPELINES_PIPELINE_INTERNAL_H
#define GRAFT_DIFFUSION_PIPELINES_PIPELINE_INTERNAL_H

#include "diffusion/autoencoders/autoencoder_kl.h"
#include "diffusion/converted.h"
#include "diffusion/samplers/flow_match_euler.h"
#include "diffusion/text_encoders/qwen3.h"
#include "diffusion/transformers/z_image.h"
#include "formats/tokenizer.h"
#include "graft/diffusion.h"

// The parts of a model folder, in the order in which they are listed.
typedef enum part_id {
  PART_TOKENIZER,
  PART_TEXT_ENCODER,
  PART_TRANSFORMER,
  PART_DECODER,
  PART_SCHEDULER,
  N_PARTS
} part_id;

typedef struct pipeline_part {
  char *folder;  // NULL: the model has no such folder
  char class_name[64];
  bool is_present;
  graft_weights *weights;
  graft_quantized *quantized;
  graft_converted *converted;
  graft_weight_source source;  // of weights, quantized and converted
  int64_t n_parameters;
  uint64_t weight_bytes;
  char dtypes[64];
} pipeline_part;

// A family of models: what graft knows about it beyond its files.
typedef struct pipeline_family {
  const char *name, *class_name;
  const char *part_names[N_PARTS];
  const char *part_classes[N_PARTS];
  int32_t width, height, n_steps;  // defaults where the model names none
  double guidance;
  int32_t latent_factor;  // where the autoencoder is missing
  int32_t max_tokens;
} pipeline_family;

// A stage ready to run: the graph names what the plan reads and writes.
typedef struct pipeline_stage {
  graft_stage_request request;
  graft_graph *graph;
  graft_plan *plan;
} pipeline_stage;

enum { MAX_TRANSFORMER_STAGES = 4, MAX_DEVICES = 16 };

struct graft_pipeline {
  graft_context *context;
  graft_device *devices[MAX_DEVICES];  // best first
  uint32_t n_devices;
  uint32_t plan_flags;
  const char *force_kernel;
  const char *transformer_path;  // while the pipeline is opened: weights used instead of the model's; NULL: none
  graft_weight_type type;
  graft_dtype activations;  // GRAFT_BF16 or GRAFT_F16; NULL: f32
  char *path;
  const pipeline_family *family;
  pipeline_part parts[N_PARTS];
  const char *text_prefix;
  graft_qwen3_config text;
  graft_z_image_config transformer;
  graft_autoencoder_config autoencoder;
  graft_flow_match_euler_config scheduler;
  double model_max_tokens;  // of the tokenizer's configuration
  int32_t width, height, n_steps;
  double guidance;
  graft_tokenizer *tokenizer;                            // opened with the first generation
  pipeline_stage *transformers[MAX_TRANSFORMER_STAGES];  // least recently used first
  uint32_t n_transformers;
  pipeline_stage decoder;
};

// part.c: what lies in one folder of the model. Zeroed parts may be released. part->source names what is known about
// the weights beforehand; |path| is where they are, NULL: in the folder.
GRAFT_NODISCARD graft_status graft_pipeline_part_open_weights(pipeline_part *part, const char *path,
                                                              graft_error *error);
void graft_pipeline_part_release(pipeline_part *part);
// That no file of weights has changed since it was opened: GRAFT_E_IO. For the end of what read them, packing or
// running.
GRAFT_NODISCARD graft_status graft_pipeline_check_weights(const graft_pipeline *pipeline, graft_error *error);

// folder.c: fills family, parts, configurations and defaults from the files below pipeline->path.
GRAFT_NODISCARD graft_status graft_pipeline_read_folder(graft_pipeline *pipeline, graft_error *error);

// limits.c: what sizes and lengths are legal.
int32_t graft_pipeline_latent_factor(const graft_pipeline *pipeline);
int32_t graft_pipeline_size_multiple(const graft_pipeline *pipeline);
int32_t graft_pipeline_max_side(const graft_pipeline *pipeline, bool is_width);
// The legal side that is nearest to |side| pixels.
int64_t graft_pipeline_nearest_side(const graft_pipeline *pipeline, int64_t side, bool is_width);
// What graft_weight_type_parse takes for |type|; NULL where weights stay as stored.
const char *graft_weight_type_name(graft_weight_type type);
int32_t graft_pipeline_max_tokens(const graft_pipeline *pipeline);
GRAFT_NODISCARD graft_status graft_pipeline_check_size(const graft_pipeline *pipeline, int64_t width, int64_t height,
                                                       graft_error *error);
GRAFT_NODISCARD graft_status graft_pipeline_check_request(const graft_pipeline *pipeline,
                                                          const graft_generate_request *request, graft_error *error);
GRAFT_NODISCARD graft_status graft_pipeline_require_part(const graft_pipeline *pipeline, part_id part,
                                                         graft_error *error);

// stage.c: graphs and plans of stages. A zeroed stage may be closed.
GRAFT_NODISCARD graft_status graft_pipeline_stage_open(graft_pipeline *pipeline, const graft_stage_request *request,
                                                       uint32_t plan_flags, pipeline_stage *out_stage);
void graft_pipeline_stage_close(pipeline_stage *stage);
// The transformer or decoder for |request| from the cache, or planned into it. Borrowed: the last two that were asked
// for stay valid. New plans are made before old ones go, so that packed weights are kept.
GRAFT_NODISCARD graft_status graft_pipeline_transformer(graft_pipeline *pipeline, const graft_stage_request *request,
                                                        pipeline_stage **out_stage);
GRAFT_NODISCARD graft_status graft_pipeline_decoder(graft_pipeline *pipeline, const graft_stage_request *request,
                                                    pipeline_stage **out_stage);
// As graft_pipeline_measure, of one of the pipeline's devices.
GRAFT_NODISCARD graft_status graft_pipeline_measure_device(graft_pipeline *pipeline, const graft_stage_request *request,
                                                           uint32_t device, graft_pipeline_memory *out_memory);
// Closes cached transformers of other sizes than |request|'s, or all of them (NULL) and the decoder.
void graft_pipeline_drop_stages(graft_pipeline *pipeline, const graft_stage_request *request);

// By name of the graph's input or output. GRAFT_E_NOT_FOUND is a fault of the caller.
GRAFT_NODISCARD graft_status graft_pipeline_stage_write(const pipeline_stage *stage, const char *input,
                                                        const void *source, size_t bytes);
GRAFT_NODISCARD graft_status graft_pipeline_stage_read(const pipeline_stage *stage, const char *output, void *target,
                                                       size_t bytes);

#endif
