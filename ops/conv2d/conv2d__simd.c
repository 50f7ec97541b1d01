#include "graft/extension.h"
#include "ops/common/cpu/conv.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"
#include "ops/conv2d/conv2d.h"

enum { X, WEIGHT, BIAS };
enum { IMAGES, CHANNELS, DOWN, ACROSS };

typedef struct arguments {
  graft_conv conv;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_conv_run(&a->conv, item, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

static graft_conv describe(const graft_node_info *node) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *y = node->outputs[0];
  const graft_conv2d_attrs *attrs = node->attrs;
  graft_conv conv = {
      .core = &GRAFT_TARGETED(graft_conv_core),
      .images = x->shape[IMAGES],
      .groups = attrs->groups,
      .channels = weight->shape[CHANNELS],
      .out_channels = weight->shape[IMAGES] / attrs->groups,
      .padding = {attrs->padding[0], attrs->padding[2]},
      .x_type = x->dtype->code,
      .image_stride = graft_gemm_stride(x, IMAGES),
      .channel_stride = graft_gemm_stride(x, CHANNELS),
      .row_stride = graft_gemm_stride(x, DOWN),
      .weight = {.type = weight->dtype->code},
      .out = {.type = y->dtype->code},
  };
  for (int i = 0; i < 2; ++i) {
    conv.size[i] = x->shape[DOWN + i];
    conv.out_size[i] = y->shape[DOWN + i];
    conv.kernel[i] = weight->shape[DOWN + i];
    conv.stride[i] = attrs->stride[i];
    conv.dilation[i] = attrs->dilation[i];
  }
  return conv;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *bias = node->inputs[BIAS];
  const graft_dtype dtypes[] = {node->inputs[X]->dtype, node->inputs[WEIGHT]->dtype, node->outputs[0]->dtype,
                                bias ? bias->dtype : GRAFT_F32};
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; ++i) {
    if (!graft_gemm_takes(dtypes[i])) {
      return graft_refuse(why, "an operand is %s, not f32, f16 or bf16", dtypes[i]->name);
    }
  }
  if (!graft_gemm_has_dense_rows(node->inputs[X])) return graft_refuse(why, "rows of x are not contiguous");
  if (!graft_tensor_desc_is_contiguous(node->inputs[WEIGHT])) return graft_refuse(why, "the weight is not contiguous");
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "y is not contiguous");
  if (bias && !graft_gemm_has_dense_rows(bias)) return graft_refuse(why, "the bias is not contiguous");
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_conv conv = describe(node);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * graft_conv_scratch_bytes(&conv);
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *bias = args->node->inputs[BIAS];
  arguments a = {.conv = describe(args->node), .scratch = args->workspace};
  a.scratch_bytes = graft_conv_scratch_bytes(&a.conv);
  a.conv.x = args->inputs[X];
  a.conv.weight.data = args->inputs[WEIGHT];
  a.conv.out.data = args->outputs[0];
  if (bias) {
    a.conv.out.bias = (graft_gemm_matrix){.data = args->inputs[BIAS], .type = bias->dtype->code, .row_stride = 1};
  }
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = graft_conv_items(&a.conv)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(conv2d_float_windows),
    .op = "graft.conv2d.v1",
    .backend = "cpu",
    .requires = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .prepare = prepare,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_conv2d);
const graft_extension GRAFT_TARGETED(graft_extension_conv2d) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(conv2d),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
