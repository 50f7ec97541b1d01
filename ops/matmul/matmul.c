#include "ops/matmul/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/reference.h"
#include "ops/matmul/matmul_cases.h"

enum { A, B };

// Size of output dimension |d| (of |rank|, before the last two); false where a and b do not broadcast.
static bool broadcast_dim(const graft_tensor_desc *a, const graft_tensor_desc *b, int32_t rank, int32_t d,
                          int64_t *out_size) {
  const int32_t da = d - (rank - a->rank), db = d - (rank - b->rank);
  const int64_t size_a = da < 0 ? 1 : a->shape[da], size_b = db < 0 ? 1 : b->shape[db];
  *out_size = size_a == 1 ? size_b : size_a;
  return size_a == size_b || size_a == 1 || size_b == 1;
}

static graft_status infer(graft_infer_args *args) {
  const graft_tensor_desc *a = args->inputs[A], *b = args->inputs[B];
  GRAFT_TRY(graft_infer_require_float(args, A, "a", false));
  GRAFT_TRY(graft_infer_require_float(args, B, "b", true));
  if (a->rank < 2 || b->rank < 2) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "a and b must have at least 2 dimensions, not %d and %d", a->rank,
                      b->rank);
  }
  const int64_t k = a->shape[a->rank - 1];
  if (b->shape[b->rank - 2] != k) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "a has %lld columns, but b has %lld rows", (long long)k,
                      (long long)b->shape[b->rank - 2]);
  }
  const int32_t rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < rank - 2; ++d) {
    if (!broadcast_dim(a, b, rank, d, &shape[d])) {
      char text_a[96], text_b[96];
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the batches of a %s and b %s do not broadcast",
                        graft_tensor_desc_format(a, text_a, sizeof text_a),
                        graft_tensor_desc_format(b, text_b, sizeof text_b));
    }
  }
  shape[rank - 2] = a->shape[a->rank - 2];
  shape[rank - 1] = b->shape[b->rank - 1];
  return graft_tensor_desc_init(a->dtype, rank, shape, args->error, &args->outputs[0]);
}

// The last two dimensions of |view| at batch |index|.
static graft_view matrix_at(const graft_view *view, const int64_t *index) {
  graft_view matrix = *view;
  for (int32_t d = 0; d < view->desc.rank - 2; ++d) matrix = graft_reference_select(&matrix, 0, index[d]);
  return matrix;
}

// y = a · b for matrices; |sums| holds a row of y.
static graft_status multiply(const graft_reference_args *args, const graft_view *a, const graft_view *b,
                             const graft_view *y, double *sums) {
  graft_reference_floats fa, fb = {0};
  const int64_t m = y->desc.shape[0], n = y->desc.shape[1], k = a->desc.shape[1];
  graft_status status = graft_reference_load(a, args->error, &fa);
  if (status == GRAFT_OK) status = graft_reference_load(b, args->error, &fb);
  for (int64_t i = 0; i < m && status == GRAFT_OK; ++i) {
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t t = 0; t < k; ++t) {
      const double factor = (double)fa.data[i * k + t];
      for (int64_t j = 0; j < n; ++j) sums[j] += factor * (double)fb.data[t * n + j];
    }
    graft_reference_store_row(y, (int64_t[]){i, 0}, sums);
    status = graft_reference_check(args);
  }
  graft_reference_floats_free(&fb);
  graft_reference_floats_free(&fa);
  return status;
}

static graft_view broadcast_batches(const graft_view *view, const graft_tensor_desc *y) {
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < y->rank - 2; ++d) shape[d] = y->shape[d];
  shape[y->rank - 2] = view->desc.shape[view->desc.rank - 2];
  shape[y->rank - 1] = view->desc.shape[view->desc.rank - 1];
  return graft_reference_broadcast(view, y->rank, shape);
}

static graft_status reference(const graft_reference_args *args) {
  const graft_view *y = &args->outputs[0];
  if (graft_tensor_desc_elements(&y->desc) == 0) return GRAFT_OK;
  const graft_view a = broadcast_batches(&args->inputs[A], &y->desc), b = broadcast_batches(&args->inputs[B], &y->desc);
  double *sums = graft_reference_allocate(graft_reference_row_length(&y->desc), sizeof *sums, args->error);
  if (!sums) return GRAFT_E_NO_MEMORY;
  graft_tensor_desc batches = y->desc;
  batches.rank -= 2;
  int64_t index[GRAFT_MAX_RANK] = {0};
  graft_status status;
  do {
    const graft_view ma = matrix_at(&a, index), mb = matrix_at(&b, index), my = matrix_at(y, index);
    status = multiply(args, &ma, &mb, &my, sums);
  } while (status == GRAFT_OK && graft_index_next(&batches, index));
  free(sums);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return 2.0 * (double)inputs[A]->shape[inputs[A]->rank - 1] * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_matmul(graft_graph *graph, graft_tensor *a, graft_tensor *b) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.matmul.v1", NULL, 0, (graft_tensor *[]){a, b}, 2, &y);
  return y;
}

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.matmul.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .cases = graft_matmul_cases,
    .n_cases = GRAFT_MATMUL_N_CASES,
}};

extern const graft_extension graft_extension_matmul;
const graft_extension graft_extension_matmul = {
    .struct_size = sizeof graft_extension_matmul,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.matmul",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
