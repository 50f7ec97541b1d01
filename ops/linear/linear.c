#include "ops/linear/linear.h"

#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/linear/linear_cases.h"

enum { X, WEIGHT, BIAS };

graft_status graft_infer_linear(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[X], *weight = args->inputs[WEIGHT], *bias = args->inputs[BIAS];
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  GRAFT_TRY(graft_infer_require_float(args, WEIGHT, "the weight", true));
  if (x->rank < 1 || weight->rank != 2) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have at least 1 dimension and the weight 2, not %d and %d",
                      x->rank, weight->rank);
  }
  const int64_t k = x->shape[x->rank - 1], n = weight->shape[0];
  if (weight->shape[1] != k) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                      "rows of x have %lld elements, but the weight [%lld, %lld] takes %lld", (long long)k,
                      (long long)n, (long long)weight->shape[1], (long long)weight->shape[1]);
  }
  if (bias) {
    GRAFT_TRY(graft_infer_require_float(args, BIAS, "the bias", true));
    if (bias->rank != 1 || bias->shape[0] != n) {
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                        "the bias must have one dimension of %lld elements, as many as the "
                        "weight has rows",
                        (long long)n);
    }
  }
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < x->rank; ++d) shape[d] = x->shape[d];
  shape[x->rank - 1] = n;
  return graft_tensor_desc_init(x->dtype, x->rank, shape, args->error, &args->outputs[0]);
}

typedef struct operands {
  graft_reference_floats weight, bias;
  float *x;   // one row
  double *y;  // one row
} operands;

static void multiply_row(const operands *o, int64_t n, int64_t k) {
  for (int64_t j = 0; j < n; ++j) {
    const float *weight = o->weight.data + j * k;
    double sum[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
      for (int lane = 0; lane < 4; ++lane) sum[lane] += (double)o->x[i + lane] * (double)weight[i + lane];
    }
    for (; i < k; ++i) sum[0] += (double)o->x[i] * (double)weight[i];
    o->y[j] = (sum[0] + sum[1]) + (sum[2] + sum[3]) + (o->bias.data ? (double)o->bias.data[j] : 0);
  }
}

static graft_status multiply(const graft_reference_args *args, const operands *o) {
  const graft_view *x = &args->inputs[X], *y = &args->outputs[0];
  const int64_t n = graft_reference_row_length(&y->desc), k = graft_reference_row_length(&x->desc);
  const graft_tensor_desc rows = graft_reference_rows(&y->desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    graft_reference_load_row(x, index, o->x);
    multiply_row(o, n, k);
    graft_reference_store_row(y, index, o->y);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const graft_tensor_desc *x = &args->inputs[X].desc, *y = &args->outputs[0].desc;
  if (graft_tensor_desc_elements(y) == 0) return GRAFT_OK;
  operands o = {0};
  graft_status status = graft_reference_load(&args->inputs[WEIGHT], args->error, &o.weight);
  if (status == GRAFT_OK) status = graft_reference_load(&args->inputs[BIAS], args->error, &o.bias);
  if (status != GRAFT_OK) goto done;
  status = GRAFT_E_NO_MEMORY;
  o.x = graft_reference_allocate(graft_reference_row_length(x), sizeof(float), args->error);
  o.y = o.x ? graft_reference_allocate(graft_reference_row_length(y), sizeof(double), args->error) : NULL;
  if (o.y) status = multiply(args, &o);
done:
  free(o.y);
  free(o.x);
  graft_reference_floats_free(&o.bias);
  graft_reference_floats_free(&o.weight);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return 2.0 * (double)inputs[WEIGHT]->shape[1] * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_linear(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.linear.v1", NULL, 0, (graft_tensor *[]){x, weight, bias}, 3, &y);
  return y;
}

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.linear.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << BIAS,
    .infer = graft_infer_linear,
    .reference = reference,
    .flops = flops,
    .cases = graft_linear_cases,
    .n_cases = GRAFT_LINEAR_N_CASES,
}};

extern const graft_extension graft_extension_linear;
const graft_extension graft_extension_linear = {
    .struct_size = sizeof graft_extension_linear,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
