#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/pipelines/pipeline_internal.h"
#include "formats/excerpt.h"
#include "formats/file.h"

static const pipeline_family families[] = {{
    .name = "Z-Image",
    .class_name = "ZImagePipeline",
    .part_names = {"tokenizer", "text_encoder", "transformer", "vae", "scheduler"},
    .part_classes = {"Qwen2Tokenizer", "Qwen3Model", "ZImageTransformer2DModel", "AutoencoderKL",
                     "FlowMatchEulerDiscreteScheduler"},
    .width = 1024,
    .height = 1024,
    .n_steps = 28,
    .guidance = 4,
    .latent_factor = 8,
    .max_tokens = 512,
}};

// Opens `folder/name`. A missing file is no failure and gives NULL; one that may not be looked at is not missing.
static graft_status open_json(const char *folder, const char *name, graft_error *error, graft_json **out_json) {
  char *path;
  graft_error details;
  *out_json = NULL;
  GRAFT_TRY(graft_file_join(folder, name, error, &path));
  graft_status status = graft_json_open(path, GRAFT_JSON_MAX_CONFIG_BYTES, &details, out_json);
  free(path);
  if (status == GRAFT_E_NOT_FOUND) return GRAFT_OK;
  if (status != GRAFT_OK) *error = details;
  return status;
}

static graft_status fail_class(const graft_json *json, const char *part, const char *found, const char *wanted,
                               graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "%s: the %s class %s is not supported; supported is %s",
                    graft_excerpt_path(graft_json_origin(json)).text, part, graft_excerpt_name(found).text, wanted);
}

// Other spellings of the same thing: with a language model's head, or the tokenizer's faster program.
static bool is_same_class(const char *found, const char *wanted) {
  if (strcmp(found, wanted) == 0) return true;
  if (strcmp(wanted, "Qwen3Model") == 0) return strcmp(found, "Qwen3ForCausalLM") == 0;
  return strcmp(wanted, "Qwen2Tokenizer") == 0 && strcmp(found, "Qwen2TokenizerFast") == 0;
}

static graft_status read_index_part(graft_pipeline *pipeline, const graft_json *json, part_id id, graft_error *error) {
  const char *name = pipeline->family->part_names[id], *wanted = pipeline->family->part_classes[id];
  const json_t *entry = graft_json_find(json, name);
  if (!entry) return GRAFT_OK;
  const char *found = json_string_value(json_array_get(entry, 1));
  if (json_is_array(entry) && json_is_null(json_array_get(entry, 1))) return GRAFT_OK;
  if (!found)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `%s` must be a list of a library and a class",
                      graft_excerpt_path(graft_json_origin(json)).text, name);
  if (!is_same_class(found, wanted)) return fail_class(json, name, found, wanted, error);
  snprintf(pipeline->parts[id].class_name, sizeof pipeline->parts[id].class_name, "%s", found);
  return GRAFT_OK;
}

static graft_status read_index(graft_pipeline *pipeline, const graft_json *json, graft_error *error) {
  const char *class_name;
  GRAFT_TRY(graft_json_get_string(json, "_class_name", NULL, error, &class_name));
  pipeline->family = NULL;
  for (size_t i = 0; i < sizeof families / sizeof families[0]; ++i)
    if (strcmp(class_name, families[i].class_name) == 0) pipeline->family = &families[i];
  if (!pipeline->family) return fail_class(json, "pipeline", class_name, families[0].class_name, error);
  for (int id = 0; id < N_PARTS; ++id) GRAFT_TRY(read_index_part(pipeline, json, (part_id)id, error));
  return GRAFT_OK;
}

static graft_status read_config(graft_pipeline *pipeline, part_id id, const graft_json *json, graft_error *error) {
  pipeline_part *part = &pipeline->parts[id];
  const char *wanted = pipeline->family->part_classes[id], *class_name;
  GRAFT_TRY(graft_json_get_string(json, "_class_name", wanted, error, &class_name));
  if (!is_same_class(class_name, wanted))
    return fail_class(json, pipeline->family->part_names[id], class_name, wanted, error);
  if (!part->class_name[0]) snprintf(part->class_name, sizeof part->class_name, "%s", class_name);
  if (id == PART_TEXT_ENCODER) return graft_qwen3_read(json, error, &pipeline->text);
  if (id == PART_TRANSFORMER) return graft_z_image_read(json, error, &pipeline->transformer);
  if (id == PART_DECODER) return graft_autoencoder_read(json, error, &pipeline->autoencoder);
  return graft_flow_match_euler_read(json, error, &pipeline->scheduler);
}

