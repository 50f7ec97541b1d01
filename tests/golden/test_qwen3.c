// Qwen3 with random weights: fewer key heads than query heads, a head size of its own, padding masked.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffusion/text_encoders/qwen3.h"
#include "golden.h"

static const char config_text[] =
    "{\"hidden_size\": 64, \"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"intermediate_size\": 150, \"vocab_size\": 300, \"rope_theta\": 1000000.0,"
    " \"rms_norm_eps\": 1e-06, \"max_position_embeddings\": 512}";

enum { BATCH = 2, N_TOKENS = 17, WIDTH = 64, N_LAYERS = 3, SECOND_ROW = 9 };

static void write_inputs(const golden *g, const golden_plan *plan, const graft_qwen3_config *config,
                         const graft_weights *weights) {
  float table[N_TOKENS * 32];
  bool mask[BATCH * N_TOKENS];
  int32_t ids[BATCH * N_TOKENS];
  memcpy(ids, golden_tensor(weights, "ids")->data, sizeof ids);
  graft_qwen3_rotary(config, N_TOKENS, table);
  golden_write(g, plan, "ids", ids);
  golden_write(g, plan, "rotary", table);
  memcpy(ids, golden_tensor(weights, "mask")->data, sizeof ids);
  for (int i = 0; i < BATCH * N_TOKENS; ++i) mask[i] = ids[i] != 0;
  golden_write(g, plan, "mask", mask);
}

static void hidden_states_are_the_references(void **state) {
  (void)state;
  golden g = golden_open();
  graft_weights *weights = golden_weights("random/qwen3_random.safetensors");
  graft_json *json = golden_json(config_text);
  graft_qwen3_config config;
  graft_error error = {0};
  assert_int_equal(graft_qwen3_read(json, &error, &config), GRAFT_OK);

  graft_graph *graph;
  graft_model model;
  golden_check(&g, graft_graph_create(g.context, &graph));
  graft_model_init(&model, graph, weights, "w.");
  const graft_qwen3_shape shape = {
      .batch = BATCH, .n_tokens = N_TOKENS, .n_layers = N_LAYERS, .has_mask = true, .with_hidden = true};
  graft_qwen3_build(&model, &config, &shape);
  golden_plan plan = golden_plan_open(&g, &model);
  write_inputs(&g, &plan, &config, weights);
  golden_run(&g, &plan);

  for (int i = 0; i <= N_LAYERS; ++i) {
    char name[32];
    snprintf(name, sizeof name, "hidden.%d", i);
    const float *want = golden_tensor(weights, name)->data;
    float *got = golden_read(&g, &plan, name, NULL);
    golden_expect(name, got, want, N_TOKENS * WIDTH, 2e-5);
    // The second row's padding is nothing that anyone reads.
    golden_expect("  second row", got + N_TOKENS * WIDTH, want + N_TOKENS * WIDTH, SECOND_ROW * WIDTH, 2e-5);
    free(got);
  }
  golden_plan_close(&plan);
  graft_json_close(json);
  graft_weights_close(weights);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(hidden_states_are_the_references)};
  return cmocka_run_group_tests_name("golden.qwen3", tests, NULL, NULL);
}
