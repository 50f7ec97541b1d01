#include "ops/common/cuda/norm.h"

extern const unsigned char graft_cuda_image_norm[];
static const graft_cuda_module module = {.struct_size = sizeof module, .name = "norm", .image = graft_cuda_image_norm};

bool graft_norm_supports(const graft_node_info *node, graft_reason *why) {
  return graft_cuda_takes_node(node, why);
}

graft_status graft_norm_prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_norm_rows", 0, error, &function));
  out_prepared->state = function;
  return GRAFT_OK;
}

// Bytes from one element of a row to the next, where |n| of them make a row; 0 where one stands for all.
static int64_t row_step(const graft_tensor_desc *desc) {
  if (desc == NULL || desc->rank == 0 || desc->shape[desc->rank - 1] == 1) return 0;
  return desc->strides[desc->rank - 1];
}

static bool is_dense(const graft_tensor_desc *desc, const void *data, int64_t step) {
  const int64_t bytes = desc->dtype->block_bytes;
  const int64_t alignment = bytes * GRAFT_WALK_WIDE < 16 ? bytes * GRAFT_WALK_WIDE : 16;
  if (step == 0) return true;
  if (step != bytes || (int64_t)((uintptr_t)data % (uintptr_t)alignment) != 0) return false;
  for (int32_t d = 0; d < desc->rank - 1; ++d) {
    if (desc->shape[d] > 1 && desc->strides[d] % alignment != 0) return false;
  }
  return true;
}

static void add_operand(graft_norm_params *params, graft_cuda_operands *operands, const graft_encode_args *args,
                        int32_t k, int32_t input) {
  const graft_node_info *node = args->node;
  if (input >= (int32_t)node->n_inputs || (input >= 0 && node->inputs[input] == NULL)) return;
  if (input < 0 && k != GRAFT_NORM_Y) return;
  operands->desc[k] = input < 0 ? node->outputs[0] : node->inputs[input];
  operands->data[k] = input < 0 ? args->outputs[0] : args->inputs[input];
  params->steps[k] = row_step(operands->desc[k]);
  params->is_wide = params->is_wide && is_dense(operands->desc[k], operands->data[k], params->steps[k]) &&
                    (params->steps[k] != 0 || k >= GRAFT_NORM_ADDEND);
}

static void add_vector(graft_norm_params *params, const graft_encode_args *args, int32_t input,
                       graft_cuda_operand *out_operand, int64_t *out_step) {
  const graft_tensor_desc *desc =
      input < 0 || input >= (int32_t)args->node->n_inputs ? NULL : args->node->inputs[input];
  if (desc == NULL) return;
  *out_operand = (graft_cuda_operand){.data = args->inputs[input], .type = (int32_t)desc->dtype->code};
  *out_step = row_step(desc);
  params->is_wide = params->is_wide && is_dense(desc, args->inputs[input], *out_step);
}

static bool may_be_held(const graft_norm_params *params, const graft_cuda_operands *operands) {
  const int32_t type = params->operands[GRAFT_NORM_Y].type;
  const bool has_addend = operands->desc[GRAFT_NORM_ADDEND] != NULL;
  return params->is_wide && params->walk.n < INT32_MAX / 2 && params->operands[GRAFT_NORM_X].type == type &&
         (!has_addend || (params->operands[GRAFT_NORM_ADDEND].type == type && params->steps[GRAFT_NORM_ADDEND] != 0));
}

// Threads of a block whose rows are held: several rows, or a long one.
static uint32_t held_threads(const graft_norm_params *params) {
  return params->n_lanes < GRAFT_NORM_HELD_THREADS ? GRAFT_NORM_HELD_THREADS : (uint32_t)params->n_lanes;
}

// The function for rows of one type that lie in registers, |*out_shared_bytes| what a block needs, of |most_bytes| that
// it may have. Sets |n_lanes|. NULL: rows are read several times.
static const char *held_function(graft_norm_params *params, const graft_cuda_operands *operands, size_t most_bytes,
                                 uint32_t *out_shared_bytes) {
  static const struct {
    graft_dtype_code type;
    int32_t bytes;
    const char *name[2];
  } functions[] = {{GRAFT_DTYPE_F32, 4, {"graft_norm_held_f32", "graft_norm_held_f32_term"}},
                   {GRAFT_DTYPE_BF16, 2, {"graft_norm_held_bf16", "graft_norm_held_bf16_term"}},
                   {GRAFT_DTYPE_F16, 2, {"graft_norm_held_f16", "graft_norm_held_f16_term"}}};
  if (!may_be_held(params, operands)) return NULL;
  const bool has_term = params->bias.data != NULL || operands->desc[GRAFT_NORM_SHIFT] != NULL;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    const int32_t held = GRAFT_NORM_HELD_BYTES / functions[i].bytes;
    if ((int32_t)functions[i].type != params->operands[GRAFT_NORM_Y].type) continue;
    if (params->n > (int64_t)held * GRAFT_NORM_MOST_LANES) return NULL;
    params->n_lanes = GRAFT_NORM_LEAST_LANES;
    while (params->n_lanes * held < params->n) params->n_lanes *= 2;
    const size_t bytes = (size_t)held_threads(params) * (size_t)held * sizeof(float) * (has_term ? 2 : 1);
    *out_shared_bytes = (uint32_t)bytes;
    if (bytes + GRAFT_NORM_N_SUMS * sizeof(float) <= most_bytes) return functions[i].name[has_term];
    params->n_lanes = 0;
  }
  return NULL;
}