static graft_status read_configured_part(graft_pipeline *pipeline, part_id id, graft_error *error) {
  pipeline_part *part = &pipeline->parts[id];
  graft_json *json;
  GRAFT_TRY(open_json(part->folder, id == PART_SCHEDULER ? "scheduler_config.json" : "config.json", error, &json));
  if (!json) return GRAFT_OK;
  graft_status status = read_config(pipeline, id, json, error);
  graft_json_close(json);
  GRAFT_TRY(status);
  part->source.activations = pipeline->activations;
  if (id == PART_TRANSFORMER) {
    part->source.profile = &graft_z_image_profile;
    part->source.type = pipeline->type;
    return graft_pipeline_part_open_weights(part, pipeline->transformer_path, error);
  }
  if (id != PART_SCHEDULER) return graft_pipeline_part_open_weights(part, NULL, error);
  part->is_present = true;
  return GRAFT_OK;
}

static graft_status read_tokenizer(graft_pipeline *pipeline, graft_error *error) {
  pipeline_part *part = &pipeline->parts[PART_TOKENIZER];
  static const char *const files[] = {"tokenizer.json", "vocab.json"};
  for (size_t i = 0; i < sizeof files / sizeof files[0] && !part->is_present; ++i) {
    char *path;
    GRAFT_TRY(graft_file_join(part->folder, files[i], error, &path));
    part->is_present = graft_file_exists(path);
    free(path);
  }
  graft_json *json;
  GRAFT_TRY(open_json(part->folder, "tokenizer_config.json", error, &json));
  if (!json) return GRAFT_OK;
  const graft_json_number_rule rule = {.min = 1, .max = 1e300, .otherwise = pipeline->model_max_tokens};
  graft_status status = graft_json_get_number(json, "model_max_length", rule, error, &pipeline->model_max_tokens);
  graft_json_close(json);
  return status;
}

static graft_status read_part(graft_pipeline *pipeline, part_id id, graft_error *error) {
  pipeline_part *part = &pipeline->parts[id];
  if (!part->folder) {
    GRAFT_TRY(graft_file_join(pipeline->path, pipeline->family->part_names[id], error, &part->folder));
    if (!graft_file_is_folder(part->folder)) {
      free(part->folder);
      part->folder = NULL;
      return GRAFT_OK;
    }
  }
  return id == PART_TOKENIZER ? read_tokenizer(pipeline, error) : read_configured_part(pipeline, id, error);
}

// Parts that were made for each other agree in these numbers.
static graft_status check_parts(const graft_pipeline *pipeline, graft_error *error) {
  const pipeline_part *parts = pipeline->parts;
  const graft_z_image_config *t = &pipeline->transformer;
  if (!parts[PART_TRANSFORMER].is_present) return GRAFT_OK;
  if (parts[PART_TEXT_ENCODER].is_present && pipeline->text.hidden_size != t->caption_dim)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s: the text encoder gives %lld numbers a token and the transformer takes %lld: these parts do "
                      "not belong together",
                      graft_excerpt_path(pipeline->path).text, (long long)pipeline->text.hidden_size,
                      (long long)t->caption_dim);
  if (parts[PART_DECODER].is_present &&
      (pipeline->autoencoder.latent_channels != t->in_channels || pipeline->autoencoder.out_channels != 3))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s: the autoencoder has %lld latent and %lld colour channels, and %lld and 3 are needed: these "
                      "parts do not belong together",
                      graft_excerpt_path(pipeline->path).text, (long long)pipeline->autoencoder.latent_channels,
                      (long long)pipeline->autoencoder.out_channels, (long long)t->in_channels);
  return GRAFT_OK;
}

static graft_status read_default(const graft_json *json, const char *key, graft_error *error, int32_t *value) {
  int64_t wide;
  const graft_json_int_rule rule = {.min = 1, .max = INT_MAX, .otherwise = *value};
  GRAFT_TRY(graft_json_get_int(json, key, rule, error, &wide));
  *value = (int32_t)wide;
  return GRAFT_OK;
}

static graft_status read_default_values(graft_pipeline *pipeline, const graft_json *json, graft_error *error) {
  GRAFT_TRY(read_default(json, "width", error, &pipeline->width));
  GRAFT_TRY(read_default(json, "height", error, &pipeline->height));
  GRAFT_TRY(read_default(json, "steps", error, &pipeline->n_steps));
  const graft_json_number_rule rule = {.min = -1e6, .max = 1e6, .otherwise = pipeline->guidance};
  return graft_json_get_number(json, "guidance", rule, error, &pipeline->guidance);
}

// graft_defaults.json, optional, beside model_index.json: width, height, steps and guidance that suit the model.
static graft_status read_defaults(graft_pipeline *pipeline, graft_error *error) {
  graft_json *json;
  pipeline->width = (int32_t)graft_pipeline_nearest_side(pipeline, pipeline->family->width, true);
  pipeline->height = (int32_t)graft_pipeline_nearest_side(pipeline, pipeline->family->height, false);
  pipeline->n_steps = pipeline->family->n_steps;
  pipeline->guidance = pipeline->family->guidance;
  GRAFT_TRY(open_json(pipeline->path, "graft_defaults.json", error, &json));
  if (!json) return GRAFT_OK;
  graft_status status = read_default_values(pipeline, json, error);
  graft_json_close(json);
  return status;
}

