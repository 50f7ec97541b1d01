// The shipped model against the reference: ids, prompt embeddings, latents after 8 and 20 steps, and the picture.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "capture.h"

static void expect_ids(const capture *c, const graft_weights *reference, const char *name) {
  const graft_safetensors_tensor *want = golden_tensor(reference, name);
  const captured *got = capture_find(c, name);
  assert_int_equal(got->desc.shape[0], want->shape[0]);
  assert_memory_equal(got->data, want->data, want->bytes);
}

static void expect_values(const capture *c, const char *name, const graft_weights *reference, const char *wanted,
                          double bound) {
  const graft_safetensors_tensor *want = golden_tensor(reference, wanted);
  const captured *got = capture_find(c, name);
  assert_int_equal(graft_tensor_desc_bytes(&got->desc), want->bytes);
  golden_expect(wanted, got->data, want->data, want->bytes / sizeof(float), bound);
}

// The worst difference of a byte, which rounding alone can make 1.
static int byte_difference(const graft_generate_result *result, const float *want) {
  const size_t n = (size_t)result->width * (size_t)result->height;
  int worst = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t c = 0; c < 3; ++c) {
      const int wanted = (int)rint(golden_shown(want[c * n + i]) * 255), got = result->rgb[3 * i + c];
      const int difference = got > wanted ? got - wanted : wanted - got;
      if (difference > worst) worst = difference;
    }
  return worst;
}

static void expect_picture(const capture *c, const graft_weights *reference) {
  const graft_safetensors_tensor *want = golden_tensor(reference, "image");
  const captured *got = capture_find(c, "image");
  assert_int_equal(graft_tensor_desc_bytes(&got->desc), want->bytes);
  const double decibels = golden_psnr(got->data, want->data, want->bytes / sizeof(float));
  print_message("    %-28s %.1f dB, at least 65\n", "picture", decibels);
  assert_true(decibels >= 65);
  assert_in_range(byte_difference(&c->result, want->data), 0, 1);
}

static void check_case(const golden_case *c) {
  char name[64];
  golden g = golden_open();
  graft_pipeline *pipeline;
  capture eight = {0}, twenty = {0};
  snprintf(name, sizeof name, "emoji-zimage/%s.safetensors", c->name);
  graft_weights *reference = golden_weights(name);
  const graft_pipeline_options options = {.struct_size = sizeof options, .device = g.device};
  golden_check(&g, graft_pipeline_open(g.context, GRAFT_GOLDEN_MODEL, &options, &pipeline));
  capture_run(&eight, pipeline, &g, c, reference, 8, false);
  expect_ids(&eight, reference, "token_ids");
  expect_values(&eight, "prompt_embeds", reference, "prompt_embeds", 1e-5);
  if (c->guidance > 0) {
    expect_ids(&eight, reference, "negative_token_ids");
    expect_values(&eight, "negative_prompt_embeds", reference, "negative_prompt_embeds", 1e-5);
  }
  expect_values(&eight, "latents", reference, "latents_8", 2e-4);
  capture_run(&twenty, pipeline, &g, c, reference, 20, false);
  expect_values(&twenty, "latents", reference, "latents_20", 2e-4);
  expect_picture(&twenty, reference);
  capture_release(&eight);
  capture_release(&twenty);
  graft_pipeline_close(pipeline);
  graft_weights_close(reference);
  golden_close(&g);
}

static void apple_256_cfg(void **state) {
  (void)state;
  check_case(&golden_cases[0]);
}

static void cat_128_nocfg(void **state) {
  (void)state;
  check_case(&golden_cases[1]);
}

static void odd_208x240_cfg(void **state) {
  (void)state;
  check_case(&golden_cases[2]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cat_128_nocfg),
      cmocka_unit_test(odd_208x240_cfg),
      cmocka_unit_test(apple_256_cfg),
  };
  return cmocka_run_group_tests_name("golden.pictures", tests, NULL, NULL);
}