static int64_t n_same_sides(const graft_walk *walk) {
  int64_t n = 1;
  for (int32_t d = 0; d < walk->rank; ++d) {
    for (int32_t k = GRAFT_NORM_SCALE; k < GRAFT_NORM_N_OPERANDS; ++k) {
      if (walk->strides[k][d] != 0) return n;
    }
    n *= walk->shape[d];
  }
  return n;
}

// Threads of a block and blocks. Rows that are held are shared out to as many as a card has at a time.
static void choose_grid(graft_norm_params *params, int64_t n_multiprocessors, graft_cuda_launch *launch) {
  const int64_t in_flight = 768, groups = params->n / (params->is_wide ? GRAFT_WALK_WIDE : 1);
  int64_t threads = 32;
  if (params->n_lanes > 0) {
    threads = held_threads(params);
    const int64_t rows = threads / params->n_lanes, turns = (params->walk.n + rows - 1) / rows;
    const int64_t most_blocks = n_multiprocessors * (in_flight / threads);
    params->n_turns = (uint32_t)((turns + most_blocks - 1) / most_blocks);
    launch->grid[0] = (uint32_t)((turns + params->n_turns - 1) / params->n_turns);
  } else {
    while (threads < 512 && threads < groups) threads *= 2;
    launch->grid[0] = (uint32_t)(params->walk.n < (1 << 20) ? params->walk.n : 1 << 20);
  }
  launch->block[0] = (uint32_t)threads;
}

graft_status graft_norm_encode(graft_encoder *encoder, const graft_encode_args *args, const graft_norm_node *norm) {
  const graft_tensor_desc *y = args->node->outputs[0];
  graft_norm_params params = {
      .is_centred = norm->is_centred, .eps = (float)norm->eps, .n = y->rank > 0 ? y->shape[y->rank - 1] : 1};
  params.per_element = 1.0f / (float)params.n;
  params.is_wide = params.n % GRAFT_WALK_WIDE == 0;
  graft_cuda_operands operands = {.n = GRAFT_NORM_N_OPERANDS};
  const int32_t inputs[GRAFT_NORM_N_OPERANDS] = {-1, norm->x, norm->addend, norm->scale, norm->shift, norm->gate};
  for (int32_t k = 0; k < GRAFT_NORM_N_OPERANDS; ++k) add_operand(&params, &operands, args, k, inputs[k]);
  add_vector(&params, args, norm->weight, &params.weight, &params.weight_step);
  add_vector(&params, args, norm->bias, &params.bias, &params.bias_step);
  params.walk = graft_walk_init(&operands, 1, false);
  graft_cuda_operands held_operands = operands;
  held_operands.n = GRAFT_NORM_SCALE;
  params.held_walk = graft_walk_init(&held_operands, 1, false);
  graft_cuda_fill_operands(&operands, params.operands);
  if (params.walk.n == 0 || params.n == 0) return GRAFT_OK;
  params.n_same_sides = n_same_sides(&params.walk);
  const graft_device *device = args->node->device;
  const graft_cuda_info *card = graft_cuda_describe(device);
  uint32_t shared_bytes = 0;
  const char *held = held_function(&params, &operands, card->shared_bytes_per_block, &shared_bytes);
  graft_cuda_launch launch = {.struct_size = sizeof launch,
                              .function = args->state,
                              .grid = {1, 1, 1},
                              .block = {1, 1, 1},
                              .params = &params,
                              .params_bytes = sizeof params};
  choose_grid(&params, card->n_multiprocessors, &launch);
  if (held != NULL) {
    launch.shared_bytes = shared_bytes;
    GRAFT_TRY(graft_cuda_function_load(device, &module, held, shared_bytes, args->error, &launch.function));
  }
  return graft_cuda_encode(encoder, &launch, args->error);
}