static const char *const weight_type_names[] = {[GRAFT_WEIGHT_INT8_CONVROT] = "int8_convrot",
                                                [GRAFT_WEIGHT_INT8] = "int8",
                                                [GRAFT_WEIGHT_BF16] = "bf16",
                                                [GRAFT_WEIGHT_F32] = "f32",
                                                [GRAFT_WEIGHT_F16] = "f16"};

bool graft_weight_type_parse(const char *text, graft_weight_type *out_type) {
  for (size_t i = 0; i < sizeof weight_type_names / sizeof weight_type_names[0]; ++i) {
    if (weight_type_names[i] == NULL || strcmp(text, weight_type_names[i]) != 0) continue;
    *out_type = (graft_weight_type)i;
    return true;
  }
  return false;
}

const char *graft_weight_type_name(graft_weight_type type) {
  return weight_type_names[type];
}

static graft_status find_recommended_type(graft_pipeline *pipeline, graft_error *error) {
  graft_json *json;
  const char *name = "";
  if (pipeline->type != GRAFT_WEIGHT_RECOMMENDED) return GRAFT_OK;
  pipeline->type = GRAFT_WEIGHT_AS_STORED;
  if (pipeline->transformer_path) return GRAFT_OK;
  GRAFT_TRY(open_json(pipeline->path, "graft_defaults.json", error, &json));
  if (!json) return GRAFT_OK;
  graft_status status = graft_json_get_string(json, "type", "", error, &name);
  if (status == GRAFT_OK && name[0] && !graft_weight_type_parse(name, &pipeline->type))
    status = GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `type` must be int8_convrot, int8, bf16, f16 or f32, found %s",
                        graft_excerpt_path(graft_json_origin(json)).text, graft_excerpt_name(name).text);
  graft_json_close(json);
  return status;
}

static void choose_activations(graft_pipeline *pipeline) {
  if (pipeline->activations == NULL)
    pipeline->activations = graft_weight_type_activations(pipeline->type, pipeline->devices[0]);
  if (pipeline->activations == GRAFT_F32) pipeline->activations = NULL;
}

// Without an index, a transformer's own folder is a model too: enough to plan it.
static graft_status find_transformer(graft_pipeline *pipeline, graft_error *error) {
  graft_json *json;
  GRAFT_TRY(open_json(pipeline->path, "config.json", error, &json));
  if (!json) return GRAFT_OK;
  graft_json_close(json);
  pipeline->parts[PART_TRANSFORMER].folder = strdup(pipeline->path);
  if (!pipeline->parts[PART_TRANSFORMER].folder) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "out of memory");
  return GRAFT_OK;
}

graft_status graft_pipeline_read_folder(graft_pipeline *pipeline, graft_error *error) {
  graft_json *json;
  if (!graft_file_exists(pipeline->path))
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: there is no such folder", graft_excerpt_path(pipeline->path).text);
  if (!graft_file_is_folder(pipeline->path))
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: a model is a folder with a model_index.json, and this is a file",
                      graft_excerpt_path(pipeline->path).text);
  pipeline->family = &families[0];
  pipeline->model_max_tokens = pipeline->family->max_tokens;
  pipeline->scheduler = (graft_flow_match_euler_config){.n_train_timesteps = 1000, .shift = 1};
  GRAFT_TRY(open_json(pipeline->path, "model_index.json", error, &json));
  bool has_any = json != NULL;
  if (json) {
    graft_status status = read_index(pipeline, json, error);
    graft_json_close(json);
    GRAFT_TRY(status);
  } else {
    GRAFT_TRY(find_transformer(pipeline, error));
  }
  GRAFT_TRY(find_recommended_type(pipeline, error));
  choose_activations(pipeline);
  for (int id = 0; id < N_PARTS; ++id) {
    GRAFT_TRY(read_part(pipeline, (part_id)id, error));
    has_any = has_any || pipeline->parts[id].is_present;
  }
  if (!has_any)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND,
                      "%s: neither model_index.json nor a transformer with config.json and weights is there: not a "
                      "model in the diffusers layout",
                      graft_excerpt_path(pipeline->path).text);
  if (pipeline->transformer_path && !pipeline->parts[PART_TRANSFORMER].weights)
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "%s: there is no transformer/config.json that says how to use %s",
                      graft_excerpt_path(pipeline->path).text, graft_excerpt_path(pipeline->transformer_path).text);
  GRAFT_TRY(check_parts(pipeline, error));
  return read_defaults(pipeline, error);
}
