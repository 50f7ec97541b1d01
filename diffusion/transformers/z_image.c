#include "diffusion/transformers/z_image.h"

#include <math.h>
#include <stdio.h>

#include "ops/binary/binary.h"
#include "ops/concat/concat.h"
#include "ops/copy/copy.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/timestep_embedding/timestep_embedding.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"

static const double FINAL_NORM_EPS = 1e-6;
static const double MAX_PERIOD = 10000;

// Everything a block needs beside its tokens.
typedef struct builder {
  graft_model *model;
  graft_graph *graph;
  const graft_z_image_config *config;
  const graft_z_image_shape *shape;
  int64_t time_dim;
  graft_tensor *time;  // embedded, [B, time_dim]
} builder;

// A run of tokens with where they stand and which may be attended to.
typedef struct sequence {
  int64_t n;
  graft_tensor *rotary, *mask;
} sequence;

int64_t graft_z_image_padded(int64_t n_tokens) {
  const int64_t multiple = GRAFT_Z_IMAGE_TOKEN_MULTIPLE;
  return (n_tokens + multiple - 1) / multiple * multiple;
}

static int64_t n_patches(const graft_z_image_config *config, const graft_z_image_shape *shape) {
  return (shape->height / config->patch) * (shape->width / config->patch);
}

int64_t graft_z_image_n_image_tokens(const graft_z_image_config *config, const graft_z_image_shape *shape) {
  return graft_z_image_padded(n_patches(config, shape));
}

static void output(const builder *b, graft_tensor *x, const char *name) {
  if (b->shape->with_blocks) graft_graph_output(b->graph, graft_cast(b->graph, x, GRAFT_F32), name);
}

static graft_tensor *heads(builder *b, graft_tensor *x, const char *name, int64_t n) {
  const graft_z_image_config *c = b->config;
  x = graft_model_linear(b->model, x, name, (graft_model_size){c->dim, c->dim});
  return graft_reshape(b->graph, x, 4, (int64_t[]){b->shape->batch, n, c->n_heads, c->head_dim});
}

static graft_tensor *rotated(builder *b, graft_tensor *x, const char *norm, const sequence *s) {
  x = graft_model_rms_norm(b->model, x, norm, b->config->head_dim, b->config->norm_eps);
  return graft_rotary_embedding(b->graph, x, s->rotary, GRAFT_ROTARY_INTERLEAVED);
}

static graft_tensor *attention(builder *b, graft_tensor *x, const sequence *s) {
  const int64_t dim = b->config->dim;
  graft_model_push(b->model, "attention");
  graft_tensor *q = rotated(b, heads(b, x, "to_q", s->n), "norm_q", s);
  graft_tensor *k = rotated(b, heads(b, x, "to_k", s->n), "norm_k", s);
  graft_tensor *v = heads(b, x, "to_v", s->n);
  x = graft_scaled_dot_product_attention(b->graph, q, k, v, s->mask, NULL);
  x = graft_reshape(b->graph, x, 3, (int64_t[]){b->shape->batch, s->n, dim});
  x = graft_model_linear(b->model, x, "to_out.0", (graft_model_size){dim, dim});
  graft_model_pop(b->model);
  return x;
}

static graft_tensor *feed_forward(builder *b, graft_tensor *x) {
  graft_model_push(b->model, "feed_forward");
  const graft_model_size up = {b->config->dim, graft_model_dim(b->model, "w1.weight", 0)};
  graft_tensor *gate = graft_silu(b->graph, graft_model_linear(b->model, x, "w1", up));
  x = graft_mul(b->graph, gate, graft_model_linear(b->model, x, "w3", up));
  x = graft_model_linear(b->model, x, "w2", (graft_model_size){up.n_out, up.n_in});
  graft_model_pop(b->model);
  return x;
}

static graft_tensor *norm(builder *b, graft_tensor *x, const char *name) {
  return graft_model_rms_norm(b->model, x, name, b->config->dim, b->config->norm_eps);
}

