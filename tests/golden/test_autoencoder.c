// Autoencoders with random weights, with and without quantisation convolutions, both ways; and the shipped one's
// encoder.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/autoencoders/autoencoder_kl.h"
#include "golden.h"

typedef struct variant {
  const char *name;
  const char *config;
} variant;

static const variant variants[] = {
    {"vae_sd",
     "{\"block_out_channels\": [16, 32], \"layers_per_block\": 2, \"latent_channels\": 4, \"norm_num_groups\": 8,"
     " \"use_quant_conv\": true, \"use_post_quant_conv\": true, \"scaling_factor\": 0.18215}"},
    {"vae_flux",
     "{\"block_out_channels\": [16, 32, 32], \"layers_per_block\": 2, \"latent_channels\": 16,"
     " \"norm_num_groups\": 16, \"use_quant_conv\": false, \"use_post_quant_conv\": false,"
     " \"scaling_factor\": 0.3611, \"shift_factor\": 0.1159}"},
};

static graft_autoencoder_config read_config(const char *text) {
  graft_json *json = golden_json(text);
  graft_autoencoder_config config;
  graft_error error = {0};
  if (graft_autoencoder_read(json, &error, &config) != GRAFT_OK) fail_msg("%s", error.message);
  graft_json_close(json);
  return config;
}

static const float *values_of(const graft_weights *weights, const char *variant_name, const char *name, size_t *out_n) {
  char full[64];
  snprintf(full, sizeof full, "%s.%s", variant_name, name);
  const graft_safetensors_tensor *tensor = golden_tensor(weights, full);
  *out_n = tensor->bytes / sizeof(float);
  return tensor->data;
}

typedef void (*build_fn)(graft_model *, const graft_autoencoder_config *, const graft_autoencoder_shape *);

static golden_plan open_plan(const golden *g, const graft_weights *weights, const char *prefix, build_fn build,
                             const graft_autoencoder_config *config, graft_autoencoder_shape shape) {
  graft_graph *graph;
  graft_model model;
  golden_check(g, graft_graph_create(g->context, &graph));
  graft_model_init(&model, graph, weights, prefix);
  build(&model, config, &shape);
  return golden_plan_open(g, &model);
}

static void expect_output(const golden *g, const golden_plan *plan, const graft_weights *weights,
                          const char *variant_name, const char *output, const char *reference) {
  size_t n_got, n_want;
  char what[64];
  const float *want = values_of(weights, variant_name, reference, &n_want);
  float *got = golden_read(g, plan, output, &n_got);
  assert_int_equal(n_got, n_want);
  snprintf(what, sizeof what, "%s.%s", variant_name, reference);
  golden_expect(what, got, want, n_want, 2e-5);
  free(got);
}

static void check_variant(const golden *g, const graft_weights *weights, const variant *v) {
  char prefix[32];
  size_t n;
  snprintf(prefix, sizeof prefix, "%s.w.", v->name);
  const graft_autoencoder_config config = read_config(v->config);
  const int64_t factor = graft_autoencoder_factor(&config);

  golden_plan encoder = open_plan(g, weights, prefix, graft_autoencoder_build_encoder, &config,
                                  (graft_autoencoder_shape){.batch = 2, .height = 40, .width = 24});
  golden_write(g, &encoder, "image", values_of(weights, v->name, "image", &n));
  golden_run(g, &encoder);
  expect_output(g, &encoder, weights, v->name, "mean", "mean");
  expect_output(g, &encoder, weights, v->name, "logvar", "logvar");
  golden_plan_close(&encoder);

  golden_plan decoder = open_plan(g, weights, prefix, graft_autoencoder_build_decoder, &config,
                                  (graft_autoencoder_shape){.batch = 2, .height = 40 / factor, .width = 24 / factor});
  golden_write(g, &decoder, "latents", values_of(weights, v->name, "mean", &n));
  golden_run(g, &decoder);
  expect_output(g, &decoder, weights, v->name, "image", "decoded");
  golden_plan_close(&decoder);
}

static void random_autoencoders_are_the_references(void **state) {
  (void)state;
  golden g = golden_open();
  graft_weights *weights = golden_weights("random/vae_random.safetensors");
  for (size_t i = 0; i < sizeof variants / sizeof variants[0]; ++i) check_variant(&g, weights, &variants[i]);
  graft_weights_close(weights);
  golden_close(&g);
}

static void the_shipped_encoder_is_the_references(void **state) {
  (void)state;
  golden g = golden_open();
  graft_error error = {0};
  graft_json *json;
  graft_weights *weights, *reference = golden_weights("emoji-zimage/cat_128_nocfg.safetensors");
  graft_autoencoder_config config;
  if (graft_weights_open(GRAFT_GOLDEN_MODEL "/vae", GRAFT_SAFETENSORS_MAP, &error, &weights) != GRAFT_OK ||
      graft_json_open(GRAFT_GOLDEN_MODEL "/vae/config.json", 1 << 20, &error, &json) != GRAFT_OK ||
      graft_autoencoder_read(json, &error, &config) != GRAFT_OK)
    fail_msg("%s", error.message);

  golden_plan plan = open_plan(&g, weights, "", graft_autoencoder_build_encoder, &config,
                               (graft_autoencoder_shape){.batch = 1, .height = 128, .width = 128});
  const graft_safetensors_tensor *image = golden_tensor(reference, "image");
  const size_t n = image->bytes / sizeof(float);
  float *clamped = malloc(image->bytes);
  assert_non_null(clamped);
  memcpy(clamped, image->data, image->bytes);
  for (size_t i = 0; i < n; ++i) clamped[i] = clamped[i] < -1 ? -1 : clamped[i] > 1 ? 1 : clamped[i];
  golden_write(&g, &plan, "image", clamped);
  free(clamped);
  golden_run(&g, &plan);

  const graft_safetensors_tensor *mean = golden_tensor(reference, "encoded_mean");
  float *got = golden_read(&g, &plan, "mean", NULL);
  golden_expect("encoded_mean", got, mean->data, mean->bytes / sizeof(float), 2e-5);
  free(got);
  golden_plan_close(&plan);
  graft_json_close(json);
  graft_weights_close(weights);
  graft_weights_close(reference);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_autoencoders_are_the_references),
      cmocka_unit_test(the_shipped_encoder_is_the_references),
  };
  return cmocka_run_group_tests_name("golden.autoencoder", tests, NULL, NULL);
}
