#include <math.h>

#include "graft/extension.h"
#include "ops/timestep_embedding/timestep_embedding.h"
#include "ops/timestep_embedding/timestep_params.h"

extern const unsigned char graft_cuda_image_timestep_embedding[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "timestep_embedding", .image = graft_cuda_image_timestep_embedding};

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_timestep", 0, error, &function));
  out_prepared->state = function;
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_timestep_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *t = args->node->inputs[0], *y = args->node->outputs[0];
  const int64_t half = attrs->dim / 2;
  const graft_timestep_params params = {
      .t = args->inputs[0],
      .y = args->outputs[0],
      .t_stride = t->strides[0],
      .y_strides = {y->strides[0], y->strides[1]},
      .n = t->shape[0],
      .dim = attrs->dim,
      .factor = half > 0 ? -log(attrs->max_period) / (double)half : 0,
      .scale = attrs->scale,
  };
  const graft_cuda_launch launch = {.struct_size = sizeof launch,
                                    .function = args->state,
                                    .grid = {graft_cuda_blocks(params.n * params.dim), 1, 1},
                                    .block = {GRAFT_WALK_THREADS, 1, 1},
                                    .params = &params,
                                    .params_bytes = sizeof params};
  return graft_cuda_encode(encoder, &launch, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "timestep_embedding_f32__cuda",
                                            .op = "graft.timestep_embedding.v1",
                                            .backend = "cuda",
                                            .prepare = prepare,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_timestep_embedding_cuda;
const graft_extension graft_extension_timestep_embedding_cuda = {
    .struct_size = sizeof graft_extension_timestep_embedding_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.timestep_embedding_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
