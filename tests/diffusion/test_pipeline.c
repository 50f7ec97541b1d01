// Folders that are models, half of one, or none; and parts that do not fit together.
#include "studio.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// A folder and a context without a pipeline.
typedef struct site {
  temp_folder folder;
  graft_context *context;
} site;

static site site_open(const tiny_fault *fault) {
  site s = {.folder = temp_folder_create()};
  tiny_model_write(&s.folder, fault);
  assert_int_equal(graft_context_create(NULL, NULL, &s.context), GRAFT_OK);
  return s;
}

static void site_close(site *s) {
  graft_context_destroy(s->context);
  temp_folder_remove(&s->folder);
}

static void expect_message(const site *s, graft_status found, graft_status wanted, const char *part) {
  const char *message = graft_context_error(s->context)->message;
  if (found != wanted || !strstr(message, part))
    fail_msg("wanted %s with '%s', found %s: %s", graft_status_name(wanted), part, graft_status_name(found), message);
}

static void expect_open_refused(const site *s, const char *path, graft_status wanted, const char *part) {
  graft_pipeline *pipeline = NULL;
  expect_message(s, graft_pipeline_open(s->context, path, NULL, &pipeline), wanted, part);
  assert_null(pipeline);
}

static graft_pipeline *open_pipeline(const site *s) {
  graft_pipeline *pipeline;
  if (graft_pipeline_open(s->context, s->folder.path, NULL, &pipeline) != GRAFT_OK)
    fail_msg("%s", graft_context_error(s->context)->message);
  return pipeline;
}

static graft_status generate(graft_pipeline *pipeline) {
  graft_generate_request request = {.struct_size = sizeof request};
  graft_generate_result result = {.struct_size = sizeof result};
  graft_generate_request_init(pipeline, &request);
  request.prompt = "a cat";
  const graft_status status = graft_pipeline_generate(pipeline, &request, NULL, &result);
  if (status == GRAFT_OK) graft_generate_result_release(&result);
  return status;
}

static void a_whole_model_describes_itself(void **state) {
  (void)state;
  site s = site_open(NULL);
  graft_pipeline *pipeline = open_pipeline(&s);
  graft_pipeline_info info = {.struct_size = sizeof info};
  graft_pipeline_describe(pipeline, &info);
  assert_string_equal(info.family, "Z-Image");
  assert_string_equal(info.class_name, "ZImagePipeline");
  assert_int_equal(info.width, 16);
  assert_int_equal(info.n_steps, 2);
  assert_true(info.guidance == 2);
  assert_int_equal(info.size_multiple, TINY_MULTIPLE);
  assert_int_equal(info.max_width, TINY_MAX_SIDE);
  assert_int_equal(info.max_height, TINY_MAX_SIDE);
  assert_int_equal(info.latent_channels, TINY_CHANNELS);
  assert_int_equal(info.latent_factor, TINY_FACTOR);
  assert_int_equal(info.max_steps, 1000);
  assert_int_equal(info.max_tokens, 96);
  assert_int_equal(info.n_parts, 5);
  for (uint32_t i = 0; i < info.n_parts; ++i) assert_true(info.parts[i].is_present);
  assert_string_equal(info.parts[1].name, "text_encoder");
  assert_string_equal(info.parts[1].dtypes, "f32");
  assert_int_equal(info.parts[1].n_tensors, 2 + 2 * 11);
  assert_int_equal(info.weight_bytes, 4 * info.n_parameters);
  assert_int_equal(generate(pipeline), GRAFT_OK);
  graft_pipeline_close(pipeline);
  site_close(&s);
}

static void missing_parts_are_named(void **state) {
  static const char *const parts[] = {"tokenizer", "text_encoder", "transformer", "vae", "scheduler"};
  (void)state;
  for (size_t i = 0; i < 5; ++i) {
    site s = site_open(NULL);
    const temp_path from = temp_folder_join(&s.folder, parts[i]), to = temp_folder_join(&s.folder, "elsewhere");
    assert_int_equal(rename(from.text, to.text), 0);
    graft_pipeline *pipeline = open_pipeline(&s);
    graft_pipeline_info info = {.struct_size = sizeof info};
    graft_pipeline_describe(pipeline, &info);
    for (size_t k = 0; k < 5; ++k) assert_int_equal(info.parts[k].is_present, k != i);
    expect_message(&s, generate(pipeline), GRAFT_E_NOT_FOUND, parts[i]);
    graft_pipeline_close(pipeline);
    site_close(&s);
  }
}

