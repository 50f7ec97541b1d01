// The kernels of conv2d_hopper.cu: an image is gathered with channels innermost, then multiplied with packed weights.
#include <stdlib.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/cuda/hopper.h"
#include "ops/conv2d/conv2d_cuda.h"
#include "ops/fused/conv2d_epilogue/conv2d_epilogue.h"

enum { X, WEIGHT, BIAS, GATE, RESIDUAL };  // the last two of graft.conv2d_epilogue.v1 only
enum { ITEM, CHANNEL, DOWN, ACROSS };
enum { FEW_PIXELS = 64, MANY_PIXELS = 256 };  // of a warpgroup

extern const unsigned char graft_cuda_image_conv2d_hopper[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "conv2d_hopper", .image = graft_cuda_image_conv2d_hopper};

typedef struct functions {
  graft_cuda_function *gather, *few, *many;
} functions;

static int64_t padded(int64_t channels) {
  return (channels + 7) / 8 * 8;
}

static bool is_plain(const graft_conv2d_attrs *attrs) {
  return attrs->stride[0] <= 1 && attrs->stride[1] <= 1 && attrs->groups <= 1;
}

static bool fits(const graft_tensor_desc *desc) {
  int64_t elements = 1;
  for (int32_t d = 0; d < 4; ++d) {
    if (desc->shape[d] < 1 || __builtin_mul_overflow(elements, desc->shape[d], &elements)) return false;
  }
  return desc->shape[ITEM] <= UINT16_MAX && elements / desc->shape[ITEM] < INT32_MAX / 2 && elements < INT32_MAX * 4ll;
}

static bool supports_as(const graft_node_info *node, const graft_conv2d_attrs *attrs, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *y = node->outputs[0];
  const bool is_16bit = x->dtype == GRAFT_BF16 || x->dtype == GRAFT_F16;
  if (!graft_cuda_is_hopper(node->device, why) || !graft_cuda_takes_node(node, why)) return false;
  if (!is_16bit || weight->dtype != x->dtype || y->dtype != x->dtype) {
    return graft_refuse(why, "image, weight and result are not of one 16-bit float type");
  }
  if ((node->constant_inputs >> WEIGHT & 1) == 0) return graft_refuse(why, "the weight is computed");
  if (!is_plain(attrs)) return graft_refuse(why, "strides or groups");
  const bool is_small = fits(x) && fits(y) && fits(weight) && attrs->padding[0] < INT32_MAX / 4 &&
                        attrs->padding[2] < INT32_MAX / 4 && attrs->dilation[0] < INT32_MAX / 4 &&
                        attrs->dilation[1] < INT32_MAX / 4;
  return is_small || graft_refuse(why, "nothing to do, or too much of it");
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  return supports_as(node, node->attrs, why);
}

static bool supports_epilogue(const graft_node_info *node, graft_reason *why) {
  const graft_conv2d_epilogue_attrs *attrs = node->attrs;
  const graft_tensor_desc *residual = node->inputs[RESIDUAL];
  if (node->inputs[GATE] != NULL || (residual != NULL && residual->dtype != node->inputs[X]->dtype)) {
    return graft_refuse(why, "a gate, or a residual of another type");
  }
  if (attrs->activation > GRAFT_EPILOGUE_SILU) return graft_refuse(why, "another activation than silu");
  return supports_as(node, &attrs->conv, why);
}

static graft_status load(const graft_node_info *node, graft_error *error, functions *loaded) {
  const bool is_bf16 = node->inputs[X]->dtype == GRAFT_BF16;
  const char *few = is_bf16 ? "graft_conv2d_hopper_bf16_64" : "graft_conv2d_hopper_f16_64";
  const char *many = is_bf16 ? "graft_conv2d_hopper_bf16_256" : "graft_conv2d_hopper_f16_256";
  const size_t bytes = GRAFT_CONV_HOPPER_STAGE_BYTES + GRAFT_HOPPER_SPARE_BYTES;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_conv2d_gather", 0, error, &loaded->gather));
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, few, bytes, error, &loaded->few));
  return graft_cuda_function_load(node->device, &module, many, bytes, error, &loaded->many);
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const int64_t *x = node->inputs[X]->shape, *weight = node->inputs[WEIGHT]->shape;
  functions *loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = load(node, error, loaded);
  if (status != GRAFT_OK) {
    free(loaded);
    return status;
  }
  out_prepared->state = loaded;
  out_prepared->workspace_bytes = (size_t)(x[ITEM] * x[DOWN] * x[ACROSS] * padded(x[CHANNEL]) * 2);
  out_prepared->workspace_alignment = 128;
  out_prepared->n_packed = 1;
  out_prepared->packed[0] = (graft_packed_input){
      .input = WEIGHT,
      .bytes = (size_t)(weight[DOWN] * weight[ACROSS] * weight[ITEM] * padded(weight[CHANNEL]) * 2),
      .alignment = 128,
      .layout = "conv2d_taps_filters_channels8",
  };
  return GRAFT_OK;
}

