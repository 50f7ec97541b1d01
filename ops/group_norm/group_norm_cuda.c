// CUDA kernels of graft.group_norm.v1 and graft.group_norm_silu.v1, which share their device code.
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/group_norm/group_norm.h"
#include "ops/group_norm/group_norm_params.h"

enum { X, WEIGHT, BIAS };

extern const unsigned char graft_cuda_image_group_norm[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "group_norm", .image = graft_cuda_image_group_norm};

// Per way of reading: element by element, or held in registers as one type.
enum { SINGLY, HELD_F32, HELD_BF16, HELD_F16, N_WAYS };

typedef struct functions {
  graft_cuda_function *chunks[N_WAYS], *join, *apply[N_WAYS];
} functions;

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X];
  const int64_t most = INT32_MAX;
  if (!graft_cuda_takes_node(node, why)) return false;
  return graft_tensor_desc_elements(x) / GRAFT_GROUP_NORM_CHUNK + x->shape[0] * x->shape[1] < most ||
         graft_refuse(why, "more chunks than a launch has blocks");
}

// Dimensions behind the channels, joined where both tensors allow it.
static void describe_places(const graft_tensor_desc *x, const graft_tensor_desc *y, graft_group_norm_params *params) {
  int32_t n = 0;
  for (int32_t d = x->rank - 1; d >= 2; --d) {
    if (x->shape[d] == 1) continue;
    const bool is_joined = n > 0 && x->strides[d] == params->x_place_strides[n - 1] * params->place_shape[n - 1] &&
                           y->strides[d] == params->y_place_strides[n - 1] * params->place_shape[n - 1];
    if (is_joined) {
      params->place_shape[n - 1] *= x->shape[d];
      continue;
    }
    params->place_shape[n] = x->shape[d];
    params->x_place_strides[n] = x->strides[d];
    params->y_place_strides[n++] = y->strides[d];
  }
  params->n_place_dims = n;
}

static void describe(const graft_node_info *node, graft_group_norm_params *params) {
  const graft_group_norm_attrs *attrs = node->attrs;
  const graft_tensor_desc *x = node->inputs[X];
  *params = (graft_group_norm_params){.n_items = x->shape[0],
                                      .n_channels = x->shape[1],
                                      .n_places = 1,
                                      .n_groups = attrs->n_groups,
                                      .eps = (float)attrs->eps};
  for (int32_t d = 2; d < x->rank; ++d) params->n_places *= x->shape[d];
  const int64_t size = params->n_channels / params->n_groups * params->n_places;
  params->n_chunks = (size + GRAFT_GROUP_NORM_CHUNK - 1) / GRAFT_GROUP_NORM_CHUNK;
  params->n_all_chunks = params->n_items * params->n_groups * params->n_chunks;
}

static size_t chunk_floats(const graft_group_norm_params *params) {
  return (size_t)params->n_all_chunks * 3;
}

static graft_status load(const graft_device *device, graft_error *error, functions *loaded) {
  static const char *const chunks[N_WAYS] = {"graft_group_norm_chunks", "graft_group_norm_chunks_f32",
                                             "graft_group_norm_chunks_bf16", "graft_group_norm_chunks_f16"};
  static const char *const apply[N_WAYS] = {"graft_group_norm_apply", "graft_group_norm_apply_f32",
                                            "graft_group_norm_apply_bf16", "graft_group_norm_apply_f16"};
  for (int i = 0; i < N_WAYS; ++i) {
    GRAFT_TRY(graft_cuda_function_load(device, &module, chunks[i], 0, error, &loaded->chunks[i]));
    GRAFT_TRY(graft_cuda_function_load(device, &module, apply[i], 0, error, &loaded->apply[i]));
  }
  return graft_cuda_function_load(device, &module, "graft_group_norm_join", 0, error, &loaded->join);
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_group_norm_params params;
  describe(node, &params);
  functions *loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = load(node->device, error, loaded);
  if (status != GRAFT_OK) {
    free(loaded);
    return status;
  }
  out_prepared->state = loaded;
  out_prepared->workspace_bytes =
      (chunk_floats(&params) + (size_t)(params.n_items * params.n_groups) * 3) * sizeof(float);
  return GRAFT_OK;
}

static graft_cuda_operand operand(const graft_tensor_desc *desc, void *data) {
  if (desc == NULL) return (graft_cuda_operand){0};
  return (graft_cuda_operand){
      .data = data, .type = (int32_t)desc->dtype->code, .element_bytes = (int32_t)desc->dtype->block_bytes};
}

