#include "ops/common/cuda/gemm.h"

#include <stdlib.h>

#include "ops/common/cuda/finish.h"
#include "ops/common/cuda/lt.h"

enum { ALIGNMENT = 256 };

// How an operand reaches the library.
typedef struct operand_plan {
  bool is_converted;         // into the workspace, contiguous
  size_t offset;             // there
  int64_t step, batch_step;  // elements
  bool is_transposed;        // the second last dimension is the dense one
} operand_plan;

struct graft_gemm {
  bool has_product;  // m, n and k are not 0
  bool is_direct;    // the library writes the result itself
  graft_dtype operands;
  operand_plan a, b;
  size_t y_offset, lt_offset;
  graft_elementwise finish;
  graft_lt lt;
};

bool graft_gemm_supports(const graft_node_info *node, graft_reason *why) {
  return graft_cuda_takes_node(node, why);
}

// Whether every value of |from| is one of |to|.
static bool holds(graft_dtype to, graft_dtype from) {
  return to == from || to == GRAFT_F32 || from == GRAFT_F8_E4M3 || from == GRAFT_F8_E5M2;
}

static graft_dtype choose_operands(const graft_tensor_desc *a, const graft_tensor_desc *b) {
  const graft_dtype wanted = a->dtype == GRAFT_F16 || a->dtype == GRAFT_BF16 ? a->dtype : b->dtype;
  const bool is_half = wanted == GRAFT_F16 || wanted == GRAFT_BF16;
  return is_half && holds(wanted, a->dtype) && holds(wanted, b->dtype) ? wanted : GRAFT_F32;
}

// The dimensions before the last |n_matrix| as one with an even stride; false where that is not so.
static bool join_outer(const graft_tensor_desc *desc, int32_t n_matrix, int64_t *out_n, int64_t *out_stride) {
  int64_t n = 1, stride = 0;
  for (int32_t d = desc->rank - n_matrix - 1; d >= 0; --d) {
    if (desc->shape[d] == 1) continue;
    if (n == 1) stride = desc->strides[d];
    if (desc->strides[d] != stride * n) return false;
    n *= desc->shape[d];
  }
  *out_n = n;
  *out_stride = stride;
  return true;
}

static void convert(operand_plan *plan, int64_t rows, int64_t columns) {
  *plan = (operand_plan){.is_converted = true, .step = columns, .batch_step = rows * columns};
}

// Rows and columns as they lie, if the library can take them so.
static void plan_matrix(const graft_tensor_desc *desc, graft_dtype wanted, int64_t batch, operand_plan *out_plan) {
  const int64_t rows = desc->shape[desc->rank - 2], columns = desc->shape[desc->rank - 1];
  const int64_t bytes = desc->dtype->block_bytes;
  const int64_t row_stride = desc->strides[desc->rank - 2], column_stride = desc->strides[desc->rank - 1];
  int64_t n = 1, batch_stride = 0;
  operand_plan plan = {0};
  const bool is_joined = desc->dtype == wanted && join_outer(desc, 2, &n, &batch_stride) && (n == batch || n == 1) &&
                         batch_stride % bytes == 0 && (batch_stride > 0 || n == 1);
  plan.batch_step = n == 1 ? 0 : batch_stride / bytes;
  if (is_joined && (column_stride == bytes || columns == 1) && row_stride % bytes == 0 &&
      (row_stride >= columns * bytes || rows == 1)) {
    plan.step = rows == 1 ? columns : row_stride / bytes;
  } else if (is_joined && (row_stride == bytes || rows == 1) && column_stride % bytes == 0 &&
             column_stride >= rows * bytes) {
    plan.is_transposed = true;
    plan.step = column_stride / bytes;
  } else {
    convert(&plan, rows, columns);
  }
  *out_plan = plan;
}

// A tensor whose dimensions before the last are all rows of one matrix.
static void plan_rows(const graft_tensor_desc *desc, graft_dtype wanted, operand_plan *out_plan) {
  const int64_t columns = desc->shape[desc->rank - 1], bytes = desc->dtype->block_bytes;
  int64_t n = 1, stride = 0;
  operand_plan plan = {0};
  const bool is_joined = desc->dtype == wanted && join_outer(desc, 1, &n, &stride);
  const bool is_dense = desc->strides[desc->rank - 1] == bytes || columns == 1;
  if (is_joined && is_dense && stride % bytes == 0 && (stride >= columns * bytes || n == 1)) {
    plan.step = n == 1 ? columns : stride / bytes;
  } else {
    convert(&plan, 1, columns);
  }
  *out_plan = plan;
}

static const graft_tensor_desc *input_at(const graft_node_info *node, int32_t input) {
  return input >= 0 && input < (int32_t)node->n_inputs ? node->inputs[input] : NULL;
}

