#include "ops/layer_norm/layer_norm.h"

#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/layer_norm/layer_norm_cases.h"

enum { X, WEIGHT, BIAS };

// |input|, called |name| in the sentence, is left out or has one element for each of a row's |n|.
static graft_status check_per_channel(const graft_infer_args *args, uint32_t input, const char *name, int64_t n) {
  const graft_tensor_desc *desc = args->inputs[input];
  if (!desc) return GRAFT_OK;
  GRAFT_TRY(graft_infer_require_float(args, input, name, false));
  if (desc->rank == 1 && desc->shape[0] == n) return GRAFT_OK;
  return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%s must have one dimension of %lld elements, as many as a row of x",
                    name, (long long)n);
}

graft_status graft_infer_layer_norm(graft_infer_args *args) {
  const graft_layer_norm_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[X];
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  if (!(attrs->eps >= 0 && isfinite(attrs->eps))) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "eps is %g, but must be finite and not negative", attrs->eps);
  }
  if (x->rank < 1) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have at least 1 dimension, not 0");
  GRAFT_TRY(check_per_channel(args, WEIGHT, "the weight", x->shape[x->rank - 1]));
  GRAFT_TRY(check_per_channel(args, BIAS, "the bias", x->shape[x->rank - 1]));
  return graft_tensor_desc_init(x->dtype, x->rank, x->shape, args->error, &args->outputs[0]);
}

typedef struct operands {
  graft_reference_floats weight, bias;
  float *x;   // one row
  double *y;  // one row
} operands;

static void normalise(const operands *o, int64_t n, double eps) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)o->x[i];
  const double mean = sum / (double)n;
  for (int64_t i = 0; i < n; ++i) squares += ((double)o->x[i] - mean) * ((double)o->x[i] - mean);
  const double factor = 1 / sqrt(squares / (double)n + eps);
  for (int64_t i = 0; i < n; ++i) {
    const double weight = o->weight.data ? (double)o->weight.data[i] : 1;
    o->y[i] = ((double)o->x[i] - mean) * factor * weight + (o->bias.data ? (double)o->bias.data[i] : 0);
  }
}

static graft_status normalise_rows(const graft_reference_args *args, const operands *o) {
  const graft_layer_norm_attrs *attrs = args->attrs;
  const graft_tensor_desc rows = graft_reference_rows(&args->inputs[X].desc);
  const int64_t n = graft_reference_row_length(&args->inputs[X].desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    graft_reference_load_row(&args->inputs[X], index, o->x);
    normalise(o, n, attrs->eps);
    graft_reference_store_row(&args->outputs[0], index, o->y);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const graft_tensor_desc *desc = &args->inputs[X].desc;
  if (graft_tensor_desc_elements(desc) == 0) return GRAFT_OK;
  const int64_t n = graft_reference_row_length(desc);
  operands o = {0};
  graft_status status = graft_reference_load(&args->inputs[WEIGHT], args->error, &o.weight);
  if (status == GRAFT_OK) status = graft_reference_load(&args->inputs[BIAS], args->error, &o.bias);
  if (status != GRAFT_OK) goto done;
  status = GRAFT_E_NO_MEMORY;
  o.x = graft_reference_allocate(n, sizeof *o.x, args->error);
  o.y = o.x ? graft_reference_allocate(n, sizeof *o.y, args->error) : NULL;
  if (o.y) status = normalise_rows(args, &o);
done:
  free(o.y);
  free(o.x);
  graft_reference_floats_free(&o.bias);
  graft_reference_floats_free(&o.weight);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 8.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_layer_norm(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                               double eps) {
  const graft_layer_norm_attrs attrs = {.eps = eps};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.layer_norm.v1", &attrs, sizeof attrs, (graft_tensor *[]){x, weight, bias}, 3, &y);
  return y;
}

static const graft_attr_def schema[] = {
    {.name = "eps", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_layer_norm_attrs, eps), .default_f64 = 1e-5},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.layer_norm.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT | 1u << BIAS,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_layer_norm_attrs),
    .infer = graft_infer_layer_norm,
    .reference = reference,
    .flops = flops,
    .cases = graft_layer_norm_cases,
    .n_cases = GRAFT_LAYER_NORM_N_CASES,
}};

extern const graft_extension graft_extension_layer_norm;
const graft_extension graft_extension_layer_norm = {
    .struct_size = sizeof graft_extension_layer_norm,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.layer_norm",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
