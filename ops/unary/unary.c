#include "ops/unary/unary.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/reference.h"
#include "ops/unary/unary_cases.h"

static graft_status infer(graft_infer_args *args) {
  GRAFT_TRY(graft_infer_require_float(args, 0, "x", false));
  return graft_infer_elementwise(args);
}

static graft_status infer_scale(graft_infer_args *args) {
  const graft_scale_attrs *attrs = args->attrs;
  if (!(fabs(attrs->scale) <= (double)FLT_MAX && fabs(attrs->bias) <= (double)FLT_MAX)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "scale %g and bias %g must be finite float32 numbers", attrs->scale,
                      attrs->bias);
  }
  return infer(args);
}

static double silu(double x, const void *attrs) {
  (void)attrs;
  return x / (1 + exp(-x));
}

static double sigmoid(double x, const void *attrs) {
  (void)attrs;
  return 1 / (1 + exp(-x));
}

static double hyperbolic_tangent(double x, const void *attrs) {
  (void)attrs;
  return tanh(x);
}

static double gelu(double x, const void *attrs) {
  if (!((const graft_gelu_attrs *)attrs)->tanh_approximation) return 0.5 * x * erfc(-x * sqrt(0.5));
  // 1 + tanh(u) = 2·sigmoid(2u), which keeps its digits for negative u.
  return x * sigmoid(2 * sqrt(M_2_PI) * (x + 0.044715 * x * x * x), NULL);
}

static double scale(double x, const void *attrs) {
  const graft_scale_attrs *a = attrs;
  return a->scale * x + a->bias;
}

typedef double (*function)(double x, const void *attrs);

static graft_status apply_rows(const graft_reference_args *args, function f, float *x, double *y) {
  const graft_view *input = &args->inputs[0], *output = &args->outputs[0];
  const int64_t n = graft_reference_row_length(&input->desc);
  const graft_tensor_desc rows = graft_reference_rows(&input->desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    graft_reference_load_row(input, index, x);
    for (int64_t i = 0; i < n; ++i) y[i] = f((double)x[i], args->attrs);
    graft_reference_store_row(output, index, y);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status apply(const graft_reference_args *args, function f) {
  const graft_tensor_desc *desc = &args->inputs[0].desc;
  if (graft_tensor_desc_elements(desc) == 0) return GRAFT_OK;
  const int64_t n = graft_reference_row_length(desc);
  graft_status status = GRAFT_E_NO_MEMORY;
  float *x = graft_reference_allocate(n, sizeof *x, args->error);
  double *y = x ? graft_reference_allocate(n, sizeof *y, args->error) : NULL;
  if (y) status = apply_rows(args, f, x, y);
  free(y);
  free(x);
  return status;
}

static graft_status reference_silu(const graft_reference_args *args) {
  return apply(args, silu);
}
static graft_status reference_gelu(const graft_reference_args *args) {
  return apply(args, gelu);
}
static graft_status reference_tanh(const graft_reference_args *args) {
  return apply(args, hyperbolic_tangent);
}
static graft_status reference_sigmoid(const graft_reference_args *args) {
  return apply(args, sigmoid);
}
static graft_status reference_scale(const graft_reference_args *args) {
  return apply(args, scale);
}

static graft_tensor *apply_op(graft_graph *graph, const char *op, graft_tensor *x, const void *attrs, size_t bytes) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, op, attrs, bytes, &x, 1, &y);
  return y;
}

graft_tensor *graft_silu(graft_graph *graph, graft_tensor *x) {
  return apply_op(graph, "graft.silu.v1", x, NULL, 0);
}

graft_tensor *graft_gelu(graft_graph *graph, graft_tensor *x, bool tanh_approximation) {
  const graft_gelu_attrs attrs = {.tanh_approximation = tanh_approximation};
  return apply_op(graph, "graft.gelu.v1", x, &attrs, sizeof attrs);
}

graft_tensor *graft_tanh(graft_graph *graph, graft_tensor *x) {
  return apply_op(graph, "graft.tanh.v1", x, NULL, 0);
}

graft_tensor *graft_sigmoid(graft_graph *graph, graft_tensor *x) {
  return apply_op(graph, "graft.sigmoid.v1", x, NULL, 0);
}

graft_tensor *graft_scale(graft_graph *graph, graft_tensor *x, double factor, double bias) {
  const graft_scale_attrs attrs = {.scale = factor, .bias = bias};
  return apply_op(graph, "graft.scale.v1", x, &attrs, sizeof attrs);
}

static const graft_attr_def gelu_schema[] = {
    {.name = "tanh_approximation", .type = GRAFT_ATTR_BOOL, .offset = offsetof(graft_gelu_attrs, tanh_approximation)},
};

static const graft_attr_def scale_schema[] = {
    {.name = "scale", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_scale_attrs, scale), .default_f64 = 1},
    {.name = "bias", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_scale_attrs, bias)},
};

#define UNARY_LIKE(verb)                                                                                             \
  .struct_size = sizeof(graft_op_def), .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE, .name = "graft." #verb ".v1", \
  .min_inputs = 1, .max_inputs = 1, .n_outputs = 1, .reference = reference_##verb

#define CASES(table, n) .cases = (table), .n_cases = (n)

static const graft_op_def ops[] = {
    {UNARY_LIKE(silu), .infer = infer, CASES(graft_unary_cases, GRAFT_UNARY_N_CASES)},
    {UNARY_LIKE(gelu), .infer = infer, .attrs = gelu_schema, .n_attrs = 1, .attrs_bytes = sizeof(graft_gelu_attrs),
     CASES(graft_gelu_cases, GRAFT_GELU_N_CASES)},
    {UNARY_LIKE(tanh), .infer = infer, CASES(graft_unary_cases, GRAFT_UNARY_N_CASES)},
    {UNARY_LIKE(sigmoid), .infer = infer, CASES(graft_unary_cases, GRAFT_UNARY_N_CASES)},
    {UNARY_LIKE(scale), .infer = infer_scale, .attrs = scale_schema, .n_attrs = 2,
     .attrs_bytes = sizeof(graft_scale_attrs), CASES(graft_scale_cases, GRAFT_SCALE_N_CASES)},
};

extern const graft_extension graft_extension_unary;
const graft_extension graft_extension_unary = {
    .struct_size = sizeof graft_extension_unary,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.unary",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
