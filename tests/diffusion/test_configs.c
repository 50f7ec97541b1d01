// Configurations of the networks: what is read, and what is refused by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "diffusion/autoencoders/autoencoder_kl.h"
#include "diffusion/text_encoders/qwen3.h"
#include "diffusion/transformers/z_image.h"

typedef enum network_kind { QWEN3, Z_IMAGE, AUTOENCODER } network_kind;

typedef struct refusal {
  network_kind network;
  const char *text;
  graft_status status;
  const char *named;
} refusal;

#define QWEN3_REST                                                                                   \
  "\"vocab_size\": 300, \"hidden_size\": 64, \"intermediate_size\": 150, \"num_hidden_layers\": 3, " \
  "\"num_attention_heads\": 4"
#define Z_IMAGE_REST "\"n_heads\": 3, \"n_layers\": 2, \"in_channels\": 16, \"cap_feat_dim\": 40"
#define Z_IMAGE_AXES "\"dim\": 96, \"axes_dims\": [8, 12, 12], \"axes_lens\": [64, 32, 32]"

static const refusal refusals[] = {
    {QWEN3, "{\"attention_bias\": true, " QWEN3_REST "}", GRAFT_E_UNSUPPORTED, "attention_bias"},
    {QWEN3, "{\"use_sliding_window\": true, " QWEN3_REST "}", GRAFT_E_UNSUPPORTED, "use_sliding_window"},
    {QWEN3, "{\"rope_scaling\": {\"type\": \"yarn\"}, " QWEN3_REST "}", GRAFT_E_UNSUPPORTED, "rope_scaling"},
    {QWEN3, "{\"rope_parameters\": {\"rope_type\": \"yarn\"}, " QWEN3_REST "}", GRAFT_E_UNSUPPORTED, "rope_type"},
    {QWEN3, "{\"hidden_act\": \"gelu\", " QWEN3_REST "}", GRAFT_E_UNSUPPORTED, "hidden_act"},
    {QWEN3, "{\"model_type\": \"llama\", " QWEN3_REST "}", GRAFT_E_UNSUPPORTED, "model_type"},
    {QWEN3, "{\"layer_types\": \"sliding_attention\", " QWEN3_REST "}", GRAFT_E_FORMAT, "must be a list"},
    {QWEN3, "{\"layer_types\": [\"full_attention\", \"sliding_attention\"], " QWEN3_REST "}", GRAFT_E_UNSUPPORTED,
     "layer_types"},
    {QWEN3, "{\"num_key_value_heads\": 3, " QWEN3_REST "}", GRAFT_E_FORMAT, "3"},
    {QWEN3, "{\"head_dim\": 31, " QWEN3_REST "}", GRAFT_E_FORMAT, "31"},
    {QWEN3, "{\"hidden_size\": 64}", GRAFT_E_FORMAT, "vocab_size"},
    {Z_IMAGE, "{\"siglip_feat_dim\": 1152, " Z_IMAGE_AXES ", " Z_IMAGE_REST "}", GRAFT_E_UNSUPPORTED,
     "siglip_feat_dim"},
    {Z_IMAGE, "{\"qk_norm\": false, " Z_IMAGE_AXES ", " Z_IMAGE_REST "}", GRAFT_E_UNSUPPORTED, "qk_norm"},
    {Z_IMAGE, "{\"n_kv_heads\": 1, " Z_IMAGE_AXES ", " Z_IMAGE_REST "}", GRAFT_E_UNSUPPORTED, "n_kv_heads"},
    {Z_IMAGE, "{\"all_f_patch_size\": [2], " Z_IMAGE_AXES ", " Z_IMAGE_REST "}", GRAFT_E_UNSUPPORTED,
     "all_f_patch_size"},
    {Z_IMAGE, "{\"all_patch_size\": [2, 4], " Z_IMAGE_AXES ", " Z_IMAGE_REST "}", GRAFT_E_FORMAT, "all_patch_size"},
    {Z_IMAGE, "{\"dim\": 97, \"axes_dims\": [8, 12, 12], \"axes_lens\": [64, 32, 32], " Z_IMAGE_REST "}",
     GRAFT_E_FORMAT, "axes_dims"},
    {Z_IMAGE, "{\"dim\": 96, \"axes_dims\": [9, 11, 12], \"axes_lens\": [64, 32, 32], " Z_IMAGE_REST "}",
     GRAFT_E_FORMAT, "axes_dims"},
    {Z_IMAGE, "{\"dim\": 96, \"axes_dims\": [8, 24], \"axes_lens\": [64, 32, 32], " Z_IMAGE_REST "}", GRAFT_E_FORMAT,
     "axes_dims"},
    {AUTOENCODER, "{\"block_out_channels\": [16, 32], \"norm_num_groups\": 8, \"act_fn\": \"relu\"}",
     GRAFT_E_UNSUPPORTED, "act_fn"},
    {AUTOENCODER, "{\"block_out_channels\": [16, 32], \"norm_num_groups\": 8, \"latents_mean\": [0, 0]}",
     GRAFT_E_UNSUPPORTED, "latents_mean"},
    {AUTOENCODER,
     "{\"block_out_channels\": [16, 32], \"norm_num_groups\": 8, \"up_block_types\": [\"AttnUpDecoderBlock2D\"]}",
     GRAFT_E_UNSUPPORTED, "up_block_types"},
    {AUTOENCODER, "{\"block_out_channels\": [16, 20], \"norm_num_groups\": 8}", GRAFT_E_FORMAT, "block_out_channels"},
    {AUTOENCODER, "{\"block_out_channels\": []}", GRAFT_E_FORMAT, "block_out_channels"},
    {AUTOENCODER, "{\"block_out_channels\": [32], \"scaling_factor\": 0}", GRAFT_E_FORMAT, "scaling_factor"},
};

