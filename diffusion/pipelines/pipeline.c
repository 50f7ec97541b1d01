#include <stdlib.h>
#include <string.h>

#include "diffusion/pipelines/pipeline_internal.h"
#include "graft/versioned.h"

static graft_status fail_memory(graft_context *context) {
  return GRAFT_FAIL(graft_context_error_slot(context), GRAFT_E_NO_MEMORY, "out of memory while opening a model");
}

// What is wrong with the list itself a plan says.
static graft_status set_devices(graft_pipeline *pipeline, const graft_pipeline_options *options, graft_error *error) {
  if (options->n_devices > MAX_DEVICES || (options->n_devices > 0 && !options->devices))
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "a pipeline takes 1 to %d devices, not %u", MAX_DEVICES,
                      options->n_devices);
  pipeline->n_devices = options->n_devices;
  for (uint32_t i = 0; i < options->n_devices; ++i) {
    if (!options->devices[i])
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "device %u of the pipeline's %u is NULL", i, options->n_devices);
    pipeline->devices[i] = options->devices[i];
  }
  if (options->n_devices == 0 && options->device) pipeline->devices[pipeline->n_devices++] = options->device;
  if (!options->device || options->device == pipeline->devices[0]) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "device is not the first of devices; leave it NULL");
}

static graft_status set_options(graft_pipeline *pipeline, const graft_pipeline_options *given) {
  graft_pipeline_options options;
  graft_error *error = graft_context_error_slot(pipeline->context);
  if (given) {
    GRAFT_TRY(graft_versioned_copy(&options, sizeof options, given, "a graft_pipeline_options", error));
    pipeline->plan_flags = options.plan_flags;
    GRAFT_TRY(set_devices(pipeline, &options, error));
    pipeline->force_kernel = options.force_kernel;
    pipeline->transformer_path = options.transformer;
    pipeline->type = options.type;
    pipeline->activations = options.activations;
  }
  if ((unsigned)pipeline->type > GRAFT_WEIGHT_F16)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "%d is no graft_weight_type", (int)pipeline->type);
  if (pipeline->activations != NULL && pipeline->activations != GRAFT_F32 && pipeline->activations != GRAFT_BF16 &&
      pipeline->activations != GRAFT_F16)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "activations are f32, bf16 or f16, not %s", pipeline->activations->name);
  if (pipeline->n_devices > 0) return GRAFT_OK;
  GRAFT_TRY(graft_device_open(pipeline->context, "cpu", &pipeline->devices[0]));
  pipeline->n_devices = 1;
  return GRAFT_OK;
}

graft_status graft_pipeline_open(graft_context *context, const char *path, const graft_pipeline_options *options,
                                 graft_pipeline **out_pipeline) {
  graft_error *error = graft_context_error_slot(context);
  if (!path || !*path) return GRAFT_FAIL(error, GRAFT_E_INVALID, "the model's folder has no name");
  graft_pipeline *pipeline = calloc(1, sizeof *pipeline);
  if (!pipeline) return fail_memory(context);
  pipeline->context = context;
  pipeline->text_prefix = "";
  pipeline->path = strdup(path);
  graft_status status = pipeline->path ? set_options(pipeline, options) : fail_memory(context);
  if (status == GRAFT_OK) status = graft_pipeline_read_folder(pipeline, error);
  pipeline->transformer_path = NULL;
  if (status != GRAFT_OK) {
    graft_pipeline_close(pipeline);
    return status;
  }
  const graft_weights *text = pipeline->parts[PART_TEXT_ENCODER].weights;
  if (text && graft_weights_find(text, "model.embed_tokens.weight")) pipeline->text_prefix = "model.";
  *out_pipeline = pipeline;
  return GRAFT_OK;
}

void graft_pipeline_close(graft_pipeline *pipeline) {
  if (!pipeline) return;
  graft_pipeline_drop_stages(pipeline, NULL);
  graft_tokenizer_close(pipeline->tokenizer);
  for (int id = 0; id < N_PARTS; ++id) graft_pipeline_part_release(&pipeline->parts[id]);
  free(pipeline->path);
  free(pipeline);
}

