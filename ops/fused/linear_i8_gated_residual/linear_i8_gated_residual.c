#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual_cases.h"
#include "ops/linear_i8/linear_i8_rows.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/unary/unary.h"

enum { X, WEIGHT, WEIGHT_SCALE, RESIDUAL, NORM, GATE, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_linear_i8_gated_residual_attrs *attrs = args->attrs;
  graft_tensor_desc product;
  GRAFT_TRY(graft_infer_linear_i8_rows(args, WEIGHT, &product));
  graft_infer_args then = *args;
  then.attrs = &(graft_gated_residual_attrs){.eps = attrs->eps};
  then.inputs = (const graft_tensor_desc *[]){args->inputs[RESIDUAL], &product, args->inputs[NORM], args->inputs[GATE]};
  then.n_inputs = 4;
  return graft_infer_gated_residual(&then);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_linear_i8_gated_residual_attrs *a = attrs;
  graft_tensor *y = graft_linear_i8_rows(graph, inputs, WEIGHT, &a->product);
  y = graft_rms_norm(graph, y, inputs[NORM], a->eps);
  if (inputs[GATE] != graft_graph_none()) y = graft_mul(graph, y, graft_tanh(graph, inputs[GATE]));
  out_tensors[0] = graft_add(graph, inputs[RESIDUAL], y);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  graft_linear_i8_gated_residual_attrs *a = attrs;
  a->eps = ((const graft_rms_norm_attrs *)match->node_attrs[2])->eps;
  return graft_linear_i8_rows_capture(match, &a->product, why);
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)n_inputs;
  const graft_linear_i8_gated_residual_attrs *a = attrs;
  return graft_linear_i8_rows_flops(&a->product, inputs[WEIGHT]) +
         7.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_linear_i8_gated_residual(graft_graph *graph, const graft_linear_i8_gated_residual_inputs *inputs,
                                             const graft_linear_i8_gated_residual_attrs *attrs) {
  graft_tensor *const in[] = {inputs->x,        inputs->weight, inputs->weight_scale,
                              inputs->residual, inputs->norm,   inputs->gate};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.linear_i8_gated_residual.v1", attrs, sizeof *attrs, in, N_INPUTS, &y);
  return y;
}

static const graft_attr_def schema[] = {
    LINEAR_I8_ROWS_ATTRS,
    {.name = "eps",
     .type = GRAFT_ATTR_F64,
     .offset = offsetof(graft_linear_i8_gated_residual_attrs, eps),
     .default_f64 = 1e-5},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.linear_i8_gated_residual.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT_SCALE | 1u << NORM | 1u << GATE,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_linear_i8_gated_residual_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_linear_i8_gated_residual_cases,
    .n_cases = GRAFT_LINEAR_I8_GATED_RESIDUAL_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "linear_i8_gated_residual",
    .op = "graft.linear_i8_gated_residual.v1",
    .forms = graft_linear_i8_gated_residual_cases,
    .n_forms = GRAFT_LINEAR_I8_GATED_RESIDUAL_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_linear_i8_gated_residual;
const graft_extension graft_extension_linear_i8_gated_residual = {
    .struct_size = sizeof graft_extension_linear_i8_gated_residual,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_i8_gated_residual",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
