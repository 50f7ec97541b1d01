#include <stdio.h>

#include "graft/extension.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"

enum { A, B, Y, N_OPERANDS };

typedef struct arguments {
  graft_gemm gemm;  // of the first batch
  int64_t items;    // of one batch
  int32_t rank;     // of the batch index
  int64_t shape[GRAFT_MAX_RANK];
  int64_t strides[N_OPERANDS][GRAFT_MAX_RANK];  // bytes; 0: one matrix for all batches
  char *scratch;                                // one part for each worker
  size_t scratch_bytes;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_gemm gemm = a->gemm;
  int64_t batch = item / a->items, offsets[N_OPERANDS] = {0};
  for (int32_t d = a->rank - 1; d >= 0; --d) {
    for (int i = 0; i < N_OPERANDS; ++i) offsets[i] += batch % a->shape[d] * a->strides[i][d];
    batch /= a->shape[d];
  }
  gemm.a.data = (const char *)gemm.a.data + offsets[A];
  gemm.b.data = (const char *)gemm.b.data + offsets[B];
  gemm.out.data = (char *)gemm.out.data + offsets[Y];
  graft_gemm_run(&gemm, item % a->items, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

// A constant matrix that all batches share is packed.
static bool is_packed(const graft_node_info *node) {
  const graft_tensor_desc *b = node->inputs[B];
  return (node->constant_inputs & 1u << B) && b->rank == 2 && graft_tensor_desc_elements(b) > 0;
}

// Bytes from matrix to matrix of |desc| along dimension |d| of the output's batches.
static int64_t batch_stride(const graft_tensor_desc *desc, const graft_tensor_desc *y, int32_t d) {
  const int32_t own = d - (y->rank - desc->rank);
  return own < 0 || desc->shape[own] == 1 ? 0 : desc->strides[own];
}

// Batches of rows that meet one and the same b are rows of one product, if they lie so.
static bool flatten(const graft_node_info *node, graft_gemm *gemm) {
  const graft_tensor_desc *a = node->inputs[A], *b = node->inputs[B], *y = node->outputs[0];
  graft_gemm_matrix from, to;
  int64_t a_rows, y_rows;
  if (b->rank != 2 || !graft_gemm_flatten(a, &a_rows, &from) || !graft_gemm_flatten(y, &y_rows, &to)) return false;
  gemm->m = y_rows;
  gemm->a = from;
  gemm->out.row_stride = to.row_stride;
  return true;
}

// The work without addresses.
static arguments describe(const graft_node_info *node) {
  const graft_tensor_desc *a = node->inputs[A], *b = node->inputs[B], *y = node->outputs[0];
  arguments out = {.gemm = {.core = &GRAFT_TARGETED(graft_gemm_core),
                            .m = y->shape[y->rank - 2],
                            .n = y->shape[y->rank - 1],
                            .k = a->shape[a->rank - 1],
                            .a = graft_gemm_matrix_of(a, a->rank - 2),
                            .b = graft_gemm_matrix_of(b, b->rank - 2),
                            .b_is_packed = is_packed(node),
                            .out = {.type = y->dtype->code, .row_stride = graft_gemm_stride(y, y->rank - 2)}}};
  if (!flatten(node, &out.gemm)) {
    out.rank = y->rank - 2;
    for (int32_t d = 0; d < out.rank; ++d) {
      out.shape[d] = y->shape[d];
      out.strides[A][d] = batch_stride(a, y, d);
      out.strides[B][d] = batch_stride(b, y, d);
      out.strides[Y][d] = batch_stride(y, y, d);
    }
  }
  out.items = graft_gemm_items(&out.gemm);
  out.scratch_bytes = graft_gemm_scratch_bytes(&out.gemm);
  return out;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype dtypes[N_OPERANDS] = {node->inputs[A]->dtype, node->inputs[B]->dtype, node->outputs[0]->dtype};
  for (int i = 0; i < N_OPERANDS; ++i) {
    if (!graft_gemm_takes(dtypes[i])) {
      return graft_refuse(why, "an operand is %s, not f32, f16 or bf16", dtypes[i]->name);
    }
  }
  if (!graft_gemm_has_dense_rows(node->outputs[0])) return graft_refuse(why, "rows of y are not contiguous");
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const arguments a = describe(node);
  out_prepared->workspace_bytes = (size_t)graft_cpu_describe(node->device)->n_threads * a.scratch_bytes;
  if (!a.gemm.b_is_packed) return GRAFT_OK;
  graft_packed_input *packed = &out_prepared->packed[out_prepared->n_packed++];
  packed->input = B;
  packed->bytes = graft_gemm_packed_bytes(a.gemm.core, a.gemm.b.type, a.gemm.n, a.gemm.k);
  packed->alignment = 64;
  snprintf(packed->layout, sizeof packed->layout, "panels of %d columns", a.gemm.core->panel);
  return GRAFT_OK;
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state, (void)input;
  arguments a = describe(node);
  a.gemm.b.data = source;
  graft_gemm_pack(a.gemm.core, &a.gemm.b, a.gemm.n, a.gemm.k, packed);
  return GRAFT_OK;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = describe(args->node);
  a.scratch = args->workspace;
  a.gemm.a.data = args->inputs[A];
  a.gemm.b.data = args->inputs[B];
  a.gemm.out.data = args->outputs[0];
  int64_t batches = 1;
  for (int32_t d = 0; d < a.rank; ++d) batches *= a.shape[d];
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = batches * a.items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(matmul_float_panels),
    .op = "graft.matmul.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_matmul);
const graft_extension GRAFT_TARGETED(graft_extension_matmul) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(matmul),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