// Part |index| of four of the modulation, shaped to be multiplied with tokens.
static graft_tensor *modulation(builder *b, graft_tensor *all, int64_t index) {
  const int64_t dim = b->config->dim;
  graft_tensor *part = graft_slice(b->graph, all, 1, index * dim, (index + 1) * dim);
  return graft_reshape(b->graph, part, 3, (int64_t[]){b->shape->batch, 1, dim});
}

static graft_tensor *plus_one(builder *b, graft_tensor *x) {
  return graft_scale(b->graph, x, 1, 1);
}

static graft_tensor *modulated_block(builder *b, graft_tensor *x, const sequence *s) {
  graft_graph *g = b->graph;
  const graft_model_size size = {b->time_dim, 4 * b->config->dim};
  graft_tensor *all = graft_model_linear_bias(b->model, b->time, "adaLN_modulation.0", size);
  graft_tensor *scale_attention = plus_one(b, modulation(b, all, 0));
  graft_tensor *gate_attention = graft_tanh(g, modulation(b, all, 1));
  graft_tensor *scale_feed = plus_one(b, modulation(b, all, 2));
  graft_tensor *gate_feed = graft_tanh(g, modulation(b, all, 3));
  graft_tensor *h = attention(b, graft_mul(g, norm(b, x, "attention_norm1"), scale_attention), s);
  x = graft_add(g, x, graft_mul(g, norm(b, h, "attention_norm2"), gate_attention));
  h = feed_forward(b, graft_mul(g, norm(b, x, "ffn_norm1"), scale_feed));
  return graft_add(g, x, graft_mul(g, norm(b, h, "ffn_norm2"), gate_feed));
}

static graft_tensor *plain_block(builder *b, graft_tensor *x, const sequence *s) {
  graft_tensor *h = attention(b, norm(b, x, "attention_norm1"), s);
  x = graft_add(b->graph, x, norm(b, h, "attention_norm2"));
  h = feed_forward(b, norm(b, x, "ffn_norm1"));
  return graft_add(b->graph, x, norm(b, h, "ffn_norm2"));
}

// A list of equal blocks. Those without modulation know nothing of the time.
typedef struct block_list {
  const char *name;
  int64_t n;
  bool is_modulated;
} block_list;

static graft_tensor *blocks(builder *b, graft_tensor *x, const sequence *s, block_list list) {
  for (int64_t i = 0; i < list.n; ++i) {
    char label[32];
    snprintf(label, sizeof label, "%s.%d", list.name, (int)i);
    graft_model_push(b->model, "%s", label);
    x = list.is_modulated ? modulated_block(b, x, s) : plain_block(b, x, s);
    graft_model_pop(b->model);
    output(b, x, label);
  }
  return x;
}

static graft_tensor *embed_time(builder *b, graft_tensor *time) {
  graft_model_push(b->model, "t_embedder");
  const int64_t n_in = graft_model_dim(b->model, "mlp.0.weight", 1);
  const int64_t n_hidden = graft_model_dim(b->model, "mlp.0.weight", 0);
  b->time_dim = graft_model_dim(b->model, "mlp.2.weight", 0);
  graft_tensor *x = graft_timestep_embedding(b->graph, time, n_in, MAX_PERIOD, b->config->t_scale);
  x = graft_silu(b->graph, graft_model_linear_bias(b->model, x, "mlp.0", (graft_model_size){n_in, n_hidden}));
  x = graft_model_linear_bias(b->model, x, "mlp.2", (graft_model_size){n_hidden, b->time_dim});
  graft_model_pop(b->model);
  output(b, x, "t_embedder");
  return x;
}

static graft_tensor *pad_token(builder *b, const char *name) {
  graft_tensor *token = graft_model_weight(b->model, name, 2, (int64_t[]){1, b->config->dim});
  return graft_reshape(b->graph, graft_cast(b->graph, token, b->model->dtype), 3, (int64_t[]){1, 1, b->config->dim});
}

// [B, C, H, W] → [B, patches, (row in patch, column in patch, channel)]
static graft_tensor *patchify(builder *b, graft_tensor *x) {
  const graft_z_image_shape *s = b->shape;
  const int64_t p = b->config->patch, channels = b->config->in_channels;
  x = graft_reshape(b->graph, x, 6, (int64_t[]){s->batch, channels, s->height / p, p, s->width / p, p});
  x = graft_permute(b->graph, x, (int32_t[]){0, 2, 4, 3, 5, 1});
  return graft_reshape(b->graph, x, 3, (int64_t[]){s->batch, n_patches(b->config, s), p * p * channels});
}

