#include "graft/extension.h"
#include "ops/common/cpu/conv.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"
#include "ops/conv2d/conv2d.h"
#include "ops/fused/conv2d_epilogue/conv2d_epilogue.h"

enum { X, WEIGHT, BIAS, GATE, RESIDUAL };  // the last two of graft.conv2d_epilogue.v1 only
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

static graft_conv describe(const graft_node_info *node, const graft_conv_core *core) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *y = node->outputs[0];
  const graft_conv2d_attrs *attrs = node->attrs;  // what those with an epilogue begin with
  graft_conv conv = {
      .core = core,
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

static graft_status prepare_for(const graft_node_info *node, const graft_conv_core *core,
                                graft_prepared *out_prepared) {
  const graft_conv conv = describe(node, core);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * graft_conv_scratch_bytes(&conv);
  return GRAFT_OK;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return prepare_for(node, &GRAFT_TARGETED(graft_conv_core), out_prepared);
}

static graft_status encode_windows(graft_encoder *encoder, const graft_encode_args *args, arguments *a) {
  const graft_tensor_desc *bias = args->node->inputs[BIAS];
  a->scratch = args->workspace;
  a->scratch_bytes = graft_conv_scratch_bytes(&a->conv);
  a->conv.x = args->inputs[X];
  a->conv.weight.data = args->inputs[WEIGHT];
  a->conv.out.data = args->outputs[0];
  if (bias) a->conv.out.bias = (graft_gemm_matrix){.data = args->inputs[BIAS], .type = bias->dtype->code};
  const graft_cpu_task task = {.run = run, .args = a, .args_bytes = sizeof *a, .n_items = graft_conv_items(&a->conv)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.conv = describe(args->node, &GRAFT_TARGETED(graft_conv_core))};
  return encode_windows(encoder, args, &a);
}

// What gate or residual |input| has for every element of y: as many elements, one per channel, or none where it is left
// out. False where it is anything else.
static bool find_addend(const graft_node_info *node, uint32_t input, const void *data, graft_gemm_matrix *out_matrix) {
  const graft_tensor_desc *desc = node->inputs[input], *y = node->outputs[0];
  if (!desc) return true;
  *out_matrix = (graft_gemm_matrix){.data = data, .type = desc->dtype->code};
  if (!graft_tensor_desc_is_contiguous(desc) || desc->rank < 3) return false;
  if (graft_tensor_desc_has_shape(desc, y->rank, y->shape)) {
    out_matrix->column_stride = 1;
    return true;
  }
  const int64_t *shape = desc->shape + desc->rank - 3;
  return shape[0] == y->shape[CHANNELS] && shape[1] == 1 && shape[2] == 1 && (desc->rank == 3 || desc->shape[0] == 1);
}

static bool supports_epilogue(const graft_node_info *node, graft_reason *why) {
  if (!supports(node, why)) return false;
  for (uint32_t i = GATE; i <= RESIDUAL; ++i) {
    graft_gemm_matrix matrix;
    if (node->inputs[i] && !graft_gemm_takes(node->inputs[i]->dtype)) {
      return graft_refuse(why, "gate or residual is %s, not f32, f16 or bf16", node->inputs[i]->dtype->name);
    }
    if (!find_addend(node, i, NULL, &matrix)) {
      return graft_refuse(why, "gate or residual is neither as large as y nor one value per channel, contiguous");
    }
  }
  return true;
}

static graft_status encode_epilogue_for(graft_encoder *encoder, const graft_encode_args *args,
                                        const graft_conv_core *core) {
  const graft_conv2d_epilogue_attrs *attrs = args->node->attrs;
  arguments a = {.conv = describe(args->node, core)};
  a.conv.out.activation = graft_gemm_activation_of(attrs->activation);
  find_addend(args->node, GATE, args->inputs[GATE], &a.conv.out.gate);
  find_addend(args->node, RESIDUAL, args->inputs[RESIDUAL], &a.conv.out.residual);
  return encode_windows(encoder, args, &a);
}

static graft_status encode_epilogue(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_epilogue_for(encoder, args, &GRAFT_TARGETED(graft_conv_core));
}

#if defined(__AVX512F__)
// Products of bf16 as such, for images that are bf16 already.
static bool are_bf16(const graft_node_info *node, graft_reason *why) {
  if (node->inputs[X]->dtype == GRAFT_BF16 && node->inputs[WEIGHT]->dtype == GRAFT_BF16) return true;
  return graft_refuse(why, "x and the weight are not both bf16");
}

static bool supports_bf16(const graft_node_info *node, graft_reason *why) {
  return are_bf16(node, why) && supports(node, why);
}

static bool supports_bf16_epilogue(const graft_node_info *node, graft_reason *why) {
  return are_bf16(node, why) && supports_epilogue(node, why);
}

static graft_status prepare_bf16(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return prepare_for(node, &graft_conv_core__avx512_bf16, out_prepared);
}

static graft_status encode_bf16(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.conv = describe(args->node, &graft_conv_core__avx512_bf16)};
  return encode_windows(encoder, args, &a);
}

static graft_status encode_bf16_epilogue(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_epilogue_for(encoder, args, &graft_conv_core__avx512_bf16);
}

#define BF16_KERNEL(kernel, op_name)                                                                                   \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY + 5, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16,                      \
  .prepare = prepare_bf16
#endif

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES, .prepare = prepare

static const graft_kernel_def kernels[] = {
    {KERNEL(conv2d_float_windows, "graft.conv2d.v1"), .supports = supports, .encode = encode},
    {KERNEL(conv2d_epilogue_float_windows, "graft.conv2d_epilogue.v1"), .supports = supports_epilogue,
     .in_place_inputs = 1u << GATE | 1u << RESIDUAL, .encode = encode_epilogue},
#if defined(__AVX512F__)
    {BF16_KERNEL(conv2d_bf16_products, "graft.conv2d.v1"), .supports = supports_bf16, .encode = encode_bf16},
    {BF16_KERNEL(conv2d_epilogue_bf16_products, "graft.conv2d_epilogue.v1"), .supports = supports_bf16_epilogue,
     .in_place_inputs = 1u << GATE | 1u << RESIDUAL, .encode = encode_bf16_epilogue},
#endif
};

extern const graft_extension GRAFT_TARGETED(graft_extension_conv2d);
const graft_extension GRAFT_TARGETED(graft_extension_conv2d) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(conv2d),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
