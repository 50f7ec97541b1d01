#include "large_model.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_SHARDS = 3, HEADER_BYTES = 1 << 20, DIM = 3840, FEED = 10240, CAPTION = 2560 };

static const char config[] =
    "{\"_class_name\": \"ZImageTransformer2DModel\", \"all_f_patch_size\": [1], \"all_patch_size\": [2],"
    " \"axes_dims\": [32, 48, 48], \"axes_lens\": [1536, 512, 512], \"cap_feat_dim\": 2560, \"dim\": 3840,"
    " \"in_channels\": 16, \"n_heads\": 30, \"n_kv_heads\": 30, \"n_layers\": 30, \"n_refiner_layers\": 2,"
    " \"norm_eps\": 1e-05, \"qk_norm\": true, \"rope_theta\": 256.0, \"t_scale\": 1000.0}";

typedef struct shard {
  char *header;
  size_t used;
  uint64_t data_bytes;
} shard;

typedef struct writer {
  shard shards[N_SHARDS];
  char *index;
  size_t index_used;
  uint32_t n_tensors;
} writer;

// Shards take tensors in turn. A height of 0 makes a vector.
static void add(writer *w, const char *prefix, const char *name, int64_t height, int64_t width) {
  const uint32_t number = w->n_tensors % N_SHARDS;
  shard *s = &w->shards[number];
  const uint64_t bytes = 4u * (uint64_t)(height ? height * width : width);
  char shape[64];
  if (height) snprintf(shape, sizeof shape, "%lld,%lld", (long long)height, (long long)width);
  else snprintf(shape, sizeof shape, "%lld", (long long)width);
  s->used += (size_t)snprintf(s->header + s->used, HEADER_BYTES - s->used,
                              "%s\"%s%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                              s->data_bytes ? "," : "{", prefix, name, shape, (unsigned long long)s->data_bytes,
                              (unsigned long long)(s->data_bytes + bytes));
  s->data_bytes += bytes;
  w->index_used +=
      (size_t)snprintf(w->index + w->index_used, HEADER_BYTES - w->index_used, "%s\"%s%s\":\"part-%u.safetensors\"",
                       w->n_tensors ? "," : "{\"weight_map\":{", prefix, name, number);
  ++w->n_tensors;
}

static void add_block(writer *w, const char *name, int index, bool is_modulated) {
  char prefix[64];
  snprintf(prefix, sizeof prefix, "%s.%d.", name, index);
  add(w, prefix, "attention.to_q.weight", DIM, DIM);
  add(w, prefix, "attention.to_k.weight", DIM, DIM);
  add(w, prefix, "attention.to_v.weight", DIM, DIM);
  add(w, prefix, "attention.to_out.0.weight", DIM, DIM);
  add(w, prefix, "attention.norm_q.weight", 0, 128);
  add(w, prefix, "attention.norm_k.weight", 0, 128);
  add(w, prefix, "feed_forward.w1.weight", FEED, DIM);
  add(w, prefix, "feed_forward.w2.weight", DIM, FEED);
  add(w, prefix, "feed_forward.w3.weight", FEED, DIM);
  add(w, prefix, "attention_norm1.weight", 0, DIM);
  add(w, prefix, "attention_norm2.weight", 0, DIM);
  add(w, prefix, "ffn_norm1.weight", 0, DIM);
  add(w, prefix, "ffn_norm2.weight", 0, DIM);
  if (!is_modulated) return;
  add(w, prefix, "adaLN_modulation.0.weight", 4 * DIM, 256);
  add(w, prefix, "adaLN_modulation.0.bias", 0, 4 * DIM);
}

static void add_linear(writer *w, const char *prefix, int64_t n_out, int64_t n_in) {
  add(w, prefix, "weight", n_out, n_in);
  add(w, prefix, "bias", 0, n_out);
}

static void add_all(writer *w) {
  add_linear(w, "all_x_embedder.2-1.", DIM, 64);
  add_linear(w, "all_final_layer.2-1.linear.", 64, DIM);
  add_linear(w, "all_final_layer.2-1.adaLN_modulation.1.", DIM, 256);
  add_linear(w, "t_embedder.mlp.0.", 1024, 256);
  add_linear(w, "t_embedder.mlp.2.", 256, 1024);
  add(w, "cap_embedder.0.", "weight", 0, CAPTION);
  add_linear(w, "cap_embedder.1.", DIM, CAPTION);
  add(w, "", "x_pad_token", 1, DIM);
  add(w, "", "cap_pad_token", 1, DIM);
  for (int i = 0; i < 2; ++i) add_block(w, "noise_refiner", i, true);
  for (int i = 0; i < 2; ++i) add_block(w, "context_refiner", i, false);
  for (int i = 0; i < 30; ++i) add_block(w, "layers", i, true);
}

static void write_shard(const temp_folder *folder, uint32_t number, shard *s) {
  char name[64];
  s->used += (size_t)snprintf(s->header + s->used, HEADER_BYTES - s->used, "}");
  while (s->used % 8) s->header[s->used++] = ' ';
  snprintf(name, sizeof name, "transformer/part-%u.safetensors", number);
  const int fd = open(temp_folder_join(folder, name).text, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const uint64_t length = s->used;
  assert_true(fd >= 0);
  assert_int_equal(write(fd, &length, sizeof length), sizeof length);
  assert_int_equal(write(fd, s->header, s->used), s->used);
  assert_int_equal(ftruncate(fd, (off_t)(8 + s->used + s->data_bytes)), 0);
  close(fd);
}

void large_model_write(const temp_folder *folder) {
  writer w = {.index = malloc(HEADER_BYTES)};
  assert_non_null(w.index);
  for (uint32_t i = 0; i < N_SHARDS; ++i) assert_non_null(w.shards[i].header = malloc(HEADER_BYTES));
  add_all(&w);
  assert_int_equal(mkdir(temp_folder_join(folder, "transformer").text, 0700), 0);
  temp_folder_write_text(folder, "transformer/config.json", config);
  for (uint32_t i = 0; i < N_SHARDS; ++i) {
    write_shard(folder, i, &w.shards[i]);
    free(w.shards[i].header);
  }
  snprintf(w.index + w.index_used, HEADER_BYTES - w.index_used, "}}");
  temp_folder_write_text(folder, "transformer/diffusion_pytorch_model.safetensors.index.json", w.index);
  free(w.index);
}