static void a_part_without_weights_is_incomplete(void **state) {
  (void)state;
  site s = site_open(NULL);
  assert_int_equal(remove(temp_folder_join(&s.folder, "vae/diffusion_pytorch_model.safetensors").text), 0);
  graft_pipeline *pipeline = open_pipeline(&s);
  expect_message(&s, generate(pipeline), GRAFT_E_NOT_FOUND, "incomplete");
  graft_pipeline_close(pipeline);
  site_close(&s);
}

static void a_transformer_alone_can_be_planned(void **state) {
  (void)state;
  site s = site_open(NULL);
  graft_pipeline *pipeline;
  const temp_path path = temp_folder_join(&s.folder, "transformer");
  assert_int_equal(graft_pipeline_open(s.context, path.text, NULL, &pipeline), GRAFT_OK);
  // Without an autoencoder the family's factor of 8 counts.
  const graft_stage_request request = {
      .struct_size = sizeof request, .stage = GRAFT_STAGE_TRANSFORMER, .width = 64, .height = 32};
  graft_pipeline_memory memory = {.struct_size = sizeof memory};
  assert_int_equal(graft_pipeline_measure(pipeline, &request, &memory), GRAFT_OK);
  assert_true(memory.constant_bytes[GRAFT_STAGE_TRANSFORMER] > 0 && memory.stage_bytes[GRAFT_STAGE_DECODER] == 0);
  assert_true(memory.peak_bytes > 0 && memory.peak_bytes == memory.stage_bytes[GRAFT_STAGE_TRANSFORMER]);
  graft_graph *graph;
  assert_int_equal(graft_pipeline_stage_graph(pipeline, &request, &graph), GRAFT_OK);
  assert_non_null(graft_graph_find_output(graph, "flow"));
  graft_graph_destroy(graph);
  expect_message(&s, generate(pipeline), GRAFT_E_NOT_FOUND, "missing");
  graft_pipeline_close(pipeline);
  site_close(&s);
}

static void what_is_no_model_is_refused(void **state) {
  (void)state;
  site s = site_open(NULL);
  const temp_folder empty = temp_folder_create();
  expect_open_refused(&s, "", GRAFT_E_INVALID, "no name");
  expect_open_refused(&s, temp_folder_join(&s.folder, "nowhere").text, GRAFT_E_NOT_FOUND, "no such folder");
  expect_open_refused(&s, temp_folder_join(&s.folder, "model_index.json").text, GRAFT_E_NOT_FOUND, "is a file");
  expect_open_refused(&s, empty.path, GRAFT_E_NOT_FOUND, "not a model");
  temp_folder_remove(&empty);
  site_close(&s);
}

typedef struct broken_file {
  const char *path, *text;
  graft_status status;
  const char *named;
} broken_file;