// Whether the channels of an item lie behind each other and can be read sixteen bytes at a time.
static bool is_flat(const graft_group_norm_params *params, const graft_cuda_operand *o, const int64_t strides[2],
                    const int64_t *place_strides) {
  const int64_t alignment = 16;
  return place_strides[0] == o->element_bytes && strides[1] == params->n_places * o->element_bytes &&
         strides[1] % alignment == 0 && strides[0] % alignment == 0 &&
         (int64_t)((uintptr_t)o->data % (uintptr_t)alignment) == 0;
}

static int choose_way(const graft_group_norm_params *params) {
  const int64_t most_places = INT32_MAX - GRAFT_GROUP_NORM_CHUNK;
  const bool is_held = params->n_place_dims == 1 && params->n_places % GRAFT_WALK_WIDE == 0 &&
                       params->n_places <= most_places && params->x.type == params->y.type &&
                       is_flat(params, &params->x, params->x_strides, params->x_place_strides) &&
                       is_flat(params, &params->y, params->y_strides, params->y_place_strides);
  if (!is_held) return SINGLY;
  switch (params->x.type) {
    case GRAFT_DTYPE_F32: return HELD_F32;
    case GRAFT_DTYPE_BF16: return HELD_BF16;
    case GRAFT_DTYPE_F16: return HELD_F16;
    default: return SINGLY;
  }
}

// Held chunks go round a grid that fills the card.
static graft_status encode_launches(graft_encoder *encoder, const graft_encode_args *args,
                                    const graft_group_norm_params *params) {
  const functions *loaded = args->state;
  const int way = choose_way(params);
  const int64_t in_flight = 3 * (int64_t)graft_cuda_describe(args->node->device)->n_multiprocessors;
  const bool goes_round = way != SINGLY && params->n_all_chunks > in_flight;
  const uint32_t n_blocks = (uint32_t)(goes_round ? in_flight : params->n_all_chunks);
  graft_cuda_launch launch = {.struct_size = sizeof launch,
                              .function = loaded->chunks[way],
                              .grid = {n_blocks, 1, 1},
                              .block = {GRAFT_GROUP_NORM_THREADS, 1, 1},
                              .params = params,
                              .params_bytes = sizeof *params};
  GRAFT_TRY(graft_cuda_encode(encoder, &launch, args->error));
  launch.function = loaded->join;
  launch.grid[0] = (uint32_t)(params->n_items * params->n_groups);
  GRAFT_TRY(graft_cuda_encode(encoder, &launch, args->error));
  launch.function = loaded->apply[way];
  launch.grid[0] = n_blocks;
  return graft_cuda_encode(encoder, &launch, args->error);
}

static graft_status encode_as(graft_encoder *encoder, const graft_encode_args *args, bool has_silu) {
  const graft_node_info *node = args->node;
  graft_group_norm_params params;
  describe(node, &params);
  params.x = operand(node->inputs[X], args->inputs[X]);
  params.y = operand(node->outputs[0], args->outputs[0]);
  params.weight = operand(node->inputs[WEIGHT], args->inputs[WEIGHT]);
  params.bias = operand(node->inputs[BIAS], args->inputs[BIAS]);
  params.weight_step = node->inputs[WEIGHT] != NULL ? node->inputs[WEIGHT]->strides[0] : 0;
  params.bias_step = node->inputs[BIAS] != NULL ? node->inputs[BIAS]->strides[0] : 0;
  for (int d = 0; d < 2; ++d) {
    params.x_strides[d] = node->inputs[X]->strides[d];
    params.y_strides[d] = node->outputs[0]->strides[d];
  }
  describe_places(node->inputs[X], node->outputs[0], &params);
  params.has_silu = has_silu;
  params.chunks = args->workspace;
  params.moments = params.chunks + chunk_floats(&params);
  if (params.n_all_chunks == 0) return GRAFT_OK;
  return encode_launches(encoder, args, &params);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_as(encoder, args, false);
}

static graft_status encode_silu(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_as(encoder, args, true);
}

#define KERNEL(verb, encode_function)                                                                \
  {                                                                                                  \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = #verb "_float_chunks__cuda",    \
    .op = "graft." #verb ".v1", .backend = "cuda", .supports = supports, .in_place_inputs = 1u << X, \
    .prepare = prepare, .encode = encode_function, .destroy = free                                   \
  }

static const graft_kernel_def kernels[] = {KERNEL(group_norm, encode), KERNEL(group_norm_silu, encode_silu)};

extern const graft_extension graft_extension_group_norm_cuda;
const graft_extension graft_extension_group_norm_cuda = {
    .struct_size = sizeof graft_extension_group_norm_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.group_norm_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
