#include <stdlib.h>
#include <string.h>

#include "diffusion/pipelines/pipeline_internal.h"
#include "graft/versioned.h"

enum { DEFAULT_TOKENS = 32 };

static const part_id stage_parts[GRAFT_N_STAGES] = {PART_TEXT_ENCODER, PART_TRANSFORMER, PART_DECODER};

const char *graft_pipeline_stage_name(graft_pipeline_stage stage) {
  static const char *const names[GRAFT_N_STAGES] = {"text encoder", "transformer", "decoder"};
  return (uint32_t)stage < GRAFT_N_STAGES ? names[stage] : "unknown";
}

static graft_status resolve(const graft_pipeline *pipeline, const graft_stage_request *request,
                            graft_stage_request *out_request) {
  graft_error *error = graft_context_error_slot(pipeline->context);
  graft_stage_request r = *request;
  if ((uint32_t)r.stage >= GRAFT_N_STAGES) return GRAFT_FAIL(error, GRAFT_E_INVALID, "there is no stage %d", r.stage);
  if (r.width == 0) r.width = pipeline->width;
  if (r.height == 0) r.height = pipeline->height;
  if (r.n_tokens == 0) r.n_tokens = DEFAULT_TOKENS;
  GRAFT_TRY(graft_pipeline_require_part(pipeline, stage_parts[r.stage], error));
  GRAFT_TRY(graft_pipeline_check_size(pipeline, r.width, r.height, error));
  const int32_t max_tokens = graft_pipeline_max_tokens(pipeline);
  if (r.n_tokens < 1 || r.n_tokens > max_tokens)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "a prompt has 1 to %d tokens, not %d", max_tokens, r.n_tokens);
  *out_request = r;
  return GRAFT_OK;
}

static void build_text_encoder(graft_pipeline *pipeline, const graft_stage_request *r, graft_model *model) {
  const int64_t all = pipeline->text.n_layers;
  // The pipeline reads hidden_states[-2]: what goes into the last layer.
  const graft_qwen3_shape shape = {.batch = 1, .n_tokens = r->n_tokens, .n_layers = all - 1};
  graft_qwen3_build(model, &pipeline->text, &shape);
}

static graft_z_image_shape transformer_shape(const graft_pipeline *pipeline, const graft_stage_request *r) {
  const int64_t factor = graft_pipeline_latent_factor(pipeline);
  return (graft_z_image_shape){.batch = 1,
                               .height = r->height / factor,
                               .width = r->width / factor,
                               .n_caption = graft_z_image_padded(r->n_tokens),
                               .with_blocks = r->with_blocks};
}

static void build_decoder(graft_pipeline *pipeline, const graft_stage_request *r, graft_model *model) {
  const int64_t factor = graft_pipeline_latent_factor(pipeline);
  const graft_autoencoder_shape shape = {.batch = 1, .height = r->height / factor, .width = r->width / factor};
  graft_autoencoder_build_decoder(model, &pipeline->autoencoder, &shape);
}

static graft_status build(graft_pipeline *pipeline, const graft_stage_request *r, graft_graph **out_graph) {
  graft_graph *graph;
  GRAFT_TRY(graft_graph_create(pipeline->context, &graph));
  const char *prefix = r->stage == GRAFT_STAGE_TEXT_ENCODER ? pipeline->text_prefix : "";
  graft_model model;
  graft_model_init_source(&model, graph, &pipeline->parts[stage_parts[r->stage]].source, prefix);
  if (r->stage == GRAFT_STAGE_TEXT_ENCODER) build_text_encoder(pipeline, r, &model);
  if (r->stage == GRAFT_STAGE_DECODER) build_decoder(pipeline, r, &model);
  if (r->stage == GRAFT_STAGE_TRANSFORMER) {
    const graft_z_image_shape shape = transformer_shape(pipeline, r);
    graft_z_image_build(&model, &pipeline->transformer, &shape);
  }
  graft_status status = graft_model_finish(&model);
  if (status != GRAFT_OK) {
    graft_graph_destroy(graph);
    return status;
  }
  *out_graph = graph;
  return GRAFT_OK;
}

