#include "src/graph/infer.h"

#include <math.h>
#include <string.h>

#include "src/base/checked.h"

enum { DESC_TEXT = 160 };

// Every wrong result of an operator's own inference is reported as that operator's fault.
static graft_status blame(const graft_op_def *op, uint32_t output, const char *what, graft_error *error) {
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "the inference of %s is wrong: its output %u %s", op->name,
                    (unsigned)output, what);
}

static graft_status check_contiguous(const graft_op_def *op, uint32_t index, graft_tensor_desc *output,
                                     graft_error *error) {
  graft_tensor_desc plain;
  graft_status status = graft_tensor_desc_init(output->dtype, output->rank, output->shape, error, &plain);
  if (status != GRAFT_OK) {
    graft_error_note(error, "inferring output %u of %s", (unsigned)index, op->name);
    return status;
  }
  if (!graft_tensor_desc_is_contiguous(output)) return blame(op, index, "is not contiguous", error);
  *output = plain;
  return GRAFT_OK;
}

// Bytes that |desc| spans from its start, or false when it is malformed or does not fit 64 bits.
static bool view_span(const graft_tensor_desc *desc, int64_t *out_bytes) {
  int64_t block = desc->dtype->block_bytes, bytes = block, elements = 1;
  bool is_empty = false;
  for (int32_t d = 0; d < desc->rank; ++d) {
    int64_t size = desc->shape[d], stride = desc->strides[d], reach;
    bool is_blocked = d == desc->rank - 1 && desc->dtype->block_elements > 1;
    if (size < 0 || stride < 0 || stride % block != 0) return false;
    if (is_blocked && (size % desc->dtype->block_elements != 0 || stride != block)) return false;
    if (size == 0) {
      is_empty = true;
      continue;
    }
    int64_t steps = is_blocked ? size / desc->dtype->block_elements : size;
    if (!graft_checked_mul_i64(elements, size, &elements)) return false;
    if (!graft_checked_mul_i64(steps - 1, stride, &reach) || !graft_checked_add_i64(bytes, reach, &bytes)) return false;
  }
  *out_bytes = is_empty ? 0 : bytes;
  return desc->rank > 0 || desc->dtype->block_elements == 1;
}

static graft_status check_view(const graft_op_def *op, const graft_tensor_desc *input, graft_tensor_desc *output,
                               int64_t offset, graft_error *error) {
  if (output->dtype != input->dtype) return blame(op, 0, "views another dtype than its input's", error);
  if (output->rank < 0 || output->rank > GRAFT_MAX_RANK) return blame(op, 0, "has a rank out of range", error);
  int64_t span, end;
  if (!view_span(output, &span)) return blame(op, 0, "has sizes or strides that no storage can have", error);
  if (offset < 0 || offset % output->dtype->block_bytes != 0)
    return blame(op, 0, "does not start at an element of its input", error);
  if (!graft_checked_add_i64(offset, span, &end) || (size_t)end > graft_tensor_desc_bytes(input))
    return blame(op, 0, "reaches beyond the storage of its input", error);
  for (int32_t d = output->rank; d < GRAFT_MAX_RANK; ++d) output->shape[d] = output->strides[d] = 0;
  return GRAFT_OK;
}

graft_status graft_infer_checked(graft_inference *inference, graft_error *error) {
  const graft_op_def *op = inference->op;
  memset(inference->outputs, 0, sizeof inference->outputs);
  graft_error refusal = {0};
  graft_infer_args args = {.struct_size = sizeof args,
                           .attrs = inference->attrs,
                           .n_inputs = inference->n_inputs,
                           .n_outputs = op->n_outputs,
                           .inputs = inference->inputs,
                           .outputs = inference->outputs,
                           .error = &refusal};
  graft_status status = op->infer(&args);
  if (status != GRAFT_OK) {
    if (refusal.status == GRAFT_OK) status = GRAFT_FAIL(&refusal, status, "%s refuses its inputs", op->name);
    if (error != NULL) *error = refusal;
    return status;
  }
  inference->view_offset = args.view_offset;
  for (uint32_t i = 0; i < op->n_outputs; ++i) {
    if (inference->outputs[i].dtype == NULL) return blame(op, i, "has no dtype", error);
    if (op->traits & GRAFT_OP_VIEW) continue;
    GRAFT_TRY(check_contiguous(op, i, &inference->outputs[i], error));
  }
  if (!(op->traits & GRAFT_OP_VIEW)) return GRAFT_OK;
  return check_view(op, inference->inputs[0], &inference->outputs[0], args.view_offset, error);
}

// Widens |shape| so that |desc| broadcasts into it; false where two sizes differ and neither is 1.
static bool broadcast_into(const graft_tensor_desc *desc, int32_t *rank, int64_t *shape) {
  int64_t wide[GRAFT_MAX_RANK];
  int32_t n = desc->rank > *rank ? desc->rank : *rank;
  for (int32_t i = 1; i <= n; ++i) {  // counted from the last dimension, as broadcasting aligns them
    int64_t a = i <= *rank ? shape[*rank - i] : 1;
    int64_t b = i <= desc->rank ? desc->shape[desc->rank - i] : 1;
    if (a != b && a != 1 && b != 1) return false;
    wide[n - i] = a == 1 ? b : a;
  }
  memcpy(shape, wide, (size_t)n * sizeof *shape);
  *rank = n;
  return true;
}

graft_status graft_infer_elementwise(graft_infer_args *args) {
  if (args->n_inputs == 0 || args->inputs[0] == NULL)
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "an element-wise operator needs its first input");
  int32_t rank = 0;
  int64_t shape[GRAFT_MAX_RANK] = {0};
  for (uint32_t i = 0; i < args->n_inputs; ++i) {
    if (args->inputs[i] == NULL || broadcast_into(args->inputs[i], &rank, shape)) continue;
    char first[DESC_TEXT], other[DESC_TEXT];
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "shapes do not broadcast: input %u is %s, input 0 is %s", (unsigned)i,
                      graft_tensor_desc_format(args->inputs[i], other, sizeof other),
                      graft_tensor_desc_format(args->inputs[0], first, sizeof first));
  }
  return graft_tensor_desc_init(args->inputs[0]->dtype, rank, shape, args->error, &args->outputs[0]);
}

double graft_op_tolerance(graft_dtype output, int64_t reduction) {
  if (!output->is_float) return 0;
  double roundoff = 0x1p-3;  // of an application's dtype: as coarse as the coarsest of ours
  switch (output->code) {
    case GRAFT_DTYPE_F32: roundoff = 0x1p-24; break;
    case GRAFT_DTYPE_F16: roundoff = 0x1p-11; break;
    case GRAFT_DTYPE_BF16: roundoff = 0x1p-8; break;
    case GRAFT_DTYPE_F8_E4M3: roundoff = 0x1p-4; break;
    default: break;
  }
  double terms = reduction > 0 ? (double)reduction : 0;
  return roundoff + 4 * 0x1p-24 * (4 + sqrt(terms));
}
