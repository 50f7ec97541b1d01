#include "ops/common/cuda/elementwise.h"

#include <stdio.h>
#include <stdlib.h>

static graft_status load(const graft_device *device, const graft_cuda_module *module, const char *name,
                         graft_error *error, graft_elementwise *functions) {
  char text[96];
  snprintf(text, sizeof text, "%s_1", name);
  GRAFT_TRY(graft_cuda_function_load(device, module, text, 0, error, &functions->narrow));
  snprintf(text, sizeof text, "%s_8", name);
  return graft_cuda_function_load(device, module, text, 0, error, &functions->wide);
}

graft_status graft_elementwise_prepare(const graft_node_info *node, const graft_cuda_module *module, const char *name,
                                       graft_error *error, graft_prepared *out_prepared) {
  graft_elementwise *functions = calloc(1, sizeof *functions);
  if (functions == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = load(node->device, module, name, error, functions);
  if (status != GRAFT_OK) {
    free(functions);
    return status;
  }
  out_prepared->state = functions;
  return GRAFT_OK;
}

graft_status graft_elementwise_encode_operands(graft_encoder *encoder, const graft_elementwise *functions,
                                               const graft_cuda_operands *operands, const float numbers[2],
                                               graft_error *error) {
  graft_elementwise_params params = {.walk = graft_walk_init(operands, 0, true)};
  graft_cuda_fill_operands(operands, params.operands);
  if (numbers != NULL) {
    params.numbers[0] = numbers[0];
    params.numbers[1] = numbers[1];
  }
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = params.walk.width == 1 ? functions->narrow : functions->wide,
      .grid = {graft_cuda_blocks(params.walk.n), 1, 1},
      .block = {GRAFT_WALK_THREADS, 1, 1},
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, error);
}

graft_status graft_elementwise_encode(graft_encoder *encoder, const graft_encode_args *args, const float numbers[2]) {
  const graft_node_info *node = args->node;
  graft_cuda_operands operands = {.n = 1 + node->n_inputs, .desc = {node->outputs[0]}, .data = {args->outputs[0]}};
  for (uint32_t i = 0; i < node->n_inputs; ++i) {
    operands.desc[i + 1] = node->inputs[i];
    operands.data[i + 1] = args->inputs[i];
  }
  return graft_elementwise_encode_operands(encoder, args->state, &operands, numbers, args->error);
}
