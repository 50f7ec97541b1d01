#include "tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "diffusion/samplers/noise.h"
#include "formats/safetensors_writer.h"

enum { MAX_TENSORS = 160, VOCABULARY = 260, TEXT = 8, DIM = 16, HEAD = 8, FEED = 24, TIME = 8 };

static const char model_index[] =
    "{\"_class_name\": \"ZImagePipeline\", \"text_encoder\": [\"transformers\", \"Qwen3Model\"],"
    " \"tokenizer\": [\"transformers\", \"Qwen2Tokenizer\"],"
    " \"transformer\": [\"diffusers\", \"ZImageTransformer2DModel\"], \"vae\": [\"diffusers\", \"AutoencoderKL\"],"
    " \"scheduler\": [\"diffusers\", \"FlowMatchEulerDiscreteScheduler\"]}";
static const char defaults[] = "{\"width\": 16, \"height\": 16, \"steps\": 2, \"guidance\": 2}";
static const char text_config[] =
    "{\"vocab_size\": 260, \"hidden_size\": 8, \"intermediate_size\": 12, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 4, \"max_position_embeddings\": 512}";
static const char transformer_config[] =
    "{\"_class_name\": \"ZImageTransformer2DModel\", \"dim\": 16, \"n_heads\": 2, \"n_layers\": 1,"
    " \"n_refiner_layers\": 1, \"in_channels\": 4, \"cap_feat_dim\": 8, \"axes_dims\": [4, 2, 2],"
    " \"axes_lens\": [100, 8, 8]}";
static const char vae_config[] =
    "{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": [4, 8], \"norm_num_groups\": 2,"
    " \"latent_channels\": 4, \"use_quant_conv\": false, \"use_post_quant_conv\": false, \"scaling_factor\": 0.5,"
    " \"shift_factor\": 0.1}";
static const char scheduler_config[] =
    "{\"_class_name\": \"FlowMatchEulerDiscreteScheduler\", \"shift\": 3.0, \"num_train_timesteps\": 1000}";
static const char tokenizer_config[] =
    "{\"model_max_length\": 512, \"chat_template\": \"<|im_start|>\", \"added_tokens_decoder\": {"
    "\"257\": {\"content\": \"<|endoftext|>\", \"special\": true}, \"258\": {\"content\": \"<|im_start|>\","
    " \"special\": true}, \"259\": {\"content\": \"<|im_end|>\", \"special\": true}}}";

// The tensors of one part while they are listed.
typedef struct tensor_list {
  const tiny_fault *fault;
  graft_safetensors_source tensors[MAX_TENSORS];
  char names[MAX_TENSORS][128];
  size_t n;
  char prefix[64];
} tensor_list;

static void must(bool is_true, const char *what) {
  if (is_true) return;
  fprintf(stderr, "tiny_model: %s\n", what);
  abort();
}

static bool is_named(const char *fault, const char *name) {
  return fault && strcmp(fault, name) == 0;
}

// A tensor of values around |centre|: norms are about 1, all else about 0.
static void add(tensor_list *list, const char *name, float centre, int32_t rank, const int64_t *shape) {
  must(list->n < MAX_TENSORS, "too many tensors");
  char *full = list->names[list->n];
  snprintf(full, sizeof list->names[0], "%s%s", list->prefix, name);
  if (is_named(list->fault->dropped, full)) return;
  graft_safetensors_source *t = &list->tensors[list->n];
  *t = (graft_safetensors_source){.name = full, .dtype = GRAFT_F32, .rank = rank};
  memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
  if (is_named(list->fault->integer, full)) t->dtype = GRAFT_I32;
  if (is_named(list->fault->reshaped, full)) ++t->shape[0];
  size_t n = 1;
  for (int32_t d = 0; d < rank; ++d) n *= (size_t)t->shape[d];
  float *values = malloc(n * sizeof *values);
  must(values, "out of memory");
  graft_noise_fill(1000 + list->n, values, n);
  for (size_t i = 0; i < n; ++i) values[i] = centre + 0.2f * values[i];
  t->data = values;
  ++list->n;
}

static void add_vector(tensor_list *list, const char *name, int64_t n) {
  add(list, name, 0, 1, &n);
}

static void add_scale(tensor_list *list, const char *name, int64_t n) {
  add(list, name, 1, 1, &n);
}

static void add_matrix(tensor_list *list, const char *name, int64_t n_out, int64_t n_in) {
  add(list, name, 0, 2, (int64_t[]){n_out, n_in});
}