static graft_status fill_converted(graft_pipeline *pipeline, const graft_stage_request *r) {
  return graft_converted_fill(pipeline->parts[stage_parts[r->stage]].converted, pipeline->devices[0],
                              graft_context_error_slot(pipeline->context));
}

graft_status graft_pipeline_stage_graph(graft_pipeline *pipeline, const graft_stage_request *request,
                                        graft_graph **out_graph) {
  graft_stage_request given, resolved = {0};
  graft_error *error = graft_context_error_slot(pipeline->context);
  GRAFT_TRY(graft_versioned_copy(&given, sizeof given, request, "a graft_stage_request", error));
  GRAFT_TRY(resolve(pipeline, &given, &resolved));
  GRAFT_TRY(fill_converted(pipeline, &resolved));
  return build(pipeline, &resolved, out_graph);
}

graft_status graft_pipeline_stage_write(const pipeline_stage *stage, const char *input, const void *source,
                                        size_t bytes) {
  uint32_t index;
  GRAFT_TRY(graft_plan_find_input(stage->plan, input, &index));
  return graft_plan_write(stage->plan, index, source, bytes);
}

graft_status graft_pipeline_stage_read(const pipeline_stage *stage, const char *output, void *target, size_t bytes) {
  uint32_t index;
  GRAFT_TRY(graft_plan_find_output(stage->plan, output, &index));
  return graft_plan_read(stage->plan, index, target, bytes);
}

// Positions do not change between runs, so they are written once.
static graft_status write_positions(graft_pipeline *pipeline, const pipeline_stage *stage) {
  const graft_stage_request *r = &stage->request;
  if (r->stage == GRAFT_STAGE_DECODER) return GRAFT_OK;
  const graft_z_image_shape shape = transformer_shape(pipeline, r);
  const bool is_text = r->stage == GRAFT_STAGE_TEXT_ENCODER;
  const int64_t n_image = is_text ? 0 : graft_z_image_n_image_tokens(&pipeline->transformer, &shape);
  const int64_t n = is_text ? r->n_tokens : n_image + shape.n_caption;
  const int64_t head_dim = is_text ? pipeline->text.head_dim : pipeline->transformer.head_dim;
  const size_t bytes = (size_t)n * (size_t)head_dim * sizeof(float);
  float *table = malloc(bytes);
  if (!table)
    return GRAFT_FAIL(graft_context_error_slot(pipeline->context), GRAFT_E_NO_MEMORY,
                      "out of memory for the positions of %lld tokens", (long long)n);
  if (is_text) graft_qwen3_rotary(&pipeline->text, n, table);
  else graft_z_image_rotary(&pipeline->transformer, &shape, shape.n_caption, table);
  graft_status status = graft_pipeline_stage_write(stage, "rotary", table, bytes);
  free(table);
  return status;
}

graft_status graft_pipeline_stage_open(graft_pipeline *pipeline, const graft_stage_request *request,
                                       uint32_t plan_flags, pipeline_stage *out_stage) {
  pipeline_stage stage = {0};
  GRAFT_TRY(resolve(pipeline, request, &stage.request));
  graft_status status = build(pipeline, &stage.request, &stage.graph);
  if (status == GRAFT_OK && !(plan_flags & GRAFT_PLAN_MEASURE_ONLY)) status = fill_converted(pipeline, &stage.request);
  if (status != GRAFT_OK) goto fail;
  const graft_plan_options options = {.struct_size = sizeof options,
                                      .flags = pipeline->plan_flags | plan_flags,
                                      .devices = pipeline->devices,
                                      .n_devices = pipeline->n_devices,
                                      .force_kernel = pipeline->force_kernel};
  status = graft_plan_create(stage.graph, &options, &stage.plan);
  if (status != GRAFT_OK) goto fail;
  if (!(plan_flags & GRAFT_PLAN_MEASURE_ONLY)) status = write_positions(pipeline, &stage);
  if (status == GRAFT_OK && !(plan_flags & GRAFT_PLAN_MEASURE_ONLY))
    status = graft_pipeline_check_weights(pipeline, graft_context_error_slot(pipeline->context));
  if (status != GRAFT_OK) goto fail;
  *out_stage = stage;
  return GRAFT_OK;
fail:
  graft_pipeline_stage_close(&stage);
  return status;
}

