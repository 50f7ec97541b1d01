// CUDA kernels of graft.rotary_embedding.v1 and graft.rms_norm_rotary.v1, which share their device code.
#include "graft/extension.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"
#include "ops/rotary_embedding/rotary_embedding.h"
#include "ops/rotary_embedding/rotary_params.h"

enum { X, TABLE, NORM_WEIGHT = 1, NORM_TABLE = 2 };
enum { ITEM, POSITION, HEAD, CHANNEL };

extern const unsigned char graft_cuda_image_rotary_embedding[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "rotary_embedding", .image = graft_cuda_image_rotary_embedding};

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_rotary_heads", 0, error, &function));
  out_prepared->state = function;
  return GRAFT_OK;
}

// The table as if every head had rows of its own: [items, positions, heads, 1].
static graft_tensor_desc spread(const graft_tensor_desc *table, const graft_tensor_desc *y) {
  graft_tensor_desc rows = {.dtype = table->dtype, .rank = 4};
  for (int d = 0; d < 4; ++d) rows.shape[d] = d == CHANNEL ? 1 : y->shape[d];
  rows.strides[ITEM] = table->rank == 4 ? table->strides[0] : 0;
  rows.strides[POSITION] = table->strides[table->rank - 3];
  return rows;
}

// Whether eight channels at a time can be read or written at |data| with these |strides| (of the walk).
static bool is_dense(const graft_cuda_operand *operand, const graft_walk *walk, int32_t k, int64_t step) {
  const int64_t bytes = operand->element_bytes * GRAFT_WALK_WIDE, alignment = bytes < 16 ? bytes : 16;
  int64_t bits = (int64_t)(uintptr_t)operand->data;
  for (int32_t d = 0; d < walk->rank; ++d) bits |= walk->strides[k][d];
  return step == operand->element_bytes && bits % alignment == 0;
}

// Whether heads have sixteen channels for each of their threads and are rotated as a whole.
static bool may_be_held(const graft_rotary_params *params) {
  const int64_t n = params->width / GRAFT_ROTARY_CHANNELS;
  const bool is_even = n * GRAFT_ROTARY_CHANNELS == params->width && n <= 32 && (n & (n - 1)) == 0;
  if (!is_even || params->pairs * 2 != params->width) return false;
  graft_cuda_operand table = params->operands[2];
  table.element_bytes = (int32_t)params->sine_step;
  if (params->pair_step != 2 * (int64_t)sizeof(float) || !is_dense(&table, &params->walk, 2, sizeof(float)))
    return false;
  for (int32_t k = 0; k < 2; ++k) {
    if (!is_dense(&params->operands[k], &params->walk, k, params->steps[k])) return false;
  }
  return params->operands[0].element_bytes >= 2;  // f32, bf16 or f16
}

// The function for heads that are held in registers; sets what that takes. NULL: one pair at a time.
static const char *held_function(graft_rotary_params *params) {
  static const struct {
    graft_dtype_code type;
    const char *name[2], *cast[2];
  } functions[] = {
      {GRAFT_DTYPE_F32,
       {"graft_rotary_pairs_f32", "graft_rotary_halves_f32"},
       {"graft_rotary_pairs_f32_cast", "graft_rotary_halves_f32_cast"}},
      {GRAFT_DTYPE_BF16,
       {"graft_rotary_pairs_bf16", "graft_rotary_halves_bf16"},
       {"graft_rotary_pairs_bf16_cast", "graft_rotary_halves_bf16_cast"}},
      {GRAFT_DTYPE_F16,
       {"graft_rotary_pairs_f16", "graft_rotary_halves_f16"},
       {"graft_rotary_pairs_f16_cast", "graft_rotary_halves_f16_cast"}},
  };
  if (!may_be_held(params) || params->walk.n > INT32_MAX / 2) return NULL;
  const graft_walk *walk = &params->walk;
  const bool has_run = walk->rank > 0 && walk->strides[2][0] == 0;
  params->n_lanes = (int32_t)(params->width / GRAFT_ROTARY_CHANNELS);
  params->n_run = has_run ? (int32_t)walk->shape[0] : 1;
  params->n_beside = 1;
  while (params->n_beside * GRAFT_ROTARY_HEADS < params->n_run &&
         params->n_beside * params->n_lanes < GRAFT_WALK_THREADS) {
    params->n_beside *= 2;
  }
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    if ((int32_t)functions[i].type != params->operands[1].type) continue;
    const bool is_cast = params->operands[0].type != params->operands[1].type;
    return (is_cast ? functions[i].cast : functions[i].name)[params->is_half];
  }
  return NULL;
}

