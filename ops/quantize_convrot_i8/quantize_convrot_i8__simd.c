#include "graft/extension.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/quantize_target.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

typedef struct arguments {
  quantize_target to;
  graft_gemm_matrix x;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  float *scratch = quantize_target_scratch(&a->to, worker);
  const int64_t end = quantize_target_given(&a->to, item);
  for (int64_t i = item * a->to.rows_per_item; i < end; ++i) {
    const void *x = graft_gemm_matrix_at(a->x, i, 0).data;
    const graft_quantize_row row = quantize_target_row(&a->to, i, x, a->x.type, scratch);
    GRAFT_TARGETED(graft_quantize_core).row(&row);
  }
  quantize_target_finish(&a->to, item);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[0];
  if (!graft_gemm_takes(x->dtype)) return graft_refuse(why, "x is %s, not f32, f16 or bf16", x->dtype->name);
  int64_t rows;
  graft_gemm_matrix matrix;
  if (!graft_gemm_flatten(x, &rows, &matrix)) return graft_refuse(why, "rows of x are not equally far apart");
  if (!graft_gemm_has_dense_rows(x)) return graft_refuse(why, "rows of x are not contiguous");
  for (uint32_t i = 0; i < node->n_outputs; ++i) {
    if (!graft_tensor_desc_is_contiguous(node->outputs[i])) return graft_refuse(why, "a result is not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_quantize_convrot_i8_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *x = args->node->inputs[0];
  arguments a = {
      .to = {.k = x->shape[x->rank - 1], .group = attrs->group, .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16}};
  graft_gemm_flatten(x, &a.to.m, &a.x);
  a.x.data = args->inputs[0];
  quantize_target_place(&a.to, args, a.x.type);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.to.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(quantize_convrot_i8_rows),
        .op = "graft.quantize_convrot_i8.v1",
        .backend = "cpu",
        .required_features = GRAFT_TARGET_REQUIRES,
        .supports = supports,
        .prepare = quantize_prepare,
        .encode = encode,
    },
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(quantize_convrot_i8_packed_rows),
        .op = "graft.quantize_convrot_i8_packed.v1",
        .backend = "cpu",
        .required_features = GRAFT_TARGET_REQUIRES,
        .supports = supports,
        .prepare = quantize_prepare,
        .encode = encode,
    },
};

extern const graft_extension GRAFT_TARGETED(graft_extension_quantize_convrot_i8);
const graft_extension GRAFT_TARGETED(graft_extension_quantize_convrot_i8) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(quantize_convrot_i8),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