void graft_pipeline_stage_close(pipeline_stage *stage) {
  graft_plan_destroy(stage->plan);
  graft_graph_destroy(stage->graph);
  *stage = (pipeline_stage){0};
}

static bool has_size(const pipeline_stage *stage, const graft_stage_request *request) {
  return stage->request.width == request->width && stage->request.height == request->height;
}

void graft_pipeline_drop_stages(graft_pipeline *pipeline, const graft_stage_request *request) {
  uint32_t n_kept = 0;
  for (uint32_t i = 0; i < pipeline->n_transformers; ++i) {
    pipeline_stage *stage = pipeline->transformers[i];
    if (request && has_size(stage, request)) {
      pipeline->transformers[n_kept++] = stage;
    } else {
      graft_pipeline_stage_close(stage);
      free(stage);
    }
  }
  pipeline->n_transformers = n_kept;
  if (!request) graft_pipeline_stage_close(&pipeline->decoder);
}

static pipeline_stage *find_transformer(graft_pipeline *pipeline, const graft_stage_request *request) {
  for (uint32_t i = 0; i < pipeline->n_transformers; ++i) {
    pipeline_stage *stage = pipeline->transformers[i];
    if (!has_size(stage, request) || stage->request.with_blocks != request->with_blocks) continue;
    if (graft_z_image_padded(stage->request.n_tokens) != graft_z_image_padded(request->n_tokens)) continue;
    for (; i + 1 < pipeline->n_transformers; ++i) pipeline->transformers[i] = pipeline->transformers[i + 1];
    pipeline->transformers[i] = stage;
    return stage;
  }
  return NULL;
}

graft_status graft_pipeline_transformer(graft_pipeline *pipeline, const graft_stage_request *request,
                                        pipeline_stage **out_stage) {
  pipeline_stage *stage = find_transformer(pipeline, request);
  if (!stage) {
    stage = calloc(1, sizeof *stage);
    if (!stage)
      return GRAFT_FAIL(graft_context_error_slot(pipeline->context), GRAFT_E_NO_MEMORY, "out of memory for a plan");
    graft_status status = graft_pipeline_stage_open(pipeline, request, 0, stage);
    if (status != GRAFT_OK) {
      free(stage);
      return status;
    }
    if (pipeline->n_transformers == MAX_TRANSFORMER_STAGES) {
      graft_pipeline_stage_close(pipeline->transformers[0]);
      free(pipeline->transformers[0]);
      --pipeline->n_transformers;
      memmove(pipeline->transformers, pipeline->transformers + 1, pipeline->n_transformers * sizeof(pipeline_stage *));
    }
    pipeline->transformers[pipeline->n_transformers++] = stage;
  }
  *out_stage = stage;
  return GRAFT_OK;
}

graft_status graft_pipeline_decoder(graft_pipeline *pipeline, const graft_stage_request *request,
                                    pipeline_stage **out_stage) {
  if (!pipeline->decoder.plan || !has_size(&pipeline->decoder, request)) {
    pipeline_stage stage;
    GRAFT_TRY(graft_pipeline_stage_open(pipeline, request, 0, &stage));
    graft_pipeline_stage_close(&pipeline->decoder);
    pipeline->decoder = stage;
  }
  *out_stage = &pipeline->decoder;
  return GRAFT_OK;
}
