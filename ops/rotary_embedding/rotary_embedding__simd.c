#include "graft/extension.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary.h"
#include "ops/linear_i8/linear_i8_rows_target.h"
#include "ops/rotary_embedding/rotary_heads.h"

// The inputs of graft.rms_norm_rotary.v1 have a weight between them.
enum { X, TABLE, NORM_WEIGHT = 1, NORM_TABLE = 2, ITEM_BYTES = 32768 };
enum { WEIGHT = 1, PRODUCT_NORM = 3, PRODUCT_TABLE };  // of graft.linear_i8_rms_norm_rotary.v1

typedef struct arguments {
  rotary_heads heads;
  const char *x;
  int64_t x_strides[2];        // bytes
  int64_t positions_per_item;  // counted over all items of the batch
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const int64_t *shape = a->heads.shape;
  int64_t end = (item + 1) * a->positions_per_item;
  if (end > shape[0] * shape[1]) end = shape[0] * shape[1];
  for (int64_t i = item * a->positions_per_item; i < end; ++i) {
    const char *x = a->x + i / shape[1] * a->x_strides[0] + i % shape[1] * a->x_strides[1];
    rotary_heads_run(&a->heads, i, x, 0, shape[2]);
  }
}

static bool can_rotate(const graft_tensor_desc *x, const graft_tensor_desc *table, graft_reason *why) {
  if (!graft_tensor_desc_is_dense_from(x, 3)) return graft_refuse(why, "channels of a head are not contiguous");
  return rotary_takes_table(table, why);
}

static bool is_float(const graft_tensor_desc *desc) {
  return desc->dtype == GRAFT_F32 || desc->dtype == GRAFT_F16 || desc->dtype == GRAFT_BF16;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X];
  if (!is_float(x)) return graft_refuse(why, "x is %s, not f32, f16 or bf16", x->dtype->name);
  return can_rotate(x, node->inputs[TABLE], why);
}

static bool supports_norm(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *y = node->outputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!is_float(y)) return graft_refuse(why, "the result is %s, not f32, f16 or bf16", y->dtype->name);
  if (!rms_takes_weight(node->inputs[NORM_WEIGHT])) {
    return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  }
  return can_rotate(x, node->inputs[NORM_TABLE], why);
}

static graft_status encode_heads(graft_encoder *encoder, const graft_encode_args *args, arguments *a) {
  const graft_tensor_desc *x = args->node->inputs[X];
  if (graft_tensor_desc_elements(x) == 0) return GRAFT_OK;
  a->x = args->inputs[X];
  a->heads.x_head_stride = x->strides[2];
  for (int d = 0; d < 2; ++d) a->x_strides[d] = x->strides[d];
  const int64_t bytes = x->shape[2] * x->shape[3] * (int64_t)x->dtype->block_bytes, n = x->shape[0] * x->shape[1];
  a->positions_per_item = bytes < ITEM_BYTES ? ITEM_BYTES / bytes : 1;
  const graft_cpu_task task = {.run = run,
                               .args = a,
                               .args_bytes = sizeof *a,
                               .n_items = (n + a->positions_per_item - 1) / a->positions_per_item};
  return graft_cpu_encode(encoder, &task, args->error);
}

static rotary_heads heads_of(const graft_encode_args *args, uint32_t table) {
  const graft_node_info *node = args->node;
  return rotary_heads_describe(node->outputs[0], args->outputs[0], node->inputs[table], args->inputs[table]);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_rotary_attrs *attrs = args->node->attrs;
  arguments a = {.heads = heads_of(args, TABLE)};
  a.heads.is_half = attrs->style == GRAFT_ROTARY_HALF;
  return encode_heads(encoder, args, &a);
}

static graft_status encode_norm(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.heads = heads_of(args, NORM_TABLE)};
  rotary_heads_set_norm(&a.heads, args->node->attrs, args->node->inputs[NORM_WEIGHT], args->inputs[NORM_WEIGHT]);
  return encode_heads(encoder, args, &a);
}

// The product's rows become heads while they are near: where they are, in the result, or from scratch where that has
// another dtype.
typedef struct product_arguments {
  rotary_heads heads;
  graft_gemm_i8 product;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
} product_arguments;

