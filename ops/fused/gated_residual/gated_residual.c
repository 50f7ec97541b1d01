#include "ops/fused/gated_residual/gated_residual.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/fused/gated_residual/gated_residual_cases.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/unary/unary.h"

enum { X, Y, WEIGHT, GATE };

graft_status graft_infer_gated_residual(graft_infer_args *args) {
  const graft_gated_residual_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[X], *y = args->inputs[Y];
  graft_infer_args norm = *args;
  norm.attrs = &(graft_rms_norm_attrs){.eps = attrs->eps};
  norm.inputs = args->inputs + Y;
  norm.n_inputs = 2;
  GRAFT_TRY(graft_infer_rms_norm(&norm));
  if (x->dtype != y->dtype || !graft_tensor_desc_has_shape(x, y->rank, y->shape)) {
    char a[96], b[96];
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x %s and y %s must have one shape and dtype",
                      graft_tensor_desc_format(x, a, sizeof a), graft_tensor_desc_format(y, b, sizeof b));
  }
  return graft_infer_fits_output(args, GATE, "the gate");
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_gated_residual_attrs *a = attrs;
  graft_tensor *y = graft_rms_norm(graph, inputs[Y], inputs[WEIGHT], a->eps);
  if (inputs[GATE] != graft_graph_none()) y = graft_mul(graph, y, graft_tanh(graph, inputs[GATE]));
  out_tensors[0] = graft_add(graph, inputs[X], y);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  graft_gated_residual_attrs *a = attrs;
  a->eps = ((const graft_rms_norm_attrs *)match->node_attrs[0])->eps;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 7.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_gated_residual(graft_graph *graph, graft_tensor *x, graft_tensor *y, graft_tensor *weight,
                                   graft_tensor *gate, double eps) {
  const graft_gated_residual_attrs attrs = {.eps = eps};
  graft_tensor *sum = NULL;
  graft_graph_apply(graph, "graft.gated_residual.v1", &attrs, sizeof attrs, (graft_tensor *[]){x, y, weight, gate}, 4,
                    &sum);
  return sum;
}

static const graft_attr_def schema[] = {
    {.name = "eps", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_gated_residual_attrs, eps), .default_f64 = 1e-5},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.gated_residual.v1",
    .min_inputs = 4,
    .max_inputs = 4,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT | 1u << GATE,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_gated_residual_attrs),
    .infer = graft_infer_gated_residual,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_gated_residual_cases,
    .n_cases = GRAFT_GATED_RESIDUAL_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "gated_residual",
    .op = "graft.gated_residual.v1",
    .forms = graft_gated_residual_cases,
    .n_forms = GRAFT_GATED_RESIDUAL_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_gated_residual;
const graft_extension graft_extension_gated_residual = {
    .struct_size = sizeof graft_extension_gated_residual,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.gated_residual",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