// Runs of 16-bit values are shared out to as many blocks as a card has at a time. In float32, where a block has twice
// as much to fetch, more blocks than that are faster.
static uint32_t share_out(graft_rotary_params *params, int64_t n_multiprocessors) {
  const int64_t runs = GRAFT_WALK_THREADS / (params->n_lanes * params->n_beside);
  const int64_t most_blocks = params->operands[1].type == GRAFT_DTYPE_F32 ? INT32_MAX : 3 * n_multiprocessors;
  params->n_all_runs = params->walk.n / params->n_run;
  const int64_t turns = (params->n_all_runs + runs - 1) / runs;
  const int64_t n_turns = (turns + most_blocks - 1) / most_blocks;
  params->n_turns = (int32_t)n_turns;
  return (uint32_t)((turns + n_turns - 1) / n_turns);
}

static graft_status encode_node(graft_encoder *encoder, const graft_encode_args *args, uint32_t table_input,
                                graft_rotary_params *params) {
  const graft_tensor_desc *y = args->node->outputs[0], *x = args->node->inputs[X];
  const graft_tensor_desc *table = args->node->inputs[table_input], rows = spread(table, y);
  const graft_cuda_operands operands = {
      .n = 3, .desc = {y, x, &rows}, .data = {args->outputs[0], args->inputs[X], args->inputs[table_input]}};
  params->walk = graft_walk_init(&operands, 1, false);
  graft_cuda_fill_operands(&operands, params->operands);
  params->steps[0] = y->strides[CHANNEL];
  params->steps[1] = x->strides[CHANNEL];
  params->pair_step = table->strides[table->rank - 2];
  params->sine_step = table->strides[table->rank - 1];
  params->width = y->shape[CHANNEL];
  params->pairs = table->shape[table->rank - 2];
  if (params->walk.n == 0 || params->width == 0) return GRAFT_OK;
  params->per_channel = 1.0f / (float)params->width;
  const char *held = held_function(params);
  const graft_device *device = args->node->device;
  uint32_t n_blocks = graft_cuda_blocks(params->walk.n * 32);
  if (held != NULL) n_blocks = share_out(params, graft_cuda_describe(device)->n_multiprocessors);
  graft_cuda_launch launch = {.struct_size = sizeof launch,
                              .function = args->state,
                              .grid = {n_blocks, 1, 1},
                              .block = {GRAFT_WALK_THREADS, 1, 1},
                              .params = params,
                              .params_bytes = sizeof *params};
  if (held != NULL) {
    GRAFT_TRY(graft_cuda_function_load(device, &module, held, 0, args->error, &launch.function));
  }
  return graft_cuda_encode(encoder, &launch, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_rotary_attrs *attrs = args->node->attrs;
  graft_rotary_params params = {.is_half = attrs->style == GRAFT_ROTARY_HALF};
  return encode_node(encoder, args, TABLE, &params);
}

static graft_status encode_normed(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_rms_norm_rotary_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *weight = args->node->inputs[NORM_WEIGHT];
  graft_rotary_params params = {.is_half = attrs->style == GRAFT_ROTARY_HALF,
                                .has_norm = true,
                                .eps = (float)attrs->eps,
                                .scale = attrs->scale == 0 ? 1 : (float)attrs->scale};
  if (weight != NULL) {
    params.weight = (graft_cuda_operand){.data = args->inputs[NORM_WEIGHT], .type = (int32_t)weight->dtype->code};
    params.weight_step = weight->strides[0];
  }
  return encode_node(encoder, args, NORM_TABLE, &params);
}

#define KERNEL(op_name, file_name, encode_function)                                                                 \
  {                                                                                                                 \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = file_name "_float_heads__cuda", .op = op_name, \
    .backend = "cuda", .supports = graft_cuda_takes_node, .prepare = prepare, .encode = encode_function,            \
    .traits = GRAFT_KERNEL_ANY_OUTPUT,                                                                              \
  }

static const graft_kernel_def kernels[] = {
    KERNEL("graft.rotary_embedding.v1", "rotary_embedding", encode),
    KERNEL("graft.rms_norm_rotary.v1", "rms_norm_rotary", encode_normed),
};

extern const graft_extension graft_extension_rotary_embedding_cuda;
const graft_extension graft_extension_rotary_embedding_cuda = {
    .struct_size = sizeof graft_extension_rotary_embedding_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.rotary_embedding_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
