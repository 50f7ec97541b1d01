#include <string.h>

#include "graft/extension.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/quantize.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

enum { ITEM_ELEMENTS = 16384 };

typedef struct arguments {
  const graft_quantize_core *core;
  graft_gemm_matrix x;
  int64_t m, n_rows, k;  // rows of x, and of the target, the rest zeros
  int64_t rows_per_item, group;
  bool has_bf16_grid, streams;
  int8_t *q;
  float *scales;
  char *scratch;  // one part for each worker
} arguments;

static size_t scratch_bytes(int64_t k) {
  return (size_t)graft_quantize_scratch_floats(k) * sizeof(float);
}

static void quantize(const arguments *a, int64_t row, float *scratch) {
  int8_t *q = a->q + row * a->k;
  if (row >= a->m) {
    memset(q, 0, (size_t)a->k);
    a->scales[row] = 0;
    return;
  }
  const graft_quantize_row one = {.x = graft_gemm_matrix_at(a->x, row, 0).data,
                                  .type = a->x.type,
                                  .n = a->k,
                                  .group = a->group,
                                  .has_bf16_grid = a->has_bf16_grid,
                                  .streams = a->streams,
                                  .q = q,
                                  .scale = a->scales + row,
                                  .scratch = scratch};
  a->core->row(&one);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  char *scratch = a->scratch + (size_t)worker->index * scratch_bytes(a->k);
  const int64_t first = item * a->rows_per_item, left = a->n_rows - first;
  const int64_t n = left < a->rows_per_item ? left : a->rows_per_item;
  for (int64_t i = 0; i < n; ++i) quantize(a, first + i, (float *)(void *)scratch);
  if (a->streams) vec_stream_end();
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

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_tensor_desc *x = node->inputs[0];
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * scratch_bytes(x->shape[x->rank - 1]);
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_quantize_convrot_i8_attrs *attrs = node->attrs;
  const graft_tensor_desc *x = node->inputs[0];
  arguments a = {.core = &GRAFT_TARGETED(graft_quantize_core),
                 .k = x->shape[x->rank - 1],
                 .group = attrs->group,
                 .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16,
                 .q = args->outputs[0],
                 .scratch = args->workspace};
  graft_gemm_flatten(x, &a.m, &a.x);
  a.x.data = args->inputs[0];
  a.streams = graft_quantize_should_stream(a.q, a.x.type, a.m, a.k);
  const bool is_packed = node->n_outputs == 1;
  a.n_rows = is_packed ? node->outputs[0]->shape[0] : a.m;
  a.scales = is_packed ? (float *)(void *)(a.q + a.n_rows * a.k) : args->outputs[1];
  a.rows_per_item = a.k < ITEM_ELEMENTS ? ITEM_ELEMENTS / (a.k > 0 ? a.k : 1) : 1;
  const graft_cpu_task task = {
      .run = run, .args = &a, .args_bytes = sizeof a, .n_items = (a.n_rows + a.rows_per_item - 1) / a.rows_per_item};
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
        .prepare = prepare,
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
        .prepare = prepare,
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
