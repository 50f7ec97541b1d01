#include "diffusion/text_encoders/qwen3.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "formats/excerpt.h"
#include "ops/binary/binary.h"
#include "ops/copy/copy.h"
#include "ops/embedding/embedding.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"

static graft_status refuse(const graft_json *json, const char *option, const char *supported, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED,
                    "%s: the text encoder option `%s` is not supported; graft knows only %s",
                    graft_excerpt_path(graft_json_origin(json)).text, option, supported);
}

static graft_status require_off(const graft_json *json, const char *option, graft_error *error) {
  bool is_on;
  GRAFT_TRY(graft_json_get_bool(json, option, (graft_json_bool_rule){0}, error, &is_on));
  return is_on ? refuse(json, option, "false", error) : GRAFT_OK;
}

static graft_status require_text(const graft_json *json, const char *option, const char *wanted, graft_error *error) {
  const char *text;
  GRAFT_TRY(graft_json_get_string(json, option, wanted, error, &text));
  return strcmp(text, wanted) == 0 ? GRAFT_OK : refuse(json, option, wanted, error);
}

static graft_status require_full_attention(const graft_json *json, graft_error *error) {
  const json_t *types = graft_json_find(json, "layer_types");
  if (types && !json_is_array(types))
    return GRAFT_FAIL(error, GRAFT_E_FORMAT, "%s: `layer_types` must be a list of \"full_attention\"",
                      graft_excerpt_path(graft_json_origin(json)).text);
  size_t i;
  json_t *type;
  json_array_foreach((json_t *)(uintptr_t)types, i, type) {
    const char *text = json_string_value(type);
    if (!text || strcmp(text, "full_attention") != 0) return refuse(json, "layer_types", "full_attention", error);
  }
  return GRAFT_OK;
}

static graft_status refuse_options(const graft_json *json, graft_error *error) {
  GRAFT_TRY(require_text(json, "model_type", "qwen3", error));
  GRAFT_TRY(require_text(json, "hidden_act", "silu", error));
  GRAFT_TRY(require_off(json, "attention_bias", error));
  GRAFT_TRY(require_off(json, "use_sliding_window", error));
  GRAFT_TRY(require_text(json, "rope_parameters.rope_type", "default", error));
  if (graft_json_find(json, "rope_scaling")) return refuse(json, "rope_scaling", "null", error);
  return require_full_attention(json, error);
}

static graft_status get_size(const graft_json *json, const char *key, int64_t max, graft_error *error, int64_t *out) {
  return graft_json_get_int(json, key, (graft_json_int_rule){.min = 1, .max = max, .required = true}, error, out);
}

static graft_status read_rope(const graft_json *json, graft_error *error, double *out_theta) {
  graft_json_number_rule rule = {.min = 1, .max = 1e12, .otherwise = 10000};
  const char *key = graft_json_find(json, "rope_parameters.rope_theta") ? "rope_parameters.rope_theta" : "rope_theta";
  return graft_json_get_number(json, key, rule, error, out_theta);
}

graft_status graft_qwen3_read(const graft_json *json, graft_error *error, graft_qwen3_config *out_config) {
  graft_qwen3_config c = {0};
  GRAFT_TRY(refuse_options(json, error));
  GRAFT_TRY(get_size(json, "vocab_size", 1 << 24, error, &c.vocab_size));
  GRAFT_TRY(get_size(json, "hidden_size", 1 << 20, error, &c.hidden_size));
  GRAFT_TRY(get_size(json, "intermediate_size", 1 << 20, error, &c.intermediate_size));
  GRAFT_TRY(get_size(json, "num_hidden_layers", 1024, error, &c.n_layers));
  GRAFT_TRY(get_size(json, "num_attention_heads", 4096, error, &c.n_heads));
  graft_json_int_rule kv_rule = {.min = 1, .max = c.n_heads, .otherwise = c.n_heads};
  GRAFT_TRY(graft_json_get_int(json, "num_key_value_heads", kv_rule, error, &c.n_kv_heads));
  graft_json_int_rule dim_rule = {.min = 2, .max = 8192, .otherwise = c.hidden_size / c.n_heads};
  GRAFT_TRY(graft_json_get_int(json, "head_dim", dim_rule, error, &c.head_dim));
  graft_json_int_rule position_rule = {.min = 1, .max = INT32_MAX, .otherwise = 32768};
  GRAFT_TRY(graft_json_get_int(json, "max_position_embeddings", position_rule, error, &c.max_positions));
  graft_json_number_rule eps_rule = {.min = 0, .max = 1, .otherwise = 1e-6};
  GRAFT_TRY(graft_json_get_number(json, "rms_norm_eps", eps_rule, error, &c.norm_eps));
  GRAFT_TRY(read_rope(json, error, &c.rope_theta));
  if (c.n_heads % c.n_kv_heads != 0 || c.head_dim < 2 || c.head_dim % 2 != 0)
    return GRAFT_FAIL(error, GRAFT_E_FORMAT,
                      "%s: %lld heads must be a multiple of %lld key-value heads, and the head size %lld be even",
                      graft_excerpt_path(graft_json_origin(json)).text, (long long)c.n_heads, (long long)c.n_kv_heads,
                      (long long)c.head_dim);
  *out_config = c;
  return GRAFT_OK;
}

