// CUDA kernels of graft.quantize_convrot_i8.v1 and graft.quantize_convrot_i8_packed.v1.
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cuda/quantize.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (!graft_cuda_takes(node->inputs[0])) {
    return graft_refuse(why, "x is %s, no built-in float", node->inputs[0]->dtype->name);
  }
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!graft_tensor_desc_is_contiguous(node->outputs[i])) return graft_refuse(why, "a result is not contiguous");
  }
  return true;
}

// Rows of q, padding included.
static int64_t count_rows(const graft_node_info *node) {
  return node->n_outputs == 1 ? node->outputs[0]->shape[0] : graft_tensor_desc_elements(node->outputs[1]);
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const graft_tensor_desc *x = node->inputs[0];
  graft_quantizer *quantizer = calloc(1, sizeof *quantizer);
  if (quantizer == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = graft_quantizer_init(node->device, count_rows(node), x->shape[x->rank - 1], error, quantizer);
  if (status != GRAFT_OK) {
    free(quantizer);
    return status;
  }
  out_prepared->state = quantizer;
  out_prepared->workspace_bytes = quantizer->workspace_bytes;
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_quantize_convrot_i8_attrs *attrs = node->attrs;
  const graft_tensor_desc *x = node->inputs[0];
  graft_quantize_job job = {
      .desc = x,
      .x = args->inputs[0],
      .group = attrs->group,
      .n_rows = count_rows(node),
      .q_stride = x->shape[x->rank - 1],
      .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16,
      .q = args->outputs[0],
      .workspace = args->workspace,
  };
  job.scales = node->n_outputs == 1 ? (char *)job.q + job.n_rows * job.q_stride : args->outputs[1];
  return graft_quantizer_encode(encoder, args->state, &job, args->error);
}

#define KERNEL(op_name, file_name)                                                                           \
  {                                                                                                          \
    .struct_size = sizeof(graft_kernel_def), .priority = 10, .name = file_name "_rows__cuda", .op = op_name, \
    .backend = "cuda", .supports = supports, .prepare = prepare, .encode = encode, .destroy = free           \
  }

static const graft_kernel_def kernels[] = {
    KERNEL("graft.quantize_convrot_i8.v1", "quantize_convrot_i8"),
    KERNEL("graft.quantize_convrot_i8_packed.v1", "quantize_convrot_i8_packed"),
};

extern const graft_extension graft_extension_quantize_convrot_i8_cuda;
const graft_extension graft_extension_quantize_convrot_i8_cuda = {
    .struct_size = sizeof graft_extension_quantize_convrot_i8_cuda,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.quantize_convrot_i8_cuda",
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
