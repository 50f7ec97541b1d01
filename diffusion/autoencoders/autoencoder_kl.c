#include "diffusion/autoencoders/autoencoder_kl.h"

#include <string.h>

#include "ops/binary/binary.h"
#include "ops/copy/copy.h"
#include "ops/group_norm/group_norm.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/unary/unary.h"
#include "ops/upsample_nearest/upsample_nearest.h"
#include "ops/view/view.h"

static const double NORM_EPS = 1e-6;

typedef struct builder {
  graft_model *model;
  graft_graph *graph;
  const graft_autoencoder_config *config;
  int64_t batch, height, width;  // of the activations, here and now
} builder;

static graft_tensor *conv3x3(builder *b, graft_tensor *x, const char *name, int64_t n_in, int64_t n_out) {
  const graft_model_conv conv = {.n_in = n_in, .n_out = n_out, .kernel = 3, .stride = 1, .padding = {1, 1, 1, 1}};
  return graft_model_conv2d(b->model, x, name, &conv);
}

static graft_tensor *conv1x1(builder *b, graft_tensor *x, const char *name, int64_t n_in, int64_t n_out) {
  const graft_model_conv conv = {.n_in = n_in, .n_out = n_out, .kernel = 1, .stride = 1};
  return graft_model_conv2d(b->model, x, name, &conv);
}

static graft_tensor *group_norm(builder *b, graft_tensor *x, const char *name, int64_t n) {
  graft_model_push(b->model, "%s", name);
  graft_tensor *weight = graft_model_vector(b->model, "weight", n);
  graft_tensor *bias = graft_model_vector(b->model, "bias", n);
  x = graft_group_norm(b->graph, x, weight, bias, b->config->n_groups, NORM_EPS);
  graft_model_pop(b->model);
  return x;
}

static graft_tensor *resnet(builder *b, graft_tensor *x, int64_t n_in, int64_t n_out) {
  graft_tensor *h = graft_silu(b->graph, group_norm(b, x, "norm1", n_in));
  h = conv3x3(b, h, "conv1", n_in, n_out);
  h = graft_silu(b->graph, group_norm(b, h, "norm2", n_out));
  h = conv3x3(b, h, "conv2", n_out, n_out);
  if (n_in != n_out) x = conv1x1(b, x, "conv_shortcut", n_in, n_out);
  return graft_add(b->graph, x, h);
}

static graft_tensor *resnets(builder *b, graft_tensor *x, int64_t n, int64_t n_in, int64_t n_out) {
  for (int64_t i = 0; i < n; ++i) {
    graft_model_push(b->model, "resnets.%d", (int)i);
    x = resnet(b, x, i == 0 ? n_in : n_out, n_out);
    graft_model_pop(b->model);
  }
  return x;
}

static graft_tensor *projection(builder *b, graft_tensor *x, const char *name, int64_t n, int64_t n_pixels) {
  x = graft_model_linear_bias(b->model, x, name, (graft_model_size){n, n});
  return graft_reshape(b->graph, x, 4, (int64_t[]){b->batch, n_pixels, 1, n});
}

static graft_tensor *attention(builder *b, graft_tensor *x, int64_t n) {
  graft_graph *g = b->graph;
  const int64_t n_pixels = b->height * b->width;
  graft_model_push(b->model, "attentions.0");
  graft_tensor *h = group_norm(b, x, "group_norm", n);
  h = graft_reshape(g, graft_permute(g, h, (int32_t[]){0, 2, 3, 1}), 3, (int64_t[]){b->batch, n_pixels, n});
  graft_tensor *q = projection(b, h, "to_q", n, n_pixels);
  graft_tensor *k = projection(b, h, "to_k", n, n_pixels);
  graft_tensor *v = projection(b, h, "to_v", n, n_pixels);
  h = graft_scaled_dot_product_attention(g, q, k, v, graft_graph_none(), NULL);
  h = graft_reshape(g, h, 3, (int64_t[]){b->batch, n_pixels, n});
  h = graft_model_linear_bias(b->model, h, "to_out.0", (graft_model_size){n, n});
  h = graft_reshape(g, h, 4, (int64_t[]){b->batch, b->height, b->width, n});
  graft_model_pop(b->model);
  return graft_add(g, x, graft_contiguous(g, graft_permute(g, h, (int32_t[]){0, 3, 1, 2})));
}