// [taps][filters][channels, a multiple of eight].
static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  const graft_tensor_desc *weight = node->inputs[input];
  const int64_t *shape = weight->shape, *strides = weight->strides, n_padded = padded(shape[CHANNEL]);
  (void)state;
  for (int64_t tap = 0; tap < shape[DOWN] * shape[ACROSS]; ++tap) {
    const int64_t shift = tap / shape[ACROSS] * strides[DOWN] + tap % shape[ACROSS] * strides[ACROSS];
    for (int64_t o = 0; o < shape[ITEM]; ++o) {
      char *row = (char *)packed + (tap * shape[ITEM] + o) * n_padded * 2;
      const char *from = (const char *)source + shift + o * strides[ITEM];
      for (int64_t c = 0; c < shape[CHANNEL]; ++c) memcpy(row + c * 2, from + c * strides[CHANNEL], 2);
      memset(row + shape[CHANNEL] * 2, 0, (size_t)(n_padded - shape[CHANNEL]) * 2);
    }
  }
  return GRAFT_OK;
}

static graft_status encode_gather(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *x = args->node->inputs[X];
  graft_conv2d_gather_params params = {.x = args->inputs[X],
                                       .out = args->workspace,
                                       .n_channels = (int32_t)x->shape[CHANNEL],
                                       .padded_channels = (int32_t)padded(x->shape[CHANNEL]),
                                       .width = (int32_t)x->shape[ACROSS],
                                       .n_pixels = (int32_t)(x->shape[DOWN] * x->shape[ACROSS])};
  params.n_channel_blocks = (params.padded_channels + GRAFT_CONV_GATHER_CHANNELS - 1) / GRAFT_CONV_GATHER_CHANNELS;
  uintptr_t bits = (uintptr_t)params.x;
  for (int d = 0; d < 4; ++d) params.x_strides[d] = x->shape[d] == 1 ? 0 : x->strides[d];
  bits |= (uintptr_t)params.x_strides[ITEM] | (uintptr_t)params.x_strides[CHANNEL];
  const bool is_row = x->shape[ACROSS] == 1 || x->strides[ACROSS] == 2;
  const bool is_plane = is_row && (x->shape[DOWN] == 1 || x->strides[DOWN] == 2 * x->shape[ACROSS]);
  params.is_wide = is_plane && bits % 16 == 0 && params.n_pixels % 8 == 0;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = ((const functions *)args->state)->gather,
      .grid = {(uint32_t)((params.n_pixels + GRAFT_CONV_GATHER_PIXELS - 1) / GRAFT_CONV_GATHER_PIXELS *
                          params.n_channel_blocks),
               (uint32_t)x->shape[ITEM], 1},
      .block = {256, 1, 1},
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, args->error);
}

// Tiles that a rectangle of |pixels| pixels and 2^|log2| across makes of the result.
static int64_t n_tiles_of(const graft_conv2d_hopper_params *params, int64_t pixels, int32_t log2) {
  const int64_t width = (int64_t)1 << log2, height = pixels >> log2;
  return (params->common.out_width + width - 1) / width * ((params->common.out_height + height - 1) / height);
}

// The rectangle that leaves least empty, the widest of equals.
static int64_t choose_rectangle(graft_conv2d_hopper_params *params, int64_t pixels) {
  int64_t best = INT64_MAX;
  for (int32_t log2 = 3; (int64_t)1 << log2 <= pixels; ++log2) {
    const int64_t n = n_tiles_of(params, pixels, log2);
    if (n > best) continue;
    best = n;
    params->tile_width_log2 = log2;
  }
  const int64_t width = (int64_t)1 << params->tile_width_log2;
  params->tile_height = (int32_t)(pixels / width);
  params->tiles_across = (int32_t)((params->common.out_width + width - 1) / width);
  params->tiles_down = (params->common.out_height + params->tile_height - 1) / params->tile_height;
  return best;
}

// Cuts the result into tiles of |channels| channels; returns about how long they take.
static double choose_tiles(const graft_encode_args *args, int64_t channels, int64_t pixels, double seconds,
                           graft_conv2d_hopper_params *params) {
  const int64_t n_blocks = graft_cuda_describe(args->node->device)->n_multiprocessors;
  const int64_t n_items = args->node->outputs[0]->shape[ITEM];
  params->tile_channels = (int32_t)channels;
  params->n_channel_tiles = (int32_t)((params->common.out_channels + channels - 1) / channels);
  const int64_t n_tiles = choose_rectangle(params, pixels) * params->n_channel_tiles * n_items;
  params->n_tiles = (int32_t)n_tiles;  // no more than a result has elements by eight
  return seconds * (double)((n_tiles + n_blocks - 1) / n_blocks);
}

// Small tiles where large ones would leave much of the card without work: they need twice the bandwidth of the cache.
static bool choose_many(const graft_encode_args *args, graft_conv2d_hopper_params *params) {
  graft_conv2d_hopper_params many = *params;
  if (params->common.out_channels <= 64) {
    (void)choose_tiles(args, 64, 2 * FEW_PIXELS, 1, params);
    return false;
  }
  const double few_seconds = choose_tiles(args, 128, FEW_PIXELS, 5, params);
  if (choose_tiles(args, 128, MANY_PIXELS, 12, &many) >= few_seconds) return false;
  *params = many;
  return true;
}

