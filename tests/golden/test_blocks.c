// Every block of the shipped transformer at the first step of cat_128_nocfg.
#include <stdio.h>
#include <string.h>

#include "capture.h"

enum { N_CAPTION = 12, DIM = 384 };

// How many values of the reference count: it embeds the caption's padding too, and ends with all tokens.
static size_t n_compared(const captured *got, const graft_safetensors_tensor *want) {
  if (strcmp(got->name, "step0.cap_embedder") == 0) return N_CAPTION * DIM;
  const size_t n_got = (size_t)graft_tensor_desc_elements(&got->desc), n_want = want->bytes / sizeof(float);
  return n_got < n_want ? n_got : n_want;
}

static void blocks_are_the_references(void **state) {
  static const char *const names[] = {"t_embedder",        "x_embedder", "cap_embedder", "noise_refiner.0",
                                      "context_refiner.0", "layers.0",   "layers.1",     "layers.2",
                                      "layers.3",          "layers.4",   "layers.5",     "final_layer"};
  (void)state;
  golden g = golden_open();
  graft_pipeline *pipeline;
  capture c = {0};
  graft_weights *reference = golden_weights("emoji-zimage/cat_128_nocfg.safetensors");
  const graft_pipeline_options options = {.struct_size = sizeof options, .device = g.device};
  golden_check(&g, graft_pipeline_open(g.context, GRAFT_GOLDEN_MODEL, &options, &pipeline));
  capture_run(&c, pipeline, &g, &golden_cases[1], reference, 1, true);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    char name[64];
    snprintf(name, sizeof name, "step0.%s", names[i]);
    const captured *got = capture_find(&c, name);
    const graft_safetensors_tensor *want = golden_tensor(reference, name);
    golden_expect(names[i], got->data, want->data, n_compared(got, want), 1e-5);
  }
  capture_release(&c);
  graft_pipeline_close(pipeline);
  graft_weights_close(reference);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_the_references)};
  return cmocka_run_group_tests_name("golden.blocks", tests, NULL, NULL);
}
