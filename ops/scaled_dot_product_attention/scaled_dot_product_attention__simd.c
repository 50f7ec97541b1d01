#include <math.h>

#include "graft/extension.h"
#include "ops/common/cpu/attention.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"

enum { Q, K, V, MASK };
enum { BATCH, TOKEN, HEAD, WIDTH };

typedef struct arguments {
  graft_attention attention;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_attention_run(&a->attention, item, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

static graft_attention_tensor describe_tensor(const graft_tensor_desc *desc) {
  return (graft_attention_tensor){.type = desc->dtype->code,
                                  .batch_stride = graft_gemm_stride(desc, BATCH),
                                  .token_stride = graft_gemm_stride(desc, TOKEN),
                                  .head_stride = graft_gemm_stride(desc, HEAD)};
}

static graft_attention describe(const graft_node_info *node) {
  const graft_tensor_desc *q = node->inputs[Q], *k = node->inputs[K], *v = node->inputs[V], *mask = node->inputs[MASK];
  const graft_attention_attrs *attrs = node->attrs;
  const double scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)q->shape[WIDTH]);
  return (graft_attention){
      .core = &GRAFT_TARGETED(graft_attention_core),
      .batches = q->shape[BATCH],
      .heads = q->shape[HEAD],
      .key_heads = k->shape[HEAD],
      .queries = q->shape[TOKEN],
      .keys = k->shape[TOKEN],
      .width = q->shape[WIDTH],
      .value_width = v->shape[WIDTH],
      .scale = (float)scale,
      .is_causal = attrs->is_causal,
      .key_mask_stride = mask && mask->shape[BATCH] > 1 ? mask->strides[BATCH] : 0,
      .q = describe_tensor(q),
      .k = describe_tensor(k),
      .v = describe_tensor(v),
      .out = describe_tensor(node->outputs[0]),
  };
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  static const char *const names[] = {"q", "k", "v", "the output"};
  const graft_tensor_desc *const tensors[] = {node->inputs[Q], node->inputs[K], node->inputs[V], node->outputs[0]};
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i) {
    if (!graft_gemm_takes(tensors[i]->dtype)) {
      return graft_refuse(why, "%s is %s, not f32, f16 or bf16", names[i], tensors[i]->dtype->name);
    }
    if (!graft_gemm_has_dense_rows(tensors[i])) return graft_refuse(why, "rows of %s are not contiguous", names[i]);
  }
  const graft_tensor_desc *mask = node->inputs[MASK];
  if (mask && !graft_gemm_has_dense_rows(mask)) return graft_refuse(why, "rows of the key mask are not contiguous");
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_attention attention = describe(node);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * graft_attention_scratch_bytes(&attention);
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.attention = describe(args->node), .scratch = args->workspace};
  a.scratch_bytes = graft_attention_scratch_bytes(&a.attention);
  a.attention.q.data = args->inputs[Q];
  a.attention.k.data = args->inputs[K];
  a.attention.v.data = args->inputs[V];
  a.attention.key_mask = args->inputs[MASK];
  a.attention.out_data = args->outputs[0];
  const graft_cpu_task task = {
      .run = run, .args = &a, .args_bytes = sizeof a, .n_items = graft_attention_items(&a.attention)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(scaled_dot_product_attention_float_blocks),
    .op = "graft.scaled_dot_product_attention.v1",
    .backend = "cpu",
    .requires = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .prepare = prepare,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_scaled_dot_product_attention);
const graft_extension GRAFT_TARGETED(graft_extension_scaled_dot_product_attention) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(scaled_dot_product_attention),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