static void add_linear(tensor_list *list, const char *name, int64_t n_out, int64_t n_in) {
  char full[64];
  snprintf(full, sizeof full, "%s.weight", name);
  add_matrix(list, full, n_out, n_in);
  snprintf(full, sizeof full, "%s.bias", name);
  add_vector(list, full, n_out);
}

static void add_conv(tensor_list *list, const char *name, int64_t n_out, int64_t n_in, int64_t kernel) {
  char full[64];
  snprintf(full, sizeof full, "%s.weight", name);
  add(list, full, 0, 4, (int64_t[]){n_out, n_in, kernel, kernel});
  snprintf(full, sizeof full, "%s.bias", name);
  add_vector(list, full, n_out);
}

static void add_norm(tensor_list *list, const char *name, int64_t n) {
  char full[64];
  snprintf(full, sizeof full, "%s.weight", name);
  add_scale(list, full, n);
  snprintf(full, sizeof full, "%s.bias", name);
  add_vector(list, full, n);
}

static void add_text_encoder(tensor_list *list) {
  snprintf(list->prefix, sizeof list->prefix, "model.");
  add_matrix(list, "embed_tokens.weight", VOCABULARY, TEXT);
  add_scale(list, "norm.weight", TEXT);
  for (int i = 0; i < 2; ++i) {
    snprintf(list->prefix, sizeof list->prefix, "model.layers.%d.", i);
    add_scale(list, "input_layernorm.weight", TEXT);
    add_scale(list, "post_attention_layernorm.weight", TEXT);
    add_matrix(list, "self_attn.q_proj.weight", 8, TEXT);
    add_matrix(list, "self_attn.k_proj.weight", 4, TEXT);
    add_matrix(list, "self_attn.v_proj.weight", 4, TEXT);
    add_matrix(list, "self_attn.o_proj.weight", TEXT, 8);
    add_scale(list, "self_attn.q_norm.weight", 4);
    add_scale(list, "self_attn.k_norm.weight", 4);
    add_matrix(list, "mlp.gate_proj.weight", 12, TEXT);
    add_matrix(list, "mlp.up_proj.weight", 12, TEXT);
    add_matrix(list, "mlp.down_proj.weight", TEXT, 12);
  }
}

static void add_block(tensor_list *list, const char *name, bool is_modulated) {
  static const char *const projections[] = {"attention.to_q.weight", "attention.to_k.weight", "attention.to_v.weight",
                                            "attention.to_out.0.weight"};
  static const char *const norms[] = {"attention_norm1.weight", "attention_norm2.weight", "ffn_norm1.weight",
                                      "ffn_norm2.weight"};
  snprintf(list->prefix, sizeof list->prefix, "%s.0.", name);
  for (int i = 0; i < 4; ++i) {
    add_matrix(list, projections[i], DIM, DIM);
    add_scale(list, norms[i], DIM);
  }
  add_scale(list, "attention.norm_q.weight", HEAD);
  add_scale(list, "attention.norm_k.weight", HEAD);
  add_matrix(list, "feed_forward.w1.weight", FEED, DIM);
  add_matrix(list, "feed_forward.w2.weight", DIM, FEED);
  add_matrix(list, "feed_forward.w3.weight", FEED, DIM);
  if (is_modulated) add_linear(list, "adaLN_modulation.0", 4 * DIM, TIME);
}

static void add_transformer(tensor_list *list) {
  const int64_t patch = 4 * TINY_CHANNELS;
  list->prefix[0] = '\0';
  add_linear(list, "all_x_embedder.2-1", DIM, patch);
  add_linear(list, "all_final_layer.2-1.linear", patch, DIM);
  add_linear(list, "all_final_layer.2-1.adaLN_modulation.1", DIM, TIME);
  add_linear(list, "t_embedder.mlp.0", 32, 12);
  add_linear(list, "t_embedder.mlp.2", TIME, 32);
  add_scale(list, "cap_embedder.0.weight", TEXT);
  add_linear(list, "cap_embedder.1", DIM, TEXT);
  add_matrix(list, "x_pad_token", 1, DIM);
  add_matrix(list, "cap_pad_token", 1, DIM);
  add_block(list, "noise_refiner", true);
  add_block(list, "context_refiner", false);
  add_block(list, "layers", true);
  list->prefix[0] = '\0';
  if (list->fault->has_empty) add_matrix(list, "empty", INT64_C(1) << 40, 0);
}