static void run_product(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const product_arguments *a = args;
  const graft_gemm_i8 *g = &a->product;
  const int64_t few = graft_gemm_i8_few_rows(g->core), first = item * few;
  const int64_t rows = g->m - first < few ? g->m - first : few;
  char *const scratch = a->scratch + (size_t)worker->index * a->scratch_bytes;
  float *const out = a->heads.y_type == GRAFT_DTYPE_F32
                         ? (float *)(void *)a->heads.y + first * g->n
                         : (float *)(void *)(scratch + graft_gemm_i8_few_scratch_bytes(g->core, g->k));
  const linear_i8_rows_part part = {.first = first, .n = rows, .end = g->n, .out = out, .row_stride = g->n};
  linear_i8_rows_run(g, &part, scratch);
  for (int64_t i = 0; i < rows; ++i) {
    rotary_heads_run(&a->heads, first + i, (const char *)(out + i * g->n), 0, a->heads.shape[2]);
  }
}

static bool supports_product(const graft_node_info *node, graft_reason *why) {
  if (!linear_i8_rows_supports(node, WEIGHT, why)) return false;
  if (!rms_takes_weight(node->inputs[PRODUCT_NORM])) {
    return graft_refuse(why, "the norm's weight is not contiguous f32, f16 or bf16");
  }
  if (!is_float(node->outputs[0])) {
    return graft_refuse(why, "the result is %s, not f32, f16 or bf16", node->outputs[0]->dtype->name);
  }
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "the result is not contiguous");
  return can_rotate(node->outputs[0], node->inputs[PRODUCT_TABLE], why);
}

static bool prefers_product(const graft_node_info *node, graft_reason *why) {
  return linear_i8_rows_stay_near(node, WEIGHT, why);
}

// Of each thread, a multiple of 64.
static size_t product_scratch_bytes(const graft_node_info *node, const graft_gemm_i8 *g) {
  const size_t bytes = graft_gemm_i8_few_scratch_bytes(g->core, g->k);
  if (node->outputs[0]->dtype == GRAFT_F32) return bytes;
  const size_t rows_bytes = (size_t)(graft_gemm_i8_few_rows(g->core) * g->n) * sizeof(float);
  return (bytes + rows_bytes + 63) / 64 * 64;
}

static graft_status prepare_product(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_gemm_i8 g = linear_i8_rows_describe(node, WEIGHT);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  linear_i8_rows_prepare(node, WEIGHT, out_prepared);
  out_prepared->workspace_bytes = n_workers * product_scratch_bytes(node, &g);
  return GRAFT_OK;
}

static graft_status encode_product(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_linear_i8_rms_norm_rotary_attrs *attrs = args->node->attrs;
  product_arguments a = {.heads = heads_of(args, PRODUCT_TABLE),
                         .product = linear_i8_rows_place(args, WEIGHT),
                         .scratch = args->workspace};
  a.scratch_bytes = product_scratch_bytes(args->node, &a.product);
  rotary_heads_set_norm(&a.heads, &attrs->then, args->node->inputs[PRODUCT_NORM], args->inputs[PRODUCT_NORM]);
  a.heads.x_head_stride = a.heads.shape[3] * (int64_t)sizeof(float);
  const graft_cpu_task task = {
      .run = run_product, .args = &a, .args_bytes = sizeof a, .n_items = linear_i8_rows_items(&a.product)};
  return graft_cpu_encode(encoder, &task, args->error);
}

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES, .in_place_inputs = 1u << X

static const graft_kernel_def kernels[] = {
    {KERNEL(rotary_embedding_float_heads, "graft.rotary_embedding.v1"), .supports = supports, .encode = encode},
    {KERNEL(rms_norm_rotary_f32_heads, "graft.rms_norm_rotary.v1"), .supports = supports_norm, .encode = encode_norm},
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(linear_i8_rms_norm_rotary_rows),
        .op = "graft.linear_i8_rms_norm_rotary.v1",
        .backend = "cpu",
        .required_features = LINEAR_I8_ROWS_REQUIRES,
        .supports = supports_product,
        .preferred = prefers_product,
        .prepare = prepare_product,
        .pack = linear_i8_rows_pack,
        .encode = encode_product,
    },
};

extern const graft_extension GRAFT_TARGETED(graft_extension_rotary_embedding);
const graft_extension GRAFT_TARGETED(graft_extension_rotary_embedding) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(rotary_embedding),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
