#include <stdio.h>
#include <string.h>

#include "diffusion/transformers/z_image.h"

// The first rule whose text occurs in a name replaces it.
static const struct {
  const char *from, *to;
  int32_t part, n_parts;
} rules[] = {
    {".attention.to_q.", ".attention.qkv.", 0, 3},      {".attention.to_k.", ".attention.qkv.", 1, 3},
    {".attention.to_v.", ".attention.qkv.", 2, 3},      {".attention.to_out.0.", ".attention.out.", 0, 1},
    {".attention.norm_q.", ".attention.q_norm.", 0, 1}, {".attention.norm_k.", ".attention.k_norm.", 0, 1},
};

// These have the patch size as one more component: all_x_embedder.2-1.weight.
static const char *const patched[] = {"all_x_embedder.", "all_final_layer."};

static void place(const char *name, graft_weight_place *out_place) {
  *out_place = (graft_weight_place){.n_parts = 1};
  for (size_t i = 0; i < sizeof patched / sizeof patched[0]; ++i) {
    const size_t n = strlen(patched[i]);
    const char *rest = strncmp(name, patched[i], n) == 0 ? strchr(name + n, '.') : NULL;
    if (rest == NULL) continue;
    snprintf(out_place->name, sizeof out_place->name, "%.*s%s", (int)(n - strlen("all_.")), name + strlen("all_"),
             rest);
    return;
  }
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; ++i) {
    const char *found = strstr(name, rules[i].from);
    if (found == NULL) continue;
    snprintf(out_place->name, sizeof out_place->name, "%.*s%s%s", (int)(found - name), name, rules[i].to,
             found + strlen(rules[i].from));
    out_place->part = rules[i].part;
    out_place->n_parts = rules[i].n_parts;
    return;
  }
  snprintf(out_place->name, sizeof out_place->name, "%s", name);
}

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with) {
  const size_t n = strlen(text), n_with = strlen(with);
  return n >= n_with && strcmp(text + n - n_with, with) == 0;
}

// All linear layers of blocks, modulation included.
static bool is_quantized(const char *name) {
  static const char *const blocks[] = {"layers.", "noise_refiner.", "context_refiner."};
  static const char *const layers[] = {
      ".attention.to_q", ".attention.to_k",  ".attention.to_v",  ".attention.to_out.0", ".attention.qkv",
      ".attention.out",  ".feed_forward.w1", ".feed_forward.w2", ".feed_forward.w3",    ".adaLN_modulation.0",
  };
  bool is_block = false, is_layer = false;
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; ++i) is_block = is_block || begins(name, blocks[i]);
  for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) is_layer = is_layer || ends(name, layers[i]);
  return is_block && is_layer;
}

const graft_weight_profile graft_z_image_profile = {
    .place = place,
    .is_quantized = is_quantized,
    .mark = "x_embedder.weight",
    .other_mark = "cap_embedder.1.weight",
};
