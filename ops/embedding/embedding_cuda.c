#include "graft/extension.h"
#include "ops/embedding/embedding.h"
#include "ops/embedding/embedding_params.h"

enum { IDS, TABLE };

extern const unsigned char graft_cuda_image_embedding[];
static const graft_cuda_module module = {
    .struct_size = sizeof module, .name = "embedding", .image = graft_cuda_image_embedding};

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (!graft_cuda_takes(node->inputs[TABLE]) || !graft_cuda_takes(node->outputs[0])) {
    return graft_refuse(why, "table or result is no built-in float");
  }
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(node->device, &module, "graft_embedding_rows", 0, error, &function));
  out_prepared->state = function;
  return GRAFT_OK;
}

static graft_status report(const graft_cuda_fault *fault, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "index %lld is outside the table of %lld rows", (long long)fault->values[0],
                    (long long)fault->values[1]);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *ids = args->node->inputs[IDS], *table = args->node->inputs[TABLE];
  const graft_tensor_desc *y = args->node->outputs[0];
  // Indices as a tensor of y's rank whose last dimension stands for a whole row.
  graft_tensor_desc spread = *ids;
  spread.shape[spread.rank] = 1;
  spread.strides[spread.rank++] = 0;
  const graft_cuda_operands operands = {.n = 2, .desc = {y, &spread}, .data = {args->outputs[0], args->inputs[IDS]}};
  graft_embedding_params params = {
      .table = {.data = args->inputs[TABLE], .type = (int32_t)table->dtype->code},
      .y_step = y->strides[y->rank - 1],
      .table_step = table->strides[1],
      .row_stride = table->strides[0],
      .n_rows = table->shape[0],
      .width = table->shape[1],
  };
  params.walk = graft_walk_init(&operands, 1, false);
  graft_cuda_fill_operands(&operands, params.operands);
  if (params.walk.n == 0) return GRAFT_OK;
  void *fault = NULL;
  GRAFT_TRY(graft_cuda_encode_fault(encoder, report, args->error, &fault));
  params.fault = fault;
  const graft_cuda_launch launch = {.struct_size = sizeof launch,
                                    .function = args->state,
                                    .grid = {(uint32_t)(params.walk.n < (1 << 20) ? params.walk.n : 1 << 20), 1, 1},
                                    .block = {128, 1, 1},
                                    .params = &params,
                                    .params_bytes = sizeof params};
  return graft_cuda_encode(encoder, &launch, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = 10,
                                            .name = "embedding_float_rows__cuda",
                                            .op = "graft.embedding.v1",
                                            .backend = "cuda",
                                            .supports = supports,
                                            .prepare = prepare,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension graft_extension_embedding_cuda;
const graft_extension graft_extension_embedding_cuda = {
    .struct_size = sizeof graft_extension_embedding_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.embedding_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = 1,
};
