#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/hopper.h"
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

extern const unsigned char graft_cuda_image_attention_hopper[];
static const graft_cuda_module hopper_module = {
    .struct_size = sizeof hopper_module, .name = "attention_hopper", .image = graft_cuda_image_attention_hopper};

// The kernel for any tensors, and where dtypes and layouts allow it, one for tensor cores and one for those of Hopper.
typedef struct functions {
  graft_cuda_function *blocks, *mma, *hopper;
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

// One of four functions, by dtype and width.
typedef const char *function_names[2][2];

static graft_status load_as(const graft_node_info *node, const graft_cuda_module *source, const function_names names,
                            size_t bytes, graft_error *error, graft_cuda_function **out_function) {
  const char *name = names[node->inputs[Q]->dtype == GRAFT_BF16][mma_width(node) == 128];
  return graft_cuda_function_load(node->device, source, name, bytes, error, out_function);
}

static graft_status load(const graft_node_info *node, graft_error *error, functions *loaded) {
  static const function_names names = {{"graft_attention_f16_64", "graft_attention_f16_128"},
                                       {"graft_attention_bf16_64", "graft_attention_bf16_128"}};
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_attention_blocks", shared_bytes(node), error,
                                     &loaded->blocks));
  if (!can_use_mma(node)) return GRAFT_OK;
  return load_as(node, &mma_module, names, mma_shared_bytes(node), error, &loaded->mma);
}

static uint32_t hopper_shared_bytes(const graft_node_info *node) {
  const int64_t tiles = 1 + 2 * GRAFT_ATTENTION_HOPPER_STAGES;  // queries, and keys and values by turns
  return (uint32_t)(tiles * GRAFT_ATTENTION_HOPPER_ROWS * mma_width(node) * 2 + GRAFT_HOPPER_SPARE_BYTES);
}

static int64_t n_query_tiles(const graft_node_info *node) {
  return (node->inputs[Q]->shape[TOKEN] + GRAFT_ATTENTION_HOPPER_ROWS - 1) / GRAFT_ATTENTION_HOPPER_ROWS;
}

static bool hopper_supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *y = node->outputs[0];
  if (!supports(node, why) || !graft_cuda_is_hopper(node->device, why)) return false;
  if (!can_use_mma(node)) return graft_refuse(why, "not for tensor cores: 16-bit floats, heads up to 128 wide");
  if (((const graft_attention_attrs *)node->attrs)->scale < 0) return graft_refuse(why, "the scale is negative");
  const int64_t longest =
      y->shape[TOKEN] > node->inputs[K]->shape[TOKEN] ? y->shape[TOKEN] : node->inputs[K]->shape[TOKEN];
  const int64_t tiles = n_query_tiles(node) * y->shape[HEAD] * y->shape[ITEM];
  const bool is_empty = tiles == 0 || graft_tensor_desc_elements(node->inputs[K]) == 0 || y->shape[WIDTH] == 0;
  return (!is_empty && longest < INT32_MAX / 4 && tiles < INT32_MAX / 4) ||
         graft_refuse(why, "nothing to do, or too much of it");
}

static graft_status load_hopper(const graft_node_info *node, graft_error *error, functions *loaded) {
  static const function_names names = {{"graft_attention_hopper_f16_64", "graft_attention_hopper_f16_128"},
                                       {"graft_attention_hopper_bf16_64", "graft_attention_hopper_bf16_128"}};
  GRAFT_TRY(load(node, error, loaded));
  return load_as(node, &hopper_module, names, hopper_shared_bytes(node), error, &loaded->hopper);
}

static graft_status prepare_with(const graft_node_info *node,
                                 graft_status (*load_functions)(const graft_node_info *node, graft_error *error,
                                                                functions *loaded),
                                 graft_error *error, graft_prepared *out_prepared) {
  functions *loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = load_functions(node, error, loaded);
  if (status != GRAFT_OK) {
    free(loaded);
    return status;
  }
  out_prepared->state = loaded;
  return GRAFT_OK;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return prepare_with(node, load, error, out_prepared);
}

static graft_status prepare_hopper(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  return prepare_with(node, load_hopper, error, out_prepared);
}

static void add(const graft_tensor_desc *desc, void *data, graft_cuda_operand *out_operand, int64_t strides[4]) {
  *out_operand = (graft_cuda_operand){.data = data, .type = (int32_t)desc->dtype->code};
  for (int d = 0; d < 4; ++d) strides[d] = desc->strides[d];
}

static void describe(const graft_encode_args *args, graft_attention_params *out_params) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *q = node->inputs[Q], *k = node->inputs[K], *v = node->inputs[V], *mask = node->inputs[MASK];
  const graft_attention_attrs *attrs = node->attrs;
  graft_attention_params params = {
      .queries = q->shape[TOKEN],
      .keys = k->shape[TOKEN],
      .heads = (int32_t)q->shape[HEAD],
      .heads_per_key_head = (int32_t)(q->shape[HEAD] / k->shape[HEAD]),
      .width = (int32_t)q->shape[WIDTH],
      .value_width = (int32_t)v->shape[WIDTH],
      .is_causal = attrs->is_causal,
      .scale = (float)(attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)q->shape[WIDTH])),
  };
  add(node->outputs[0], args->outputs[0], &params.y, params.y_strides);
  add(q, args->inputs[Q], &params.q, params.q_strides);
  add(k, args->inputs[K], &params.k, params.k_strides);
  add(v, args->inputs[V], &params.v, params.v_strides);
  if (mask != NULL) {
    params.mask = args->inputs[MASK];
    params.mask_strides[0] = mask->shape[0] > 1 ? mask->strides[0] : 0;
    params.mask_strides[1] = mask->strides[1];
  }
  *out_params = params;
}