static graft_tensor *unpatchify(builder *b, graft_tensor *x) {
  const graft_z_image_shape *s = b->shape;
  const int64_t p = b->config->patch, channels = b->config->in_channels;
  x = graft_reshape(b->graph, x, 6, (int64_t[]){s->batch, s->height / p, s->width / p, p, p, channels});
  x = graft_permute(b->graph, x, (int32_t[]){0, 5, 1, 3, 2, 4});
  return graft_reshape(b->graph, x, 4, (int64_t[]){s->batch, channels, s->height, s->width});
}

static graft_tensor *embed_image(builder *b, graft_tensor *latents, const char *patch_name) {
  const graft_z_image_config *c = b->config;
  const graft_model_size size = {c->patch * c->patch * c->in_channels, c->dim};
  graft_model_push(b->model, "all_x_embedder");
  graft_tensor *x = graft_model_linear_bias(b->model, patchify(b, latents), patch_name, size);
  graft_model_pop(b->model);
  const int64_t n_padding = graft_z_image_n_image_tokens(c, b->shape) - n_patches(c, b->shape);
  if (n_padding > 0) {
    const int64_t shape[3] = {b->shape->batch, n_padding, c->dim};
    graft_tensor *padding = graft_expand(b->graph, pad_token(b, "x_pad_token"), 3, shape);
    x = graft_concat(b->graph, (graft_tensor *[]){x, padding}, 2, 1);
  }
  output(b, x, "x_embedder");
  return x;
}

static graft_tensor *embed_caption(builder *b, graft_tensor *caption, graft_tensor *keep) {
  const graft_z_image_config *c = b->config;
  graft_model_push(b->model, "cap_embedder");
  graft_tensor *x = graft_model_rms_norm(b->model, caption, "0", c->caption_dim, c->norm_eps);
  x = graft_model_linear_bias(b->model, x, "1", (graft_model_size){c->caption_dim, c->dim});
  graft_model_pop(b->model);
  output(b, x, "cap_embedder");
  graft_tensor *padding = graft_mul(b->graph, graft_scale(b->graph, keep, -1, 1), pad_token(b, "cap_pad_token"));
  return graft_add(b->graph, graft_mul(b->graph, x, keep), padding);
}

static graft_tensor *final_layer(builder *b, graft_tensor *x, const char *patch_name) {
  const graft_z_image_config *c = b->config;
  graft_model_push(b->model, "all_final_layer");
  graft_model_push(b->model, "%s", patch_name);
  graft_tensor *scale = graft_silu(b->graph, b->time);
  scale = graft_model_linear_bias(b->model, scale, "adaLN_modulation.1", (graft_model_size){b->time_dim, c->dim});
  scale = plus_one(b, graft_reshape(b->graph, scale, 3, (int64_t[]){b->shape->batch, 1, c->dim}));
  x = graft_layer_norm(b->graph, x, graft_graph_none(), graft_graph_none(), FINAL_NORM_EPS);
  const graft_model_size size = {c->dim, c->patch * c->patch * c->in_channels};
  x = graft_model_linear_bias(b->model, graft_mul(b->graph, x, scale), "linear", size);
  x = graft_cast(b->graph, x, GRAFT_F32);
  graft_model_pop(b->model);
  graft_model_pop(b->model);
  output(b, x, "final_layer");
  return x;
}

typedef struct inputs {
  graft_tensor *latents, *time, *caption, *keep, *rotary, *mask;
} inputs;

