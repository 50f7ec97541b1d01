#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/scaled_dot_product_attention/attention_params.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"

enum { Q, K, V, MASK };
enum { ITEM, TOKEN, HEAD, WIDTH };

extern const unsigned char graft_cuda_image_scaled_dot_product_attention[];
static const graft_cuda_module module = {.struct_size = sizeof module,
                                         .name = "scaled_dot_product_attention",
                                         .image = graft_cuda_image_scaled_dot_product_attention};

extern const unsigned char graft_cuda_image_attention_mma[];
static const graft_cuda_module mma_module = {
    .struct_size = sizeof mma_module, .name = "attention_mma", .image = graft_cuda_image_attention_mma};

// The kernel for any tensors, and where dtypes and layouts allow it, one for tensor cores.
typedef struct functions {
  graft_cuda_function *blocks, *mma;
} functions;

static size_t shared_bytes(const graft_node_info *node) {
  const size_t width = (size_t)node->inputs[Q]->shape[WIDTH], value_width = (size_t)node->inputs[V]->shape[WIDTH];
  const size_t floats = GRAFT_ATTENTION_QUERIES * width + GRAFT_ATTENTION_KEYS * (width + 1 + value_width);
  return floats * sizeof(float);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *const tensors[] = {node->inputs[Q], node->inputs[K], node->inputs[V], node->outputs[0]};
  for (int i = 0; i < 4; ++i) {
    if (!graft_cuda_takes(tensors[i])) return graft_refuse(why, "%s is no built-in float", tensors[i]->dtype->name);
    if (tensors[i]->shape[WIDTH] > GRAFT_ATTENTION_MAX_WIDTH) {
      return graft_refuse(why, "heads are wider than %d", GRAFT_ATTENTION_MAX_WIDTH);
    }
  }
  const graft_tensor_desc *y = node->outputs[0];
  if (y->shape[HEAD] > UINT16_MAX || y->shape[ITEM] > UINT16_MAX) return graft_refuse(why, "too many heads or items");
  const graft_cuda_info *info = graft_cuda_describe(node->device);
  return info == NULL || shared_bytes(node) <= info->shared_bytes_per_block ||
         graft_refuse(why, "heads are too wide for the card's shared memory");
}

static bool is_even(const graft_tensor_desc *desc, graft_dtype dtype) {
  const bool is_dense = desc->strides[WIDTH] == 2 || desc->shape[WIDTH] == 1;
  if (desc->dtype != dtype || !is_dense || desc->shape[WIDTH] % 8 != 0) return false;
  for (int d = 0; d < WIDTH; ++d) {
    if (desc->shape[d] > 1 && desc->strides[d] % 16 != 0) return false;
  }
  return true;
}

static int64_t mma_width(const graft_node_info *node) {
  const int64_t width = node->inputs[Q]->shape[WIDTH], value_width = node->inputs[V]->shape[WIDTH];
  const int64_t most = width > value_width ? width : value_width;
  return most <= 64 ? 64 : most <= 128 ? 128 : 0;
}

static uint32_t mma_shared_bytes(const graft_node_info *node) {
  return (uint32_t)(2 * 2 * GRAFT_ATTENTION_MMA_KEYS * mma_width(node) * 2);  // keys and values, twice
}

static bool can_use_mma(const graft_node_info *node) {
  const graft_dtype dtype = node->inputs[Q]->dtype;
  const graft_cuda_info *info = graft_cuda_describe(node->device);
  return (dtype == GRAFT_BF16 || dtype == GRAFT_F16) && mma_width(node) > 0 && info != NULL &&
         info->compute_major >= 8 && is_even(node->inputs[Q], dtype) && is_even(node->inputs[K], dtype) &&
         is_even(node->inputs[V], dtype);
}

static graft_status load(const graft_node_info *node, graft_error *error, functions *loaded) {
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_attention_blocks", shared_bytes(node), error,
                                     &loaded->blocks));
  if (!can_use_mma(node)) return GRAFT_OK;
  static const char *const names[2][2] = {{"graft_attention_f16_64", "graft_attention_f16_128"},
                                          {"graft_attention_bf16_64", "graft_attention_bf16_128"}};
  const char *name = names[node->inputs[Q]->dtype == GRAFT_BF16][mma_width(node) == 128];
  return graft_cuda_function_load(node->device, &mma_module, name, mma_shared_bytes(node), error, &loaded->mma);
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

static void add(const graft_tensor_desc *desc, void *data, graft_cuda_operand *out_operand, int64_t strides[4]) {
  *out_operand = (graft_cuda_operand){.data = data, .type = (int32_t)desc->dtype->code};
  for (int d = 0; d < 4; ++d) strides[d] = desc->strides[d];
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *q = node->inputs[Q], *k = node->inputs[K], *v = node->inputs[V], *mask = node->inputs[MASK];
  const graft_tensor_desc *y = node->outputs[0];
  const graft_attention_attrs *attrs = node->attrs;
  graft_attention_params params = {
      .queries = q->shape[TOKEN],
      .keys = k->shape[TOKEN],
      .heads = (int32_t)q->shape[HEAD],
      .width = (int32_t)q->shape[WIDTH],
      .value_width = (int32_t)v->shape[WIDTH],
      .is_causal = attrs->is_causal,
      .scale = (float)(attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)q->shape[WIDTH])),
  };
  if (graft_tensor_desc_elements(y) == 0) return GRAFT_OK;
  params.heads_per_key_head = params.heads / (int32_t)k->shape[HEAD];
  add(y, args->outputs[0], &params.y, params.y_strides);
  add(q, args->inputs[Q], &params.q, params.q_strides);
  add(k, args->inputs[K], &params.k, params.k_strides);
  add(v, args->inputs[V], &params.v, params.v_strides);
  if (mask != NULL) {
    params.mask = args->inputs[MASK];
    params.mask_strides[0] = mask->shape[0] > 1 ? mask->strides[0] : 0;
    params.mask_strides[1] = mask->strides[1];
  }
  const functions *loaded = args->state;
  const uintptr_t all = (uintptr_t)args->inputs[Q] | (uintptr_t)args->inputs[K] | (uintptr_t)args->inputs[V];
  const bool is_mma = loaded->mma != NULL && all % 16 == 0;
  const int64_t block = is_mma ? GRAFT_ATTENTION_MMA_QUERIES : GRAFT_ATTENTION_QUERIES;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = is_mma ? loaded->mma : loaded->blocks,
      .grid = {(uint32_t)((params.queries + block - 1) / block), (uint32_t)y->shape[HEAD], (uint32_t)y->shape[ITEM]},
      .block = {is_mma ? GRAFT_ATTENTION_MMA_THREADS : GRAFT_WALK_THREADS, 1, 1},
      .shared_bytes = is_mma ? mma_shared_bytes(node) : (uint32_t)shared_bytes(node),
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "scaled_dot_product_attention_float_blocks__cuda",
                                            .op = "graft.scaled_dot_product_attention.v1",
                                            .backend = "cuda",
                                            .supports = supports,
                                            .prepare = prepare,
                                            .encode = encode,
                                            .destroy = free,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_scaled_dot_product_attention_cuda;
const graft_extension graft_extension_scaled_dot_product_attention_cuda = {
    .struct_size = sizeof graft_extension_scaled_dot_product_attention_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.scaled_dot_product_attention_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