void graft_pipeline_describe(const graft_pipeline *pipeline, graft_pipeline_info *out_info) {
  const bool has_limit = pipeline->parts[PART_TRANSFORMER].is_present;
  graft_pipeline_info info = {
      .struct_size = sizeof info,
      .family = pipeline->family->name,
      .class_name = pipeline->family->class_name,
      .path = pipeline->path,
      .width = pipeline->width,
      .height = pipeline->height,
      .n_steps = pipeline->n_steps,
      .guidance = pipeline->guidance,
      .size_multiple = graft_pipeline_size_multiple(pipeline),
      .max_width = has_limit ? graft_pipeline_max_side(pipeline, true) : 0,
      .max_height = has_limit ? graft_pipeline_max_side(pipeline, false) : 0,
      .latent_channels = (int32_t)pipeline->transformer.in_channels,
      .latent_factor = graft_pipeline_latent_factor(pipeline),
      .max_steps = pipeline->scheduler.n_train_timesteps,
      .max_tokens = graft_pipeline_max_tokens(pipeline),
      .n_parts = N_PARTS,
      .weight_type = graft_weight_type_name(pipeline->type),
  };
  for (int id = 0; id < N_PARTS; ++id) {
    const pipeline_part *part = &pipeline->parts[id];
    info.parts[id] = (graft_pipeline_part){
        .name = pipeline->family->part_names[id],
        .class_name = part->class_name,
        .is_present = part->is_present,
        .n_tensors = part->weights ? (uint32_t)graft_weights_count(part->weights) : 0,
        .n_parameters = part->n_parameters,
        .weight_bytes = part->weight_bytes,
        .dtypes = part->dtypes,
    };
    info.n_parameters += part->n_parameters;
    info.weight_bytes += part->weight_bytes;
  }
  graft_versioned_fill(out_info, &info, sizeof info);
}

enum { ALL_DEVICES = MAX_DEVICES };

static graft_status measure(graft_pipeline *pipeline, const graft_stage_request *request, uint32_t device,
                            graft_pipeline_memory *out_memory) {
  static const part_id parts[GRAFT_N_STAGES] = {PART_TEXT_ENCODER, PART_TRANSFORMER, PART_DECODER};
  graft_pipeline_memory memory = {.struct_size = sizeof memory};
  graft_stage_request wanted;
  GRAFT_TRY(graft_versioned_copy(&wanted, sizeof wanted, request, "a graft_stage_request",
                                 graft_context_error_slot(pipeline->context)));
  for (int i = 0; i < GRAFT_N_STAGES; ++i) {
    if (!pipeline->parts[parts[i]].is_present) continue;
    wanted.stage = (graft_pipeline_stage)i;
    pipeline_stage stage;
    GRAFT_TRY(graft_pipeline_stage_open(pipeline, &wanted, GRAFT_PLAN_MEASURE_ONLY, &stage));
    graft_memory_report report = {.struct_size = sizeof report};
    if (device == ALL_DEVICES) graft_plan_memory(stage.plan, &report);
    else graft_plan_device_memory(stage.plan, device, &report);
    memory.stage_bytes[i] = report.peak_bytes;
    memory.constant_bytes[i] = report.constant_bytes;
    graft_pipeline_stage_close(&stage);
  }
  const size_t text = memory.stage_bytes[GRAFT_STAGE_TEXT_ENCODER];
  const size_t picture = memory.stage_bytes[GRAFT_STAGE_TRANSFORMER] + memory.stage_bytes[GRAFT_STAGE_DECODER];
  memory.peak_bytes = text > picture ? text : picture;
  graft_versioned_fill(out_memory, &memory, sizeof memory);
  return GRAFT_OK;
}

graft_status graft_pipeline_measure(graft_pipeline *pipeline, const graft_stage_request *request,
                                    graft_pipeline_memory *out_memory) {
  return measure(pipeline, request, ALL_DEVICES, out_memory);
}

graft_status graft_pipeline_measure_device(graft_pipeline *pipeline, const graft_stage_request *request,
                                           uint32_t device, graft_pipeline_memory *out_memory) {
  return measure(pipeline, request, device, out_memory);
}

void graft_generate_request_init(const graft_pipeline *pipeline, graft_generate_request *out_request) {
  const graft_generate_request request = {
      .struct_size = sizeof request,
      .n_images = 1,
      .width = pipeline->width,
      .height = pipeline->height,
      .n_steps = pipeline->n_steps,
      .guidance = pipeline->guidance,
  };
  graft_versioned_fill(out_request, &request, sizeof request);
}