static inputs make_inputs(const builder *b, int64_t n_tokens) {
  const graft_z_image_config *c = b->config;
  const graft_z_image_shape *s = b->shape;
  graft_model *m = b->model;
  const int64_t table[4] = {s->batch, n_tokens, c->head_dim / 2, 2};
  const int32_t skipped = s->rotary_per_item ? 0 : 1;
  inputs in = {.mask = graft_graph_none()};
  const int64_t latents[4] = {s->batch, c->in_channels, s->height, s->width};
  in.latents = graft_model_input(m, "latents", GRAFT_F32, 4, latents);
  in.time = graft_model_input(m, "time", GRAFT_F32, 1, &s->batch);
  in.caption = graft_model_input(m, "caption", GRAFT_F32, 3, (int64_t[]){s->batch, s->n_caption, c->caption_dim});
  in.keep = graft_model_input(m, "caption_keep", GRAFT_F32, 3, (int64_t[]){s->batch, s->n_caption, 1});
  in.rotary = graft_model_input(m, "rotary", GRAFT_F32, 4 - skipped, table + skipped);
  if (s->has_mask) in.mask = graft_model_input(m, "mask", GRAFT_BOOL, 2, (int64_t[]){s->batch, n_tokens});
  return in;
}

// The tokens |start| … |end| - 1 of the whole sequence.
static sequence part_of(const builder *b, const inputs *in, int64_t start, int64_t end) {
  const int32_t axis = b->shape->rotary_per_item ? 1 : 0;
  sequence part = {.n = end - start, .mask = in->mask};
  part.rotary = graft_slice(b->graph, in->rotary, axis, start, end);
  if (b->shape->has_mask) part.mask = graft_slice(b->graph, in->mask, 1, start, end);
  return part;
}

void graft_z_image_build(graft_model *model, const graft_z_image_config *config, const graft_z_image_shape *shape) {
  builder b = {.model = model, .graph = model->graph, .config = config, .shape = shape};
  const int64_t n_image = graft_z_image_n_image_tokens(config, shape), n = n_image + shape->n_caption;
  char patch_name[32];
  snprintf(patch_name, sizeof patch_name, "%d-1", (int)config->patch);
  const inputs in = make_inputs(&b, n);
  const sequence all = {.n = n, .rotary = in.rotary, .mask = in.mask};
  const sequence image = part_of(&b, &in, 0, n_image), caption = part_of(&b, &in, n_image, n);

  b.time = embed_time(&b, in.time);
  graft_tensor *x = embed_image(&b, in.latents, patch_name);
  x = blocks(&b, x, &image, (block_list){"noise_refiner", config->n_refiner_layers, true});
  graft_tensor *text = embed_caption(&b, in.caption, in.keep);
  text = blocks(&b, text, &caption, (block_list){"context_refiner", config->n_refiner_layers, false});
  x = graft_concat(b.graph, (graft_tensor *[]){x, text}, 2, 1);
  x = blocks(&b, x, &all, (block_list){"layers", config->n_layers, true});
  x = graft_slice(b.graph, x, 1, 0, n_patches(config, shape));
  graft_graph_output(b.graph, unpatchify(&b, final_layer(&b, x, patch_name)), "flow");
}

static void write_position(const graft_z_image_config *config, const int64_t position[3], float *row) {
  for (int axis = 0; axis < GRAFT_Z_IMAGE_N_AXES; ++axis) {
    const int64_t dim = config->axes_dims[axis];
    for (int64_t i = 0; i < dim; i += 2) {
      const double frequency = 1.0 / pow(config->rope_theta, (double)i / (double)dim);
      const double angle = (double)(float)((double)position[axis] * frequency);
      *row++ = (float)cos(angle);
      *row++ = (float)sin(angle);
    }
  }
}

void graft_z_image_rotary(const graft_z_image_config *config, const graft_z_image_shape *shape, int64_t n_caption,
                          float *table) {
  const int64_t columns = shape->width / config->patch, n = n_patches(config, shape);
  const int64_t n_image = graft_z_image_n_image_tokens(config, shape);
  for (int64_t i = 0; i < n_image; ++i) {
    const int64_t position[3] = {n_caption + 1, i / columns, i % columns}, padding[3] = {0, 0, 0};
    write_position(config, i < n ? position : padding, table + i * config->head_dim);
  }
  for (int64_t i = 0; i < shape->n_caption; ++i) {
    const int64_t position[3] = {i + 1, 0, 0};
    write_position(config, position, table + (n_image + i) * config->head_dim);
  }
}