typedef union any_config {
  graft_qwen3_config qwen3;
  graft_z_image_config z_image;
  graft_autoencoder_config autoencoder;
} any_config;

// The file lies deep in folders of odd names, which must not push the reason out of the sentence.
static graft_status read_text(network_kind network, const char *text, graft_error *error, any_config *config) {
  char path[800];
  graft_json *json;
  memset(path, '\033', sizeof path);
  snprintf(path + 700, sizeof path - 700, "/config.json");
  if (graft_json_parse(text, strlen(text), path, error, &json) != GRAFT_OK) fail_msg("%s", error->message);
  graft_status status = GRAFT_OK;
  if (network == QWEN3) status = graft_qwen3_read(json, error, &config->qwen3);
  if (network == Z_IMAGE) status = graft_z_image_read(json, error, &config->z_image);
  if (network == AUTOENCODER) status = graft_autoencoder_read(json, error, &config->autoencoder);
  graft_json_close(json);
  return status;
}

static void what_is_not_built_is_refused_by_name(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; ++i) {
    graft_error error = {0};
    any_config config;
    const graft_status status = read_text(refusals[i].network, refusals[i].text, &error, &config);
    if (status != refusals[i].status || !strstr(error.message, refusals[i].named))
      fail_msg("%s: %s: %s", refusals[i].text, graft_status_name(status), error.message);
    assert_non_null(strstr(error.message, "config.json"));
    assert_null(strchr(error.message, '\033'));
  }
}

static void defaults_are_those_of_the_libraries(void **state) {
  graft_error error = {0};
  any_config config;
  (void)state;
  assert_int_equal(read_text(QWEN3, "{" QWEN3_REST "}", &error, &config), GRAFT_OK);
  assert_int_equal(config.qwen3.n_kv_heads, 4);
  assert_int_equal(config.qwen3.head_dim, 16);
  assert_true(config.qwen3.rope_theta == 10000);
  assert_int_equal(read_text(Z_IMAGE, "{" Z_IMAGE_AXES ", " Z_IMAGE_REST "}", &error, &config), GRAFT_OK);
  assert_int_equal(config.z_image.patch, 2);
  assert_int_equal(config.z_image.n_refiner_layers, 2);
  assert_true(config.z_image.t_scale == 1000 && config.z_image.rope_theta == 256);
  assert_int_equal(read_text(AUTOENCODER, "{\"block_out_channels\": [64]}", &error, &config), GRAFT_OK);
  assert_int_equal(config.autoencoder.n_groups, 32);
  assert_true(config.autoencoder.has_quant_conv && config.autoencoder.has_mid_attention);
}

static void rope_theta_is_read_from_either_place(void **state) {
  graft_error error = {0};
  any_config config;
  (void)state;
  const char *nested = "{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5000.0}, " QWEN3_REST "}";
  assert_int_equal(read_text(QWEN3, nested, &error, &config), GRAFT_OK);
  assert_true(config.qwen3.rope_theta == 5000);
  assert_int_equal(read_text(QWEN3, "{\"rope_theta\": 1e6, " QWEN3_REST "}", &error, &config), GRAFT_OK);
  assert_true(config.qwen3.rope_theta == 1e6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_not_built_is_refused_by_name),
      cmocka_unit_test(defaults_are_those_of_the_libraries),
      cmocka_unit_test(rope_theta_is_read_from_either_place),
  };
  return cmocka_run_group_tests_name("diffusion.configs", tests, NULL, NULL);
}