static bool is_aligned(const graft_encode_args *args) {
  return (((uintptr_t)args->inputs[Q] | (uintptr_t)args->inputs[K] | (uintptr_t)args->inputs[V]) & 15) == 0;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_tensor_desc *y = node->outputs[0];
  const functions *loaded = args->state;
  graft_attention_params params;
  if (graft_tensor_desc_elements(y) == 0) return GRAFT_OK;
  describe(args, &params);
  const bool is_mma = loaded->mma != NULL && is_aligned(args);
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

// Fetched as tiles of so many tokens and 64 channels of one head. In memory, heads mostly lie within tokens: dimensions
// are named in this order, because the driver asks for strides that grow.
static graft_status map_tiles(const graft_encode_args *args, uint32_t input, graft_cuda_tensor_map *out_map) {
  static const int32_t order[4] = {WIDTH, HEAD, TOKEN, ITEM};
  const graft_tensor_desc *desc = args->node->inputs[input];
  graft_cuda_tiled_tensor tensor = {.struct_size = sizeof tensor,
                                    .data = args->inputs[input],
                                    .element_bytes = 2,
                                    .rank = 4,
                                    .box = {GRAFT_HOPPER_TILE, 1, GRAFT_ATTENTION_HOPPER_ROWS, 1},
                                    .swizzle_bytes = 128};
  uint64_t end = 2;  // of the dimensions before, for those of size 1, whose own strides mean nothing
  for (int i = 0; i < 4; ++i) {
    const int64_t size = desc->shape[order[i]];
    tensor.shape[i] = (uint64_t)size;
    tensor.strides[i] = size > 1 && i > 0 ? (uint64_t)desc->strides[order[i]] : end;
    end = tensor.strides[i] * (uint64_t)size;
  }
  return graft_cuda_tensor_map_encode(args->node->device, &tensor, NULL, out_map);
}

// So many tiles of queries that a launch takes a few milliseconds.
static int32_t tiles_per_launch(const graft_attention_params *params, int32_t n_blocks) {
  const double most = 2e12, operations = 512.0 * (double)params->keys * 128;
  return most / operations > n_blocks ? (int32_t)(most / operations) : n_blocks;
}

static graft_status encode_tiles(graft_encoder *encoder, const graft_encode_args *args,
                                 graft_attention_hopper_params *params) {
  const graft_node_info *node = args->node;
  const int32_t n_blocks = graft_cuda_describe(node->device)->n_multiprocessors;
  const int32_t most = tiles_per_launch(&params->common, n_blocks);
  const int32_t n_tiles = params->n_query_tiles * params->common.heads * (int32_t)node->outputs[0]->shape[ITEM];
  graft_cuda_launch launch = {.struct_size = sizeof launch,
                              .function = ((const functions *)args->state)->hopper,
                              .block = {GRAFT_HOPPER_THREADS, 1, 1},
                              .shared_bytes = hopper_shared_bytes(node),
                              .params = params,
                              .params_bytes = sizeof *params};
  for (int32_t first = 0; first < n_tiles; first += most) {
    const int32_t n = n_tiles - first < most ? n_tiles - first : most;
    params->first_tile = first;
    params->end_tile = first + n;
    launch.grid[0] = (uint32_t)(n < n_blocks ? n : n_blocks);
    launch.grid[1] = launch.grid[2] = 1;
    GRAFT_TRY(graft_cuda_encode(encoder, &launch, args->error));
  }
  return GRAFT_OK;
}

// Tensors that the copy engine does not take go to the other kernels.
static graft_status encode_hopper(graft_encoder *encoder, const graft_encode_args *args) {
  graft_attention_hopper_params params = {.n_query_tiles = (int32_t)n_query_tiles(args->node)};
  const bool is_mapped = is_aligned(args) && map_tiles(args, Q, &params.q) == GRAFT_OK &&
                         map_tiles(args, K, &params.k) == GRAFT_OK && map_tiles(args, V, &params.v) == GRAFT_OK;
  if (!is_mapped) return encode(encoder, args);
  describe(args, &params.common);
  const int64_t *strides = params.common.y_strides;
  params.has_pairs = strides[WIDTH] == 2 && ((uintptr_t)args->outputs[0] | (uintptr_t)strides[ITEM] |
                                             (uintptr_t)strides[TOKEN] | (uintptr_t)strides[HEAD]) %
                                                    4 ==
                                                0;
  return encode_tiles(encoder, args, &params);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 20,
                                            .name = "scaled_dot_product_attention_16bit_hopper__cuda",
                                            .op = "graft.scaled_dot_product_attention.v1",
                                            .backend = "cuda",
                                            .supports = hopper_supports,
                                            .prepare = prepare_hopper,
                                            .encode = encode_hopper,
                                            .destroy = free,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT},
                                           {.struct_size = sizeof kernels[0],
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
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