static graft_tensor *middle(builder *b, graft_tensor *x, int64_t n) {
  graft_model_push(b->model, "mid_block");
  for (int i = 0; i < 2; ++i) {
    if (i == 1 && b->config->has_mid_attention) x = attention(b, x, n);
    graft_model_push(b->model, "resnets.%d", i);
    x = resnet(b, x, n, n);
    graft_model_pop(b->model);
  }
  graft_model_pop(b->model);
  return x;
}

static graft_tensor *upsample(builder *b, graft_tensor *x, int64_t n) {
  b->height *= 2;
  b->width *= 2;
  return conv3x3(b, graft_upsample_nearest(b->graph, x, 2, 2), "upsamplers.0.conv", n, n);
}

static graft_tensor *downsample(builder *b, graft_tensor *x, int64_t n) {
  const graft_model_conv conv = {.n_in = n, .n_out = n, .kernel = 3, .stride = 2, .padding = {0, 1, 0, 1}};
  b->height /= 2;
  b->width /= 2;
  return graft_model_conv2d(b->model, x, "downsamplers.0.conv", &conv);
}

static graft_tensor *head(builder *b, graft_tensor *x, int64_t n_in, int64_t n_out) {
  x = graft_silu(b->graph, group_norm(b, x, "conv_norm_out", n_in));
  return conv3x3(b, x, "conv_out", n_in, n_out);
}

static builder begin(graft_model *model, const graft_autoencoder_config *config, const graft_autoencoder_shape *shape) {
  return (builder){model, model->graph, config, shape->batch, shape->height, shape->width};
}

void graft_autoencoder_build_decoder(graft_model *model, const graft_autoencoder_config *c,
                                     const graft_autoencoder_shape *shape) {
  builder b = begin(model, c, shape);
  const int64_t latents[4] = {shape->batch, c->latent_channels, shape->height, shape->width};
  graft_tensor *x = graft_model_input(model, "latents", GRAFT_F32, 4, latents);
  if (c->has_post_quant_conv) x = conv1x1(&b, x, "post_quant_conv", c->latent_channels, c->latent_channels);
  graft_model_push(model, "decoder");
  int64_t n = c->channels[c->n_levels - 1];
  x = middle(&b, conv3x3(&b, x, "conv_in", c->latent_channels, n), n);
  for (int64_t i = 0; i < c->n_levels; ++i) {
    const int64_t n_out = c->channels[c->n_levels - 1 - i];
    graft_model_push(model, "up_blocks.%d", (int)i);
    x = resnets(&b, x, c->layers_per_block + 1, n, n_out);
    if (i + 1 < c->n_levels) x = upsample(&b, x, n_out);
    graft_model_pop(model);
    n = n_out;
  }
  x = head(&b, x, n, c->out_channels);
  graft_model_pop(model);
  graft_graph_output(model->graph, graft_cast(model->graph, x, GRAFT_F32), "image");
}

void graft_autoencoder_build_encoder(graft_model *model, const graft_autoencoder_config *c,
                                     const graft_autoencoder_shape *shape) {
  builder b = begin(model, c, shape);
  const int64_t image[4] = {shape->batch, c->in_channels, shape->height, shape->width};
  graft_tensor *x = graft_model_input(model, "image", GRAFT_F32, 4, image);
  graft_model_push(model, "encoder");
  int64_t n = c->channels[0];
  x = conv3x3(&b, x, "conv_in", c->in_channels, n);
  for (int64_t i = 0; i < c->n_levels; ++i) {
    graft_model_push(model, "down_blocks.%d", (int)i);
    x = resnets(&b, x, c->layers_per_block, n, c->channels[i]);
    n = c->channels[i];
    if (i + 1 < c->n_levels) x = downsample(&b, x, n);
    graft_model_pop(model);
  }
  const int64_t n_moments = 2 * c->latent_channels;
  x = head(&b, middle(&b, x, n), n, n_moments);
  graft_model_pop(model);
  if (c->has_quant_conv) x = conv1x1(&b, x, "quant_conv", n_moments, n_moments);
  x = graft_cast(model->graph, x, GRAFT_F32);
  graft_graph_output(model->graph, graft_slice(model->graph, x, 1, 0, c->latent_channels), "mean");
  graft_graph_output(model->graph, graft_slice(model->graph, x, 1, c->latent_channels, n_moments), "logvar");
}
