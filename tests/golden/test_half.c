// Pictures whose networks hand 16-bit numbers from layer to layer, against those of float32.
#include <stdio.h>
#include <stdlib.h>

#include "capture.h"

typedef struct form {
  graft_dtype activations;
  graft_weight_type type;
  double bound;  // dB
} form;

static void check(const form *f, const golden_case *c) {
  char name[64];
  golden g = golden_open();
  graft_pipeline *pipeline;
  capture twenty = {0};
  snprintf(name, sizeof name, "emoji-zimage/%s.safetensors", c->name);
  graft_weights *reference = golden_weights(name);
  const graft_pipeline_options options = {
      .struct_size = sizeof options, .device = g.device, .activations = f->activations, .type = f->type};
  golden_check(&g, graft_pipeline_open(g.context, GRAFT_GOLDEN_MODEL, &options, &pipeline));
  capture_run(&twenty, pipeline, &g, c, reference, 20, false);
  const graft_safetensors_tensor *want = golden_tensor(reference, "image"),
                                 *latents = golden_tensor(reference, "latents_20");
  const captured *got = capture_find(&twenty, "image");
  assert_ptr_equal(got->desc.dtype, GRAFT_F32);
  assert_int_equal(graft_tensor_desc_bytes(&got->desc), want->bytes);
  const double decibels = golden_psnr(got->data, want->data, want->bytes / sizeof(float));
  print_message("    %s in %s: %.1f dB, at least %.0f; latents %.2e\n", c->name, f->activations->name, decibels,
                f->bound,
                golden_error(capture_find(&twenty, "latents")->data, latents->data, latents->bytes / sizeof(float)));
  assert_true(decibels >= f->bound);
  // It was another computation, not float32 under another name.
  assert_true(decibels < 100);
  capture_release(&twenty);
  graft_pipeline_close(pipeline);
  graft_weights_close(reference);
  golden_close(&g);
}

static void check_all(const form *f) {
  // On the CPU references do what no kernel of it can; the smallest picture is enough there.
  check(f, &golden_cases[1]);
  if (getenv("GRAFT_TEST_DEVICE") == NULL) return;
  check(f, &golden_cases[2]);
  check(f, &golden_cases[0]);
}

static void pictures_in_bf16_are_close(void **state) {
  (void)state;
  check_all(&(form){GRAFT_BF16, GRAFT_WEIGHT_AS_STORED, 35});
}

static void pictures_in_f16_are_close(void **state) {
  (void)state;
  check_all(&(form){GRAFT_F16, GRAFT_WEIGHT_AS_STORED, 35});
}

// The bound of int8 with float32 between layers (docs/quantisation.md).
static void pictures_in_int8_and_bf16_are_close(void **state) {
  (void)state;
  check_all(&(form){GRAFT_BF16, GRAFT_WEIGHT_INT8_CONVROT, 31});
}

static void other_activations_are_refused(void **state) {
  (void)state;
  golden g = golden_open();
  graft_pipeline *pipeline = NULL;
  const graft_pipeline_options options = {.struct_size = sizeof options, .device = g.device, .activations = GRAFT_I8};
  assert_int_equal(graft_pipeline_open(g.context, GRAFT_GOLDEN_MODEL, &options, &pipeline), GRAFT_E_INVALID);
  golden_close(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_in_bf16_are_close),
      cmocka_unit_test(pictures_in_f16_are_close),
      cmocka_unit_test(pictures_in_int8_and_bf16_are_close),
      cmocka_unit_test(other_activations_are_refused),
  };
  return cmocka_run_group_tests_name("golden.half", tests, NULL, NULL);
}
