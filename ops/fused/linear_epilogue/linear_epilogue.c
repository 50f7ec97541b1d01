#include "ops/fused/linear_epilogue/linear_epilogue.h"

#include "graft/extension.h"
#include "ops/common/epilogue.h"
#include "ops/common/epilogue_attrs.h"
#include "ops/common/infer.h"
#include "ops/fused/linear_epilogue/linear_epilogue_cases.h"
#include "ops/linear/linear.h"

enum { X, WEIGHT, BIAS, GATE, RESIDUAL, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_linear_epilogue_attrs *attrs = args->attrs;
  GRAFT_TRY(graft_infer_linear(args));
  return graft_epilogue_infer(args, GATE, attrs->dtype);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_linear_epilogue_attrs *a = attrs;
  const graft_epilogue epilogue = {a->activation, a->dtype, inputs[GATE], inputs[RESIDUAL]};
  graft_tensor *y = graft_linear(graph, inputs[X], inputs[WEIGHT], inputs[BIAS]);
  out_tensors[0] = graft_epilogue_build(graph, y, &epilogue);
}

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_epilogue epilogue;
  graft_fusion_node linear = {.struct_size = sizeof linear};
  if (!graft_epilogue_find(result, "graft.linear.v1", &epilogue, &linear)) return false;
  *(graft_linear_epilogue_attrs *)proposal->attrs =
      (graft_linear_epilogue_attrs){.activation = epilogue.activation, .dtype = epilogue.dtype};
  proposal->n_inputs = N_INPUTS;
  for (uint32_t i = 0; i < linear.n_inputs; ++i) proposal->inputs[i] = linear.inputs[i];
  proposal->inputs[GATE] = epilogue.gate;
  proposal->inputs[RESIDUAL] = epilogue.residual;
  return true;
}

// The middle of a gated feed-forward layer: silu(linear(x, w1)) · linear(x, w3), in place on what one of the two made.
static bool propose_swiglu(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  if (!propose(result, proposal, why)) return false;
  const graft_linear_epilogue_attrs *attrs = proposal->attrs;
  return attrs->activation == GRAFT_EPILOGUE_SILU && proposal->inputs[GATE] && !proposal->inputs[RESIDUAL];
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return 2.0 * (double)inputs[WEIGHT]->shape[1] * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_linear_epilogue(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                    graft_tensor *const bias_gate_residual[3],
                                    const graft_linear_epilogue_attrs *attrs) {
  graft_tensor *const *more = bias_gate_residual;
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.linear_epilogue.v1", attrs, attrs ? sizeof *attrs : 0,
                    (graft_tensor *[]){x, weight, more[0], more[1], more[2]}, N_INPUTS, &y);
  return y;
}

static const graft_attr_def schema[] = {EPILOGUE_ATTRS(graft_linear_epilogue_attrs)};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.linear_epilogue.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << BIAS | 1u << GATE | 1u << RESIDUAL,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_linear_epilogue_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_linear_epilogue_cases,
    .n_cases = GRAFT_LINEAR_EPILOGUE_N_CASES,
}};

static const graft_fusion_def fusions[] = {
    {.struct_size = sizeof fusions[0], .name = "linear_epilogue", .op = "graft.linear_epilogue.v1", .propose = propose},
    // Before "swiglu", which needs memory for both products.
    {.struct_size = sizeof fusions[0],
     .priority = 1,
     .name = "linear_swiglu",
     .op = "graft.linear_epilogue.v1",
     .propose = propose_swiglu},
};

extern const graft_extension graft_extension_linear_epilogue;
const graft_extension graft_extension_linear_epilogue = {
    .struct_size = sizeof graft_extension_linear_epilogue,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_epilogue",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
