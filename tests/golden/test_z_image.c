// Z-Image with random weights: two refiners of each kind, two captions of different padded lengths in one batch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/transformers/z_image.h"
#include "golden.h"

static const char config_text[] =
    "{\"dim\": 96, \"n_heads\": 3, \"n_kv_heads\": 3, \"n_layers\": 3, \"n_refiner_layers\": 2, \"cap_feat_dim\": 40,"
    " \"axes_dims\": [8, 12, 12], \"axes_lens\": [1024, 512, 512], \"in_channels\": 16}";

enum { BATCH = 2, N_IMAGE = 64, N_CAPTION = 64, N = N_IMAGE + N_CAPTION, DIM = 96, CAPTION_DIM = 40, HEAD_DIM = 32 };

typedef struct inputs {
  float caption[BATCH][N_CAPTION][CAPTION_DIM];
  float keep[BATCH][N_CAPTION];
  float rotary[BATCH][N][HEAD_DIM];
  bool mask[BATCH][N];
} inputs;

static void fill_item(inputs *in, int item, const graft_safetensors_tensor *caption, const graft_z_image_config *config,
                      const graft_z_image_shape *shape) {
  const int64_t n_padded = graft_z_image_padded(caption->shape[0]);
  memcpy(in->caption[item], caption->data, caption->bytes);
  for (int64_t i = 0; i < caption->shape[0]; ++i) in->keep[item][i] = 1;
  for (int64_t i = 0; i < N; ++i) in->mask[item][i] = i < N_IMAGE + n_padded;
  graft_z_image_rotary(config, shape, n_padded, &in->rotary[item][0][0]);
}

static void write_inputs(const golden *g, const golden_plan *plan, const graft_weights *reference,
                         const graft_z_image_config *config, const graft_z_image_shape *shape) {
  inputs *in = calloc(1, sizeof *in);
  assert_non_null(in);
  fill_item(in, 0, golden_tensor(reference, "cap0"), config, shape);
  fill_item(in, 1, golden_tensor(reference, "cap1"), config, shape);
  golden_write(g, plan, "caption", in->caption);
  golden_write(g, plan, "caption_keep", in->keep);
  golden_write(g, plan, "rotary", in->rotary);
  golden_write(g, plan, "mask", in->mask);
  golden_write(g, plan, "latents", golden_tensor(reference, "x")->data);
  golden_write(g, plan, "time", golden_tensor(reference, "t")->data);
  free(in);
}

// Rows that mean something: all of the image, and the caption up to its own padding.
static void expect_block(const golden *g, const golden_plan *plan, const graft_weights *reference, const char *name) {
  char full[64];
  snprintf(full, sizeof full, "block.%s", name);
  const graft_safetensors_tensor *want = golden_tensor(reference, full);
  float *got = golden_read(g, plan, name, NULL);
  const size_t rows = (size_t)want->shape[1];
  const bool has_caption = name[0] != 'n';
  const size_t valid[BATCH] = {has_caption ? rows - 32 : rows, rows};
  for (size_t item = 0; item < BATCH; ++item) {
    const float *wanted = (const float *)want->data + item * rows * DIM;
    golden_expect(name, got + item * rows * DIM, wanted, valid[item] * DIM, 2e-5);
  }
  free(got);
}

static void blocks_are_the_references(void **state) {
  (void)state;
  golden g = golden_open();
  graft_weights *weights = golden_weights("random/zimage_random.weights.safetensors");
  graft_weights *reference = golden_weights("random/zimage_random.case.safetensors");
  graft_json *json = golden_json(config_text);
  graft_z_image_config config;
  graft_error error = {0};
  if (graft_z_image_read(json, &error, &config) != GRAFT_OK) fail_msg("%s", error.message);

  graft_graph *graph;
  graft_model model;
  golden_check(&g, graft_graph_create(g.context, &graph));
  graft_model_init(&model, graph, weights, "");
  const graft_z_image_shape shape = {.batch = BATCH,
                                     .height = 12,
                                     .width = 20,
                                     .n_caption = N_CAPTION,
                                     .rotary_per_item = true,
                                     .has_mask = true,
                                     .with_blocks = true};
  graft_z_image_build(&model, &config, &shape);
  golden_plan plan = golden_plan_open(&g, &model);
  write_inputs(&g, &plan, reference, &config, &shape);
  golden_run(&g, &plan);

  static const char *const names[] = {"noise_refiner.0", "noise_refiner.1", "context_refiner.0", "context_refiner.1",
                                      "layers.0",        "layers.1",        "layers.2"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) expect_block(&g, &plan, reference, names[i]);
  const graft_safetensors_tensor *out = golden_tensor(reference, "out");
  float *flow = golden_read(&g, &plan, "flow", NULL);
  golden_expect("out", flow, out->data, out->bytes / sizeof(float), 2e-5);
  free(flow);
  golden_plan_close(&plan);
  graft_json_close(json);
  graft_weights_close(weights);
  graft_weights_close(reference);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_the_references)};
  return cmocka_run_group_tests_name("golden.z_image", tests, NULL, NULL);
}