static void broken_and_foreign_files_are_refused(void **state) {
  static const broken_file files[] = {
      {"model_index.json", "{\"_class_name\": \"FluxPipeline\"}", GRAFT_E_UNSUPPORTED, "FluxPipeline"},
      {"model_index.json", "{\"_class_name\": \"ZImagePipeline\", \"vae\": [\"diffusers\", \"AutoencoderTiny\"]}",
       GRAFT_E_UNSUPPORTED, "AutoencoderTiny"},
      {"model_index.json", "{\"_class_name\": \"ZImagePipeline\", \"vae\": 3}", GRAFT_E_FORMAT, "vae"},
      {"model_index.json", "{\"vae\": 3}", GRAFT_E_FORMAT, "_class_name"},
      {"model_index.json", "{\"_class_name\":", GRAFT_E_FORMAT, "model_index.json"},
      {"model_index.json", "[]", GRAFT_E_FORMAT, "model_index.json"},
      {"transformer/config.json", "{\"_class_name\": \"FluxTransformer2DModel\"}", GRAFT_E_UNSUPPORTED,
       "FluxTransformer2DModel"},
      {"transformer/config.json", "{}", GRAFT_E_FORMAT, "dim"},
      {"vae/config.json", "", GRAFT_E_FORMAT, "vae/config.json"},
      {"scheduler/scheduler_config.json", "{\"_class_name\": \"DDIMScheduler\"}", GRAFT_E_UNSUPPORTED, "DDIMScheduler"},
      {"text_encoder/model.safetensors", "nonsense", GRAFT_E_FORMAT, "model.safetensors"},
      {"tokenizer/tokenizer_config.json", "{\"model_max_length\": 0}", GRAFT_E_FORMAT, "model_max_length"},
      {"graft_defaults.json", "{\"steps\": \"many\"}", GRAFT_E_FORMAT, "steps"},
      {"text_encoder/config.json",
       "{\"vocab_size\": 260, \"hidden_size\": 16, \"intermediate_size\": 12, \"num_hidden_layers\": 2,"
       " \"num_attention_heads\": 2}",
       GRAFT_E_FORMAT, "do not belong together"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; ++i) {
    site s = site_open(NULL);
    temp_folder_write_text(&s.folder, files[i].path, files[i].text);
    expect_open_refused(&s, s.folder.path, files[i].status, files[i].named);
    site_close(&s);
  }
}

typedef struct tensor_fault {
  tiny_fault fault;
  graft_status status;
  const char *sentence;
} tensor_fault;

static void options_that_mean_nothing_are_refused(void **state) {
  (void)state;
  site s = site_open(NULL);
  graft_device *const devices[2] = {NULL};
  const graft_pipeline_options wrong[] = {
      {.struct_size = sizeof wrong[0], .type = (graft_weight_type)(GRAFT_WEIGHT_F16 + 1)},
      {.struct_size = sizeof wrong[0], .devices = devices, .n_devices = 2},
      {.struct_size = sizeof wrong[0], .n_devices = 1},
  };
  const char *const says[] = {"no graft_weight_type", "device 0 of the pipeline's 2 is NULL", "1 to 16 devices"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    graft_pipeline *pipeline = NULL;
    expect_message(&s, graft_pipeline_open(s.context, s.folder.path, &wrong[i], &pipeline), GRAFT_E_INVALID, says[i]);
    assert_null(pipeline);
  }
  site_close(&s);
}

static void wrong_tensors_are_named(void **state) {
  static const tensor_fault faults[] = {
      {{.dropped = "layers.0.attention.to_v.weight"},
       GRAFT_E_NOT_FOUND,
       "1 tensor is missing: layers.0.attention.to_v.weight"},
      {{.dropped = "model.layers.0.mlp.up_proj.weight"}, GRAFT_E_NOT_FOUND, "model.layers.0.mlp.up_proj.weight"},
      {{.dropped = "decoder.conv_out.bias"}, GRAFT_E_NOT_FOUND, "decoder.conv_out.bias"},
      {{.dropped = "t_embedder.mlp.0.weight"}, GRAFT_E_NOT_FOUND, "t_embedder.mlp.0.weight"},
      {{.reshaped = "cap_embedder.1.weight"}, GRAFT_E_SHAPE, "should be [16, 8]"},
      {{.reshaped = "decoder.mid_block.resnets.0.conv1.weight"}, GRAFT_E_SHAPE, "should be [8, 8, 3, 3]"},
      {{.reshaped = "model.embed_tokens.weight"}, GRAFT_E_SHAPE, "is [261, 8] in the file"},
      {{.integer = "x_pad_token"}, GRAFT_E_UNSUPPORTED, "x_pad_token"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; ++i) {
    site s = site_open(&faults[i].fault);
    graft_pipeline *pipeline = open_pipeline(&s);
    graft_status status = generate(pipeline);
    // Padding of the image is only used where its tokens are no multiple of 32: at 16x16 they are 16.
    expect_message(&s, status, faults[i].status, faults[i].sentence);
    graft_pipeline_close(pipeline);
    site_close(&s);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_whole_model_describes_itself),        cmocka_unit_test(missing_parts_are_named),
      cmocka_unit_test(a_part_without_weights_is_incomplete),  cmocka_unit_test(a_transformer_alone_can_be_planned),
      cmocka_unit_test(what_is_no_model_is_refused),           cmocka_unit_test(broken_and_foreign_files_are_refused),
      cmocka_unit_test(options_that_mean_nothing_are_refused), cmocka_unit_test(wrong_tensors_are_named),
  };
  return cmocka_run_group_tests_name("diffusion.pipeline", tests, NULL, NULL);
}