typedef struct layer_args {
  const graft_qwen3_config *config;
  const graft_qwen3_shape *shape;
  graft_tensor *rotary, *mask;
} layer_args;

static graft_tensor *heads(graft_model *m, const layer_args *a, graft_tensor *x, const char *name, int64_t n_heads) {
  const graft_qwen3_config *c = a->config;
  x = graft_model_linear(m, x, name, (graft_model_size){c->hidden_size, n_heads * c->head_dim});
  return graft_reshape(m->graph, x, 4, (int64_t[]){a->shape->batch, a->shape->n_tokens, n_heads, c->head_dim});
}

static graft_tensor *rotated(graft_model *m, const layer_args *a, graft_tensor *x, const char *norm) {
  x = graft_model_rms_norm(m, x, norm, a->config->head_dim, a->config->norm_eps);
  return graft_rotary_embedding(m->graph, x, a->rotary, GRAFT_ROTARY_HALF);
}

static graft_tensor *attention(graft_model *m, const layer_args *a, graft_tensor *x) {
  const graft_qwen3_config *c = a->config;
  graft_model_push(m, "self_attn");
  graft_tensor *q = rotated(m, a, heads(m, a, x, "q_proj", c->n_heads), "q_norm");
  graft_tensor *k = rotated(m, a, heads(m, a, x, "k_proj", c->n_kv_heads), "k_norm");
  graft_tensor *v = heads(m, a, x, "v_proj", c->n_kv_heads);
  const graft_attention_attrs attrs = {.is_causal = true};
  x = graft_scaled_dot_product_attention(m->graph, q, k, v, a->mask, &attrs);
  const int64_t width = c->n_heads * c->head_dim;
  x = graft_reshape(m->graph, x, 3, (int64_t[]){a->shape->batch, a->shape->n_tokens, width});
  x = graft_model_linear(m, x, "o_proj", (graft_model_size){width, c->hidden_size});
  graft_model_pop(m);
  return x;
}

static graft_tensor *feed_forward(graft_model *m, const layer_args *a, graft_tensor *x) {
  const graft_model_size up = {a->config->hidden_size, a->config->intermediate_size};
  graft_model_push(m, "mlp");
  graft_tensor *gate = graft_silu(m->graph, graft_model_linear(m, x, "gate_proj", up));
  x = graft_mul(m->graph, gate, graft_model_linear(m, x, "up_proj", up));
  x = graft_model_linear(m, x, "down_proj", (graft_model_size){up.n_out, up.n_in});
  graft_model_pop(m);
  return x;
}

static graft_tensor *layer(graft_model *m, const layer_args *a, graft_tensor *x) {
  const graft_qwen3_config *c = a->config;
  graft_tensor *h = graft_model_rms_norm(m, x, "input_layernorm", c->hidden_size, c->norm_eps);
  x = graft_add(m->graph, x, attention(m, a, h));
  h = graft_model_rms_norm(m, x, "post_attention_layernorm", c->hidden_size, c->norm_eps);
  return graft_add(m->graph, x, feed_forward(m, a, h));
}

static void output_hidden(graft_model *m, const graft_qwen3_shape *shape, graft_tensor *x, int64_t index) {
  if (!shape->with_hidden) return;
  char name[32];
  snprintf(name, sizeof name, "hidden.%lld", (long long)index);
  graft_graph_output(m->graph, graft_cast(m->graph, x, GRAFT_F32), name);
}

void graft_qwen3_build(graft_model *m, const graft_qwen3_config *c, const graft_qwen3_shape *shape) {
  const int64_t tokens[2] = {shape->batch, shape->n_tokens};
  graft_tensor *ids = graft_model_input(m, "ids", GRAFT_I32, 2, tokens);
  const int64_t table[3] = {shape->n_tokens, c->head_dim / 2, 2};
  layer_args args = {.config = c, .shape = shape, .mask = graft_graph_none()};
  args.rotary = graft_model_input(m, "rotary", GRAFT_F32, 3, table);
  if (shape->has_mask) args.mask = graft_model_input(m, "mask", GRAFT_BOOL, 2, tokens);

  graft_tensor *words = graft_model_weight(m, "embed_tokens.weight", 2, (int64_t[]){c->vocab_size, c->hidden_size});
  graft_tensor *x = graft_embedding(m->graph, ids, words, m->dtype);
  output_hidden(m, shape, x, 0);
  for (int64_t i = 0; i < shape->n_layers; ++i) {
    graft_model_push(m, "layers.%d", (int)i);
    x = layer(m, &args, x);
    graft_model_pop(m);
    if (i + 1 == c->n_layers) x = graft_model_rms_norm(m, x, "norm", c->hidden_size, c->norm_eps);
    output_hidden(m, shape, x, i + 1);
  }
  graft_graph_output(m->graph, graft_cast(m->graph, x, GRAFT_F32), "embeds");
}

void graft_qwen3_rotary(const graft_qwen3_config *config, int64_t n_tokens, float *table) {
  const int64_t half = config->head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float exponent = (float)(2 * i) / (float)config->head_dim;
    const float frequency = 1.0f / (float)pow(config->rope_theta, (double)exponent);
    for (int64_t position = 0; position < n_tokens; ++position) {
      const double angle = (double)((float)position * frequency);
      float *entry = table + 2 * (position * half + i);
      entry[0] = (float)cos(angle);
      entry[1] = (float)sin(angle);
    }
  }
}