static graft_status map_pixels(const graft_encode_args *args, graft_conv2d_hopper_params *params) {
  const int64_t *shape = args->node->inputs[X]->shape;
  const uint64_t pixel = (uint64_t)padded(shape[CHANNEL]) * 2, row = pixel * (uint64_t)shape[ACROSS];
  const graft_cuda_tiled_tensor tensor = {
      .struct_size = sizeof tensor,
      .data = args->workspace,
      .element_bytes = 2,
      .rank = 4,
      .shape = {(uint64_t)shape[CHANNEL], (uint64_t)shape[ACROSS], (uint64_t)shape[DOWN], (uint64_t)shape[ITEM]},
      .strides = {2, pixel, row, row * (uint64_t)shape[DOWN]},
      .box = {GRAFT_HOPPER_TILE, 1u << params->tile_width_log2, (uint32_t)params->tile_height, 1},
      .swizzle_bytes = 128,
  };
  return graft_cuda_tensor_map_encode(args->node->device, &tensor, args->error, &params->pixels);
}

static graft_status map_weights(const graft_encode_args *args, graft_conv2d_hopper_params *params) {
  const int64_t *shape = args->node->inputs[WEIGHT]->shape;
  const uint64_t row = (uint64_t)padded(shape[CHANNEL]) * 2;
  const graft_cuda_tiled_tensor tensor = {
      .struct_size = sizeof tensor,
      .data = args->inputs[WEIGHT],
      .element_bytes = 2,
      .rank = 3,
      .shape = {(uint64_t)shape[CHANNEL], (uint64_t)shape[ITEM], (uint64_t)(shape[DOWN] * shape[ACROSS])},
      .strides = {2, row, row * (uint64_t)shape[ITEM]},
      .box = {GRAFT_HOPPER_TILE, (uint32_t)params->tile_channels, 1},
      .swizzle_bytes = 128,
  };
  return graft_cuda_tensor_map_encode(args->node->device, &tensor, args->error, &params->weights);
}

static bool has_fours(const graft_cuda_operand *operand, const int64_t strides[4]) {
  const uintptr_t bits =
      (uintptr_t)operand->data | (uintptr_t)strides[ITEM] | (uintptr_t)strides[CHANNEL] | (uintptr_t)strides[DOWN];
  return operand->data == NULL || (strides[ACROSS] == 2 && bits % 8 == 0);
}

static graft_status encode_as(graft_encoder *encoder, const graft_encode_args *args, const graft_conv2d_attrs *attrs,
                              int32_t activation) {
  const functions *loaded = args->state;
  graft_conv2d_hopper_params params = {.common = {.activation = activation}};
  graft_conv2d_params *common = &params.common;
  graft_conv2d_cuda_describe(args, attrs, common);
  params.n_parts = (common->in_channels + GRAFT_HOPPER_TILE - 1) / GRAFT_HOPPER_TILE;
  params.has_fours = common->out_width % 4 == 0 && has_fours(&common->y, common->y_strides) &&
                     has_fours(&common->residual, common->residual_strides);
  const bool is_many = choose_many(args, &params);
  GRAFT_TRY(map_pixels(args, &params));
  GRAFT_TRY(map_weights(args, &params));
  GRAFT_TRY(encode_gather(encoder, args));
  const int32_t n_blocks = graft_cuda_describe(args->node->device)->n_multiprocessors;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = is_many ? loaded->many : loaded->few,
      .grid = {(uint32_t)(params.n_tiles < n_blocks ? params.n_tiles : n_blocks), 1, 1},
      .block = {GRAFT_HOPPER_THREADS, 1, 1},
      .shared_bytes = GRAFT_CONV_HOPPER_STAGE_BYTES + GRAFT_HOPPER_SPARE_BYTES,
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_as(encoder, args, args->node->attrs, 0);
}

static graft_status encode_epilogue(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_conv2d_epilogue_attrs *attrs = args->node->attrs;
  return encode_as(encoder, args, &attrs->conv, attrs->activation);
}

#define KERNEL(verb, supports_function, encode_function)                                                            \
  {                                                                                                                 \
    .struct_size = sizeof(graft_kernel_def), .priority = 20, .name = #verb "_16bit_hopper__cuda",                   \
    .op = "graft." #verb ".v1", .backend = "cuda", .supports = supports_function, .prepare = prepare, .pack = pack, \
    .encode = encode_function, .destroy = free, .traits = GRAFT_KERNEL_ANY_OUTPUT                                   \
  }

static const graft_kernel_def kernels[] = {KERNEL(conv2d, supports, encode),
                                           KERNEL(conv2d_epilogue, supports_epilogue, encode_epilogue)};

extern const graft_extension graft_extension_conv2d_hopper_cuda;
const graft_extension graft_extension_conv2d_hopper_cuda = {
    .struct_size = sizeof graft_extension_conv2d_hopper_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.conv2d_hopper_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
