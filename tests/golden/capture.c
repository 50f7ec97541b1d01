#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const golden_case golden_cases[3] = {
    {"apple_256_cfg", "a red apple on a blue background", "a green pear, flat style", 256, 256, 4},
    {"cat_128_nocfg", "a grinning cat face", NULL, 128, 128, 0},
    {"odd_208x240_cfg",
     "Crème brûlée ☕ & 猫 (naïve)…  two  spaces\n– it's 3.5× BIGGER, a dog on the left and a pizza on the right 🍕", "",
     208, 240, 4},
};

static graft_status keep(void *user, const char *name, const graft_tensor_desc *desc, const void *data) {
  capture *c = user;
  if (strncmp(name, "latents_step_", 13) == 0) return GRAFT_OK;
  assert_in_range(c->n, 0, CAPTURE_MAX - 1);
  captured *t = &c->tensors[c->n++];
  const size_t bytes = graft_tensor_desc_bytes(desc);
  snprintf(t->name, sizeof t->name, "%s", name);
  t->desc = *desc;
  t->data = malloc(bytes);
  assert_non_null(t->data);
  memcpy(t->data, data, bytes);
  return GRAFT_OK;
}

void capture_run(capture *out, graft_pipeline *pipeline, const golden *g, const golden_case *c,
                 const graft_weights *reference, int32_t n_steps, bool has_blocks) {
  const graft_safetensors_tensor *noise = golden_tensor(reference, "noise");
  graft_view view = {.data = malloc(noise->bytes)};
  graft_generate_request request = {.struct_size = sizeof request};
  assert_non_null(view.data);
  memcpy(view.data, noise->data, noise->bytes);
  golden_check(g, graft_tensor_desc_init(GRAFT_F32, noise->rank, noise->shape, NULL, &view.desc));
  graft_generate_request_init(pipeline, &request);
  request.prompt = c->prompt;
  request.negative_prompt = c->negative_prompt;
  request.width = c->width;
  request.height = c->height;
  request.guidance = c->guidance;
  request.n_steps = n_steps;
  request.noise = &view;
  const graft_generate_callbacks callbacks = {
      .struct_size = sizeof callbacks, .dump_blocks = has_blocks, .user = out, .on_tensor = keep};
  out->result.struct_size = sizeof out->result;
  golden_check(g, graft_pipeline_generate(pipeline, &request, &callbacks, &out->result));
  free(view.data);
}

const captured *capture_find(const capture *c, const char *name) {
  for (size_t i = 0; i < c->n; ++i)
    if (strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
  fail_msg("no tensor %s passed by", name);
  return NULL;
}

void capture_release(capture *c) {
  for (size_t i = 0; i < c->n; ++i) free(c->tensors[i].data);
  graft_generate_result_release(&c->result);
  *c = (capture){0};
}
