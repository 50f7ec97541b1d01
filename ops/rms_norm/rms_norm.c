#include "ops/rms_norm/rms_norm.h"

#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/rms_norm/rms_norm_cases.h"

enum { X, WEIGHT };

graft_status graft_infer_rms_norm(graft_infer_args *args) {
  const graft_rms_norm_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[X], *weight = args->inputs[WEIGHT];
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  if (!(attrs->eps >= 0 && isfinite(attrs->eps))) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "eps is %g, but must be finite and not negative", attrs->eps);
  }
  if (x->rank < 1) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have at least 1 dimension, not 0");
  if (weight) {
    const int64_t n = x->shape[x->rank - 1];
    GRAFT_TRY(graft_infer_require_float(args, WEIGHT, "the weight", false));
    if (weight->rank != 1 || weight->shape[0] != n) {
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                        "the weight must have one dimension of %lld elements, as many as a row of x", (long long)n);
    }
  }
  return graft_tensor_desc_init(x->dtype, x->rank, x->shape, args->error, &args->outputs[0]);
}

static void normalise(const float *x, const float *weight, double *y, int64_t n, double eps) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += (double)x[i] * (double)x[i];
  const double factor = 1 / sqrt(squares / (double)n + eps);
  for (int64_t i = 0; i < n; ++i) y[i] = (double)x[i] * factor * (weight ? (double)weight[i] : 1);
}

static graft_status normalise_rows(const graft_reference_args *args, const float *weight, float *x, double *y) {
  const graft_rms_norm_attrs *attrs = args->attrs;
  const graft_tensor_desc rows = graft_reference_rows(&args->inputs[X].desc);
  const int64_t n = graft_reference_row_length(&args->inputs[X].desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    graft_reference_load_row(&args->inputs[X], index, x);
    normalise(x, weight, y, n, attrs->eps);
    graft_reference_store_row(&args->outputs[0], index, y);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const graft_tensor_desc *desc = &args->inputs[X].desc;
  if (graft_tensor_desc_elements(desc) == 0) return GRAFT_OK;
  graft_reference_floats weight;
  GRAFT_TRY(graft_reference_load(&args->inputs[WEIGHT], args->error, &weight));
  const int64_t n = graft_reference_row_length(desc);
  graft_status status = GRAFT_E_NO_MEMORY;
  float *x = graft_reference_allocate(n, sizeof *x, args->error);
  double *y = x ? graft_reference_allocate(n, sizeof *y, args->error) : NULL;
  if (y) status = normalise_rows(args, weight.data, x, y);
  free(y);
  free(x);
  graft_reference_floats_free(&weight);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 4.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_rms_norm(graft_graph *graph, graft_tensor *x, graft_tensor *weight, double eps) {
  const graft_rms_norm_attrs attrs = {.eps = eps};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.rms_norm.v1", &attrs, sizeof attrs, (graft_tensor *[]){x, weight}, 2, &y);
  return y;
}

static const graft_attr_def schema[] = {
    {.name = "eps", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_rms_norm_attrs, eps), .default_f64 = 1e-5},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.rms_norm.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_rms_norm_attrs),
    .infer = graft_infer_rms_norm,
    .reference = reference,
    .flops = flops,
    .cases = graft_rms_norm_cases,
    .n_cases = GRAFT_RMS_NORM_N_CASES,
}};

extern const graft_extension graft_extension_rms_norm;
const graft_extension graft_extension_rms_norm = {
    .struct_size = sizeof graft_extension_rms_norm,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.rms_norm",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