static size_t place(size_t *end, size_t bytes) {
  const size_t offset = *end;
  *end = (offset + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return offset;
}

static bool can_be_direct(const graft_node_info *node, const graft_gemm_node *gemm, const graft_gemm *state) {
  const graft_tensor_desc *y = node->outputs[0], *bias = input_at(node, gemm->bias);
  const graft_tensor_desc *a = input_at(node, gemm->a);
  const bool has_even_shape = y->shape[y->rank - 1] % 8 == 0 && a->shape[a->rank - 1] % 8 == 0;
  // In f16 the library makes infinities of sums that are merely large, which saturate here.
  const bool has_type = (y->dtype == state->operands && y->dtype != GRAFT_F16) || y->dtype == GRAFT_F32;
  const bool has_bias_type =
      bias == NULL || (bias->dtype == y->dtype && graft_tensor_desc_is_contiguous(bias) && gemm->is_b_transposed);
  // Of small odd shapes the library rounds the sums to 16 bits before it adds the bias.
  const bool is_rounded_twice = bias != NULL && y->dtype != GRAFT_F32 && !has_even_shape;
  return has_type && has_bias_type && !is_rounded_twice && gemm->activation == 0 &&
         input_at(node, gemm->gate) == NULL && input_at(node, gemm->residual) == NULL && state->has_product;
}

static graft_lt_shape shape_of(const graft_node_info *node, const graft_gemm_node *gemm) {
  const graft_tensor_desc *a = input_at(node, gemm->a), *y = node->outputs[0];
  graft_lt_shape shape = {.n = y->shape[y->rank - 1], .k = a->shape[a->rank - 1], .batch = 1, .m = 1};
  const int32_t first_row = gemm->is_b_transposed ? 0 : y->rank - 2;
  for (int32_t d = 0; d < y->rank - 1; ++d) {
    if (d >= first_row) shape.m *= y->shape[d];
    if (d < first_row) shape.batch *= y->shape[d];
  }
  return shape;
}

static void plan_operands(const graft_node_info *node, const graft_gemm_node *gemm, graft_lt_shape *shape,
                          graft_gemm *state) {
  const graft_tensor_desc *a = input_at(node, gemm->a), *b = input_at(node, gemm->b);
  state->operands = choose_operands(a, b);
  if (gemm->is_b_transposed) {
    plan_rows(a, state->operands, &state->a);
    plan_rows(b, state->operands, &state->b);
  } else {
    plan_matrix(a, state->operands, shape->batch, &state->a);
    plan_matrix(b, state->operands, shape->batch, &state->b);
  }
  shape->a_step = state->a.step;
  shape->b_step = state->b.step;
  shape->a_batch = state->a.batch_step;
  shape->b_batch = state->b.batch_step;
  shape->is_a_transposed = state->a.is_transposed;
  shape->is_b_transposed = gemm->is_b_transposed || state->b.is_transposed;
  shape->operands = state->operands->code;
}

static graft_status fill(const graft_node_info *node, const graft_gemm_node *gemm, graft_error *error,
                         graft_gemm *state, size_t *out_bytes) {
  graft_lt_shape shape = shape_of(node, gemm);
  state->has_product = shape.m > 0 && shape.n > 0 && shape.k > 0 && shape.batch > 0;
  plan_operands(node, gemm, &shape, state);
  state->is_direct = can_be_direct(node, gemm, state);
  shape.y_step = shape.n;
  shape.y_batch = shape.m * shape.n;
  shape.result = state->is_direct ? node->outputs[0]->dtype->code : GRAFT_DTYPE_F32;
  shape.has_bias = state->is_direct && input_at(node, gemm->bias) != NULL;
  const size_t bytes = state->operands->block_bytes;
  size_t end = 0;
  const size_t m = (size_t)shape.m, n = (size_t)shape.n, k = (size_t)shape.k, batch = (size_t)shape.batch;
  if (state->a.is_converted) state->a.offset = place(&end, batch * m * k * bytes);
  if (state->b.is_converted) state->b.offset = place(&end, (gemm->is_b_transposed ? 1 : batch) * n * k * bytes);
  if (!state->is_direct) state->y_offset = place(&end, batch * m * n * sizeof(float));
  GRAFT_TRY(graft_finish_load(node->device, error, &state->finish));
  if (state->has_product) {
    GRAFT_TRY(graft_lt_init(node->device, &shape, error, &state->lt));
    state->lt_offset = place(&end, state->lt.workspace_bytes);
  }
  *out_bytes = end;
  return GRAFT_OK;
}

graft_status graft_gemm_prepare(const graft_node_info *node, const graft_gemm_node *gemm, graft_error *error,
                                graft_prepared *out_prepared) {
  graft_gemm *state = calloc(1, sizeof *state);
  if (state == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a kernel");
  graft_status status = fill(node, gemm, error, state, &out_prepared->workspace_bytes);
  if (status != GRAFT_OK) {
    graft_gemm_destroy(state);
    return status;
  }
  out_prepared->state = state;
  out_prepared->workspace_alignment = ALIGNMENT;
  return GRAFT_OK;
}

void graft_gemm_destroy(void *state) {
  graft_gemm *gemm = state;
  if (gemm == NULL) return;
  graft_lt_release(&gemm->lt);
  free(gemm);
}

// Contiguous, in the product's dtype, batches broadcast to those of |y| where both have such dimensions.
static graft_status convert_operand(graft_encoder *encoder, const graft_encode_args *args, const graft_gemm_node *gemm,
                                    int32_t input, const operand_plan *plan) {
  const graft_gemm *state = args->state;
  const graft_tensor_desc *from = args->node->inputs[input], *y = args->node->outputs[0];
  graft_tensor_desc to;
  int64_t shape[GRAFT_MAX_RANK];
  const int32_t rank = gemm->is_b_transposed ? from->rank : y->rank;
  for (int32_t d = 0; d < rank; ++d) {
    const bool is_batch = !gemm->is_b_transposed && d < rank - 2;
    shape[d] = is_batch ? y->shape[d] : from->shape[from->rank - rank + d];
  }
  GRAFT_TRY(graft_tensor_desc_init(state->operands, rank, shape, args->error, &to));
  const graft_cuda_operands operands = {
      .n = 2, .desc = {&to, from}, .data = {(char *)args->workspace + plan->offset, args->inputs[input]}};
  graft_cuda_operands all = operands;
  all.n = GRAFT_FINISH_N;
  return graft_finish_encode(encoder, &state->finish, &all, 0, args->error);
}

static graft_status encode_product(graft_encoder *encoder, const graft_encode_args *args, const graft_gemm_node *gemm) {
  graft_gemm *state = args->state;
  char *workspace = args->workspace;
  if (state->a.is_converted) GRAFT_TRY(convert_operand(encoder, args, gemm, gemm->a, &state->a));
  if (state->b.is_converted) GRAFT_TRY(convert_operand(encoder, args, gemm, gemm->b, &state->b));
  const graft_lt_addresses addresses = {
      .a = state->a.is_converted ? workspace + state->a.offset : args->inputs[gemm->a],
      .b = state->b.is_converted ? workspace + state->b.offset : args->inputs[gemm->b],
      .bias = state->lt.shape.has_bias ? args->inputs[gemm->bias] : NULL,
      .y = state->is_direct ? args->outputs[0] : workspace + state->y_offset,
      .workspace = workspace + state->lt_offset,
  };
  return graft_lt_encode(encoder, &state->lt, &addresses, args->error);
}

static graft_status encode_finish(graft_encoder *encoder, const graft_encode_args *args, const graft_gemm_node *gemm) {
  const graft_gemm *state = args->state;
  const graft_tensor_desc *y = args->node->outputs[0];
  graft_tensor_desc sums;
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_F32, y->rank, y->shape, args->error, &sums));
  graft_cuda_operands operands = {
      .n = GRAFT_FINISH_N, .desc = {y, &sums}, .data = {args->outputs[0], (char *)args->workspace + state->y_offset}};
  const int32_t inputs[GRAFT_FINISH_N] = {-1, -1, gemm->bias, gemm->gate, gemm->residual};
  for (int32_t k = GRAFT_FINISH_BIAS; k < GRAFT_FINISH_N; ++k) {
    operands.desc[k] = input_at(args->node, inputs[k]);
    if (operands.desc[k] != NULL) operands.data[k] = args->inputs[inputs[k]];
  }
  return graft_finish_encode(encoder, &state->finish, &operands, gemm->activation, args->error);
}

graft_status graft_gemm_encode(graft_encoder *encoder, const graft_encode_args *args, const graft_gemm_node *gemm) {
  const graft_gemm *state = args->state;
  const graft_tensor_desc *y = args->node->outputs[0];
  const size_t n = (size_t)graft_tensor_desc_elements(y);
  if (n == 0) return GRAFT_OK;
  if (state->has_product) {
    GRAFT_TRY(encode_product(encoder, args, gemm));
  } else {
    GRAFT_TRY(
        graft_cuda_encode_fill(encoder, (char *)args->workspace + state->y_offset, 0, n * sizeof(float), args->error));
  }
  return state->is_direct ? GRAFT_OK : encode_finish(encoder, args, gemm);
}
