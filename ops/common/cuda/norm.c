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
                    (params->steps[k] != 0 || k >= GRAFT_NORM_SCALE);
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

// Rows of up to 8192 elements lie in registers, up to 16 elements in each thread.
static int32_t n_lanes_for(const graft_norm_params *params) {
  const int64_t pieces = params->n / GRAFT_WALK_WIDE;
  int32_t n = GRAFT_NORM_LEAST_LANES;
  while (n < GRAFT_NORM_MOST_LANES && (int64_t)n * GRAFT_NORM_PIECES < pieces) n *= 2;
  return params->is_wide && (int64_t)n * GRAFT_NORM_PIECES >= pieces ? n : 0;
}

// Threads of a block and blocks.
static void choose_grid(const graft_norm_params *params, uint32_t *out_threads, uint32_t *out_blocks) {
  const int64_t groups = params->n / (params->is_wide ? GRAFT_WALK_WIDE : 1);
  int64_t threads = 32, rows = 1;
  if (params->n_lanes > 0) {
    threads = params->n_lanes < GRAFT_NORM_HELD_THREADS ? GRAFT_NORM_HELD_THREADS : params->n_lanes;
    rows = threads / params->n_lanes;
  } else {
    while (threads < 512 && threads < groups) threads *= 2;
  }
  const int64_t blocks = (params->walk.n + rows - 1) / rows;
  *out_threads = (uint32_t)threads;
  *out_blocks = (uint32_t)(blocks < (1 << 20) ? blocks : 1 << 20);
}

graft_status graft_norm_encode(graft_encoder *encoder, const graft_encode_args *args, const graft_norm_node *norm) {
  const graft_tensor_desc *y = args->node->outputs[0];
  graft_norm_params params = {
      .is_centred = norm->is_centred, .eps = (float)norm->eps, .n = y->rank > 0 ? y->shape[y->rank - 1] : 1};
  params.is_wide = params.n % GRAFT_WALK_WIDE == 0;
  graft_cuda_operands operands = {.n = GRAFT_NORM_N_OPERANDS};
  const int32_t inputs[GRAFT_NORM_N_OPERANDS] = {-1, norm->x, norm->scale, norm->shift, norm->addend, norm->gate};
  for (int32_t k = 0; k < GRAFT_NORM_N_OPERANDS; ++k) add_operand(&params, &operands, args, k, inputs[k]);
  add_vector(&params, args, norm->weight, &params.weight, &params.weight_step);
  add_vector(&params, args, norm->bias, &params.bias, &params.bias_step);
  params.walk = graft_walk_init(&operands, 1, false);
  graft_cuda_fill_operands(&operands, params.operands);
  if (params.walk.n == 0 || params.n == 0) return GRAFT_OK;
  params.n_lanes = n_lanes_for(&params);
  graft_cuda_launch launch = {.struct_size = sizeof launch,
                              .function = args->state,
                              .grid = {1, 1, 1},
                              .block = {1, 1, 1},
                              .params = &params,
                              .params_bytes = sizeof params};
  choose_grid(&params, &launch.block[0], &launch.grid[0]);
  return graft_cuda_encode(encoder, &launch, args->error);
}
