#include "ops/fused/conv2d_epilogue/conv2d_epilogue.h"

#include "graft/extension.h"
#include "ops/common/epilogue.h"
#include "ops/common/epilogue_attrs.h"
#include "ops/common/infer.h"
#include "ops/conv2d/conv2d_attrs.h"
#include "ops/fused/conv2d_epilogue/conv2d_epilogue_cases.h"

enum { X, WEIGHT, BIAS, GATE, RESIDUAL, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_conv2d_epilogue_attrs *attrs = args->attrs;
  graft_infer_args conv = *args;
  conv.attrs = &attrs->conv;
  GRAFT_TRY(graft_infer_conv2d(&conv));
  return graft_epilogue_infer(args, GATE, attrs->dtype);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_conv2d_epilogue_attrs *a = attrs;
  const graft_epilogue epilogue = {a->activation, a->dtype, inputs[GATE], inputs[RESIDUAL]};
  graft_tensor *y = graft_conv2d(graph, inputs[X], inputs[WEIGHT], inputs[BIAS], &a->conv);
  out_tensors[0] = graft_epilogue_build(graph, y, &epilogue);
}

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_epilogue epilogue;
  graft_fusion_node conv = {.struct_size = sizeof conv};
  if (!graft_epilogue_find(result, "graft.conv2d.v1", &epilogue, &conv)) return false;
  *(graft_conv2d_epilogue_attrs *)proposal->attrs =
      (graft_conv2d_epilogue_attrs){*(const graft_conv2d_attrs *)conv.attrs, epilogue.activation, epilogue.dtype};
  proposal->n_inputs = N_INPUTS;
  for (uint32_t i = 0; i < conv.n_inputs; ++i) proposal->inputs[i] = conv.inputs[i];
  proposal->inputs[GATE] = epilogue.gate;
  proposal->inputs[RESIDUAL] = epilogue.residual;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  const int64_t *weight = inputs[WEIGHT]->shape;
  return 2.0 * (double)(weight[1] * weight[2] * weight[3]) * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_conv2d_epilogue(graft_graph *graph, graft_tensor *x, graft_tensor *weight,
                                    graft_tensor *const bias_gate_residual[3],
                                    const graft_conv2d_epilogue_attrs *attrs) {
  graft_tensor *const *more = bias_gate_residual;
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.conv2d_epilogue.v1", attrs, attrs ? sizeof *attrs : 0,
                    (graft_tensor *[]){x, weight, more[0], more[1], more[2]}, N_INPUTS, &y);
  return y;
}

static const graft_attr_def schema[] = {CONV2D_ATTRS, EPILOGUE_ATTRS(graft_conv2d_epilogue_attrs)};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.conv2d_epilogue.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << BIAS | 1u << GATE | 1u << RESIDUAL,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_conv2d_epilogue_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_conv2d_epilogue_cases,
    .n_cases = GRAFT_CONV2D_EPILOGUE_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "conv2d_epilogue",
    .op = "graft.conv2d_epilogue.v1",
    .propose = propose,
}};

extern const graft_extension graft_extension_conv2d_epilogue;
const graft_extension graft_extension_conv2d_epilogue = {
    .struct_size = sizeof graft_extension_conv2d_epilogue,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.conv2d_epilogue",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
