#include "graft/extension.h"
#include "ops/softmax/softmax_params.h"

extern const unsigned char graft_cuda_image_softmax[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "softmax", .image = graft_cuda_image_softmax};

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_softmax_rows", 0, error, &function));
  out_prepared->state = function;
  return GRAFT_OK;
}

static int64_t row_step(const graft_tensor_desc *desc) {
  return desc->rank == 0 ? 0 : desc->strides[desc->rank - 1];
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *x = args->node->inputs[0], *y = args->node->outputs[0];
  const graft_cuda_operands operands = {.n = 2, .desc = {y, x}, .data = {args->outputs[0], args->inputs[0]}};
  graft_softmax_params params = {.n = y->rank > 0 ? y->shape[y->rank - 1] : 1, .steps = {row_step(y), row_step(x)}};
  params.walk = graft_walk_init(&operands, 1, false);
  graft_cuda_fill_operands(&operands, params.operands);
  if (params.walk.n == 0 || params.n == 0) return GRAFT_OK;
  uint32_t threads = 32;
  while (threads < 512 && threads < params.n) threads *= 2;
  const graft_cuda_launch launch = {
      .struct_size = sizeof launch,
      .function = args->state,
      .grid = {(uint32_t)(params.walk.n < (1 << 20) ? params.walk.n : 1 << 20), 1, 1},
      .block = {threads, 1, 1},
      .params = &params,
      .params_bytes = sizeof params,
  };
  return graft_cuda_encode(encoder, &launch, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "softmax_float_rows__cuda",
                                            .op = "graft.softmax.v1",
                                            .backend = "cuda",
                                            .supports = graft_cuda_takes_node,
                                            .in_place_inputs = 1u << 0,
                                            .prepare = prepare,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_softmax_cuda;
const graft_extension graft_extension_softmax_cuda = {
    .struct_size = sizeof graft_extension_softmax_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.softmax_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
