// CUDA kernels of graft.conv2d.v1 and graft.conv2d_epilogue.v1, which share their device code.
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/conv2d/conv2d_cuda.h"
#include "ops/fused/conv2d_epilogue/conv2d_epilogue.h"

enum { X, WEIGHT, BIAS, GATE, RESIDUAL };  // the last two of graft.conv2d_epilogue.v1 only
enum { ITEM, CHANNEL, DOWN, ACROSS };

extern const unsigned char graft_cuda_image_conv2d[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "conv2d", .image = graft_cuda_image_conv2d};

extern const unsigned char graft_cuda_image_conv2d_mma[];
static const graft_cuda_module mma_module = {
    .struct_size = sizeof mma_module, .name = "conv2d_mma", .image = graft_cuda_image_conv2d_mma};

// The kernel for any tensors, and where dtypes and layouts allow it, one for tensor cores.
typedef struct functions {
  graft_cuda_function *tiles, *mma;
} functions;

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *const tensors[] = {node->inputs[X], node->inputs[WEIGHT], node->outputs[0]};
  if (!graft_cuda_takes_node(node, why)) return false;
  for (int i = 0; i < 3; ++i) {
    for (int32_t d = CHANNEL; d < 4; ++d) {
      if (tensors[i]->shape[d] > INT32_MAX / 4) return graft_refuse(why, "an image or kernel is too large");
    }
  }
  const int64_t depth =
      node->inputs[WEIGHT]->shape[1] * node->inputs[WEIGHT]->shape[2] * node->inputs[WEIGHT]->shape[3];
  return depth <= INT32_MAX / 2 || graft_refuse(why, "more than 2^30 products for a pixel");
}

static bool can_use_mma(const graft_node_info *node) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT];
  const graft_cuda_info *info = graft_cuda_describe(node->device);
  return (x->dtype == GRAFT_BF16 || x->dtype == GRAFT_F16) && weight->dtype == x->dtype &&
         graft_tensor_desc_is_dense_from(weight, CHANNEL) && info != NULL && info->compute_major >= 8;
}

static graft_status load(const graft_node_info *node, graft_error *error, functions *loaded) {
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_conv2d_tiles", 0, error, &loaded->tiles));
  if (!can_use_mma(node)) return GRAFT_OK;
  const char *name = node->inputs[X]->dtype == GRAFT_BF16 ? "graft_conv2d_bf16" : "graft_conv2d_f16";
  return graft_cuda_function_load(node->device, &mma_module, name, 0, error, &loaded->mma);
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  functions *loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = load(node, error, loaded);
  if (status != GRAFT_OK) {
    free(loaded);
    return status;
  }
  out_prepared->state = loaded;
  return GRAFT_OK;
}

// Fills an operand and its strides, 0 where it is broadcast to four dimensions.
static void add(const graft_tensor_desc *desc, void *data, graft_cuda_operand *out_operand, int64_t strides[4]) {
  if (desc == NULL) return;
  *out_operand = (graft_cuda_operand){.data = data, .type = (int32_t)desc->dtype->code};
  for (int32_t d = 0; d < 4; ++d) {
    const int32_t own = d - (4 - desc->rank);
    strides[d] = own < 0 || desc->shape[own] == 1 ? 0 : desc->strides[own];
  }
}

static const graft_tensor_desc *input_at(const graft_node_info *node, uint32_t input) {
  return input < node->n_inputs ? node->inputs[input] : NULL;
}

void graft_conv2d_cuda_describe(const graft_encode_args *args, const graft_conv2d_attrs *attrs,
                                graft_conv2d_params *params) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *y = node->outputs[0];
  const graft_tensor_desc *bias = input_at(node, BIAS), *gate = input_at(node, GATE);
  const graft_tensor_desc *residual = input_at(node, RESIDUAL);
  add(y, args->outputs[0], &params->y, params->y_strides);
  add(x, args->inputs[X], &params->x, params->x_strides);
  add(weight, args->inputs[WEIGHT], &params->weight, params->weight_strides);
  if (gate != NULL) add(gate, args->inputs[GATE], &params->gate, params->gate_strides);
  if (residual != NULL) add(residual, args->inputs[RESIDUAL], &params->residual, params->residual_strides);
  if (bias != NULL) {
    params->bias = (graft_cuda_operand){.data = args->inputs[BIAS], .type = (int32_t)bias->dtype->code};
    params->bias_step = bias->strides[0];
  }
  params->groups = attrs->groups > 0 ? (int32_t)attrs->groups : 1;
  params->in_channels = (int32_t)weight->shape[CHANNEL];
  params->out_channels = (int32_t)(weight->shape[ITEM] / params->groups);
  params->height = (int32_t)x->shape[DOWN];
  params->width = (int32_t)x->shape[ACROSS];
  params->out_height = (int32_t)y->shape[DOWN];
  params->out_width = (int32_t)y->shape[ACROSS];
  params->kernel_height = (int32_t)weight->shape[DOWN];
  params->kernel_width = (int32_t)weight->shape[ACROSS];
  for (int i = 0; i < 2; ++i) {
    params->stride[i] = attrs->stride[i] > 0 ? (int32_t)attrs->stride[i] : 1;
    params->dilation[i] = attrs->dilation[i] > 0 ? (int32_t)attrs->dilation[i] : 1;
    params->padding[i] = (int32_t)attrs->padding[2 * i];
  }
  params->n_pixels = y->shape[ITEM] * y->shape[DOWN] * y->shape[ACROSS];
}

static graft_status encode_as(graft_encoder *encoder, const graft_encode_args *args, const graft_conv2d_attrs *attrs,
                              int32_t activation) {
  graft_conv2d_params params = {.activation = activation};
  graft_conv2d_cuda_describe(args, attrs, &params);
  if (params.n_pixels == 0 || params.out_channels == 0) return GRAFT_OK;
  const functions *loaded = args->state;
  const bool is_mma = loaded->mma != NULL;
  const int64_t pixels = is_mma ? GRAFT_CONV_MMA_PIXELS : GRAFT_CONV_TILE;
  const int64_t channels = is_mma ? GRAFT_CONV_MMA_CHANNELS : GRAFT_CONV_TILE;
  const int64_t depth = (int64_t)params.in_channels * params.kernel_height * params.kernel_width;
  params.has_even_weights =
      depth % 8 == 0 && params.weight_strides[0] % 16 == 0 && (uintptr_t)params.weight.data % 16 == 0;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = is_mma ? loaded->mma : loaded->tiles,
      .grid = {(uint32_t)((params.n_pixels + pixels - 1) / pixels),
               (uint32_t)((params.out_channels + channels - 1) / channels), (uint32_t)params.groups},
      .block = {GRAFT_CONV_THREADS, 1, 1},
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

#define KERNEL(verb, encode_function)                                                            \
  {                                                                                              \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = #verb "_float_tiles__cuda", \
    .op = "graft." #verb ".v1", .backend = "cuda", .supports = supports, .prepare = prepare,     \
    .encode = encode_function, .destroy = free, .traits = GRAFT_KERNEL_ANY_OUTPUT                \
  }

static const graft_kernel_def kernels[] = {KERNEL(conv2d, encode), KERNEL(conv2d_epilogue, encode_epilogue)};

extern const graft_extension graft_extension_conv2d_cuda;
const graft_extension graft_extension_conv2d_cuda = {
    .struct_size = sizeof graft_extension_conv2d_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.conv2d_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