static void add_resnet(tensor_list *list, const char *name, int64_t n_in, int64_t n_out) {
  snprintf(list->prefix, sizeof list->prefix, "decoder.%s.", name);
  add_norm(list, "norm1", n_in);
  add_conv(list, "conv1", n_out, n_in, 3);
  add_norm(list, "norm2", n_out);
  add_conv(list, "conv2", n_out, n_out, 3);
  if (n_in != n_out) add_conv(list, "conv_shortcut", n_out, n_in, 1);
}

static void add_decoder(tensor_list *list) {
  snprintf(list->prefix, sizeof list->prefix, "decoder.");
  add_conv(list, "conv_in", 8, TINY_CHANNELS, 3);
  add_norm(list, "mid_block.attentions.0.group_norm", 8);
  add_linear(list, "mid_block.attentions.0.to_q", 8, 8);
  add_linear(list, "mid_block.attentions.0.to_k", 8, 8);
  add_linear(list, "mid_block.attentions.0.to_v", 8, 8);
  add_linear(list, "mid_block.attentions.0.to_out.0", 8, 8);
  add_conv(list, "up_blocks.0.upsamplers.0.conv", 8, 8, 3);
  add_norm(list, "conv_norm_out", 4);
  add_conv(list, "conv_out", 3, 4, 3);
  add_resnet(list, "mid_block.resnets.0", 8, 8);
  add_resnet(list, "mid_block.resnets.1", 8, 8);
  add_resnet(list, "up_blocks.0.resnets.0", 8, 8);
  add_resnet(list, "up_blocks.0.resnets.1", 8, 8);
  add_resnet(list, "up_blocks.1.resnets.0", 8, 4);
  add_resnet(list, "up_blocks.1.resnets.1", 4, 4);
}

static void make_part(const temp_folder *folder, const char *part, const char *config_name, const char *config) {
  char name[96];
  must(mkdir(temp_folder_join(folder, part).text, 0700) == 0, "cannot make a folder");
  snprintf(name, sizeof name, "%s/%s", part, config_name);
  temp_folder_write_text(folder, name, config);
}

typedef void (*list_fn)(tensor_list *list);

static void write_weights(const temp_folder *folder, const char *file, list_fn fill, const tiny_fault *fault) {
  tensor_list *list = calloc(1, sizeof *list);
  graft_error error = {0};
  must(list, "out of memory");
  list->fault = fault;
  fill(list);
  const graft_safetensors_contents contents = {.tensors = list->tensors, .n_tensors = list->n};
  must(graft_safetensors_write(temp_folder_join(folder, file).text, &contents, &error) == GRAFT_OK, error.message);
  for (size_t i = 0; i < list->n; ++i) free((void *)(uintptr_t)list->tensors[i].data);
  free(list);
}

// Every byte is a token, written as byte-level tokenizers write bytes: the printable ones of Latin-1 stand for
// themselves, the others for code points from 256 on.
static void write_vocabulary(const temp_folder *folder) {
  char text[8192] = "{";
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    const size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s\"\\u%04x\": %d", byte ? ", " : "", is_itself ? byte : next++, byte);
  }
  strcat(text, ", \"at\": 256}");
  temp_folder_write_text(folder, "tokenizer/vocab.json", text);
  temp_folder_write_text(folder, "tokenizer/merges.txt", "#version: 0.2\na t\n");
}

void tiny_model_write(const temp_folder *folder, const tiny_fault *fault) {
  const tiny_fault none = {0};
  if (!fault) fault = &none;
  temp_folder_write_text(folder, "model_index.json", model_index);
  temp_folder_write_text(folder, "graft_defaults.json", defaults);
  make_part(folder, "tokenizer", "tokenizer_config.json", tokenizer_config);
  write_vocabulary(folder);
  make_part(folder, "text_encoder", "config.json", text_config);
  write_weights(folder, "text_encoder/model.safetensors", add_text_encoder, fault);
  make_part(folder, "transformer", "config.json", transformer_config);
  write_weights(folder, "transformer/diffusion_pytorch_model.safetensors", add_transformer, fault);
  make_part(folder, "vae", "config.json", vae_config);
  write_weights(folder, "vae/diffusion_pytorch_model.safetensors", add_decoder, fault);
  make_part(folder, "scheduler", "scheduler_config.json", scheduler_config);
}
