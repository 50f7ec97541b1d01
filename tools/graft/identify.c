#include "tools/graft/identify.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct magic {
  const char *bytes;
  size_t n;
  const char *what;
} magic;

static const magic magics[] = {
    {"GGUF", 4, "a GGUF model, which graft does not read yet; use the safetensors version of the model"},
    {"PK\x03\x04", 4,
     "a ZIP archive or a PyTorch checkpoint (.ckpt, .pt); graft reads safetensors only, which hold no code"},
    {"\x80\x02", 2, "a Python pickle (.ckpt, .pt); graft reads safetensors only, which hold no code"},
    {"\x89PNG", 4, "a PNG picture, not a model"},
    {"\xFF\xD8\xFF", 3, "a JPEG picture, not a model"},
    {"version https://git-lfs", 23, "a Git LFS pointer: the file itself was not downloaded; run git lfs pull"},
    {"<!DOCTYPE", 9, "a web page: the download gave an error page or asked for a login"},
    {"<html", 5, "a web page: the download gave an error page or asked for a login"},
    {"Entry not found", 15, "the answer of a download that failed: the file's name is wrong"},
    {"{", 1, "JSON text; to inspect a model give its folder"},
    {"\x7F"
     "ELF",
     4, "a program, not a model"},
};

const char *tool_identify_bytes(const unsigned char *head, size_t n) {
  if (n == 0) return "an empty file";
  // Web pages begin with any number of empty lines, in large or small letters.
  for (; n > 0 && strchr(" \t\r\n", *head) != NULL && *head != '\0'; --n) ++head;
  for (size_t i = 0; i < sizeof magics / sizeof magics[0]; ++i)
    if (n >= magics[i].n && strncasecmp((const char *)head, magics[i].bytes, magics[i].n) == 0) return magics[i].what;
  return NULL;
}

// A network is known by tensors that no other has; the names of both the original and the diffusers files.
typedef struct family {
  const char *what;
  const char *tensor;
} family;

static const family families[] = {
    {"Z-Image transformer", "noise_refiner.0.attention.to_q.weight"},
    {"Z-Image transformer (ComfyUI names)", "noise_refiner.0.attention.qkv.weight"},
    {"Flux transformer", "double_blocks.0.img_attn.qkv.weight"},
    {"Flux transformer (diffusers names)", "single_transformer_blocks.0.proj_mlp.weight"},
    {"Qwen-Image transformer", "transformer_blocks.0.img_mod.1.weight"},
    {"Stable Diffusion 3 transformer", "joint_blocks.0.x_block.attn.qkv.weight"},
    {"Stable Diffusion UNet", "input_blocks.0.0.weight"},
    {"Stable Diffusion UNet (diffusers names)", "down_blocks.0.resnets.0.time_emb_proj.weight"},
    {"Wan transformer", "blocks.0.self_attn.norm_q.weight"},
    {"LTX-Video transformer", "patchify_proj.weight"},
    {"Qwen3 text encoder", "layers.0.self_attn.q_norm.weight"},
    {"Qwen2.5-VL text encoder", "visual.blocks.0.attn.qkv.weight"},
    {"CLIP text encoder", "text_model.encoder.layers.0.self_attn.q_proj.weight"},
    {"T5 text encoder", "encoder.block.0.layer.0.SelfAttention.q.weight"},
    {"AutoencoderKL (diffusers names)", "decoder.up_blocks.0.resnets.0.conv1.weight"},
    {"AutoencoderKL", "decoder.up.0.block.0.conv1.weight"},
};

static const char *const prefixes[] = {"", "model.", "model.diffusion_model.", "first_stage_model.", "vae."};

const char *tool_identify_tensors(const graft_safetensors *file) {
  char name[160];
  for (size_t i = 0; i < sizeof families / sizeof families[0]; ++i) {
    for (size_t j = 0; j < sizeof prefixes / sizeof prefixes[0]; ++j) {
      snprintf(name, sizeof name, "%s%s", prefixes[j], families[i].tensor);
      if (graft_safetensors_find(file, name) != NULL) return families[i].what;
    }
  }
  return NULL;
}
