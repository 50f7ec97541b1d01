#include "ops/fused/linear_i8_swiglu_convrot_i8/linear_i8_swiglu_convrot_i8.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/fused/gated_convrot_i8/gated_convrot_i8.h"
#include "ops/fused/linear_i8_swiglu_convrot_i8/linear_i8_swiglu_convrot_i8_cases.h"
#include "ops/linear_i8/linear_i8_rows.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_attrs.h"
#include "ops/unary/unary.h"

enum { X, GATE, GATE_SCALE, UP, UP_SCALE, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_linear_i8_swiglu_convrot_i8_attrs *attrs = args->attrs;
  graft_tensor_desc gate, up;
  GRAFT_TRY(graft_infer_linear_i8_rows(args, GATE, &gate));
  GRAFT_TRY(graft_infer_linear_i8_rows(args, UP, &up));
  graft_infer_args then = *args;
  then.attrs = &(graft_gated_convrot_i8_attrs){.quantize = attrs->quantize};
  then.inputs = (const graft_tensor_desc *[]){&gate, &up};
  then.n_inputs = 2;
  return graft_infer_gated_convrot_i8(&then);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_linear_i8_swiglu_convrot_i8_attrs *a = attrs;
  graft_tensor *gate = graft_silu(graph, graft_linear_i8_rows(graph, inputs, GATE, &a->product));
  graft_tensor *y = graft_mul(graph, gate, graft_linear_i8_rows(graph, inputs, UP, &a->product));
  out_tensors[0] = graft_quantize_convrot_i8_packed(graph, y, &a->quantize);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  graft_linear_i8_swiglu_convrot_i8_attrs *a = attrs;
  a->quantize = *(const graft_quantize_convrot_i8_attrs *)match->node_attrs[match->n_nodes - 1];
  return graft_linear_i8_rows_capture(match, &a->product, why);
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)n_inputs;
  const graft_linear_i8_swiglu_convrot_i8_attrs *a = attrs;
  return 2 * graft_linear_i8_rows_flops(&a->product, inputs[GATE]) +
         4.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_linear_i8_swiglu_convrot_i8(graft_graph *graph,
                                                const graft_linear_i8_swiglu_convrot_i8_inputs *inputs,
                                                const graft_linear_i8_swiglu_convrot_i8_attrs *attrs) {
  graft_tensor *const in[] = {inputs->x, inputs->gate, inputs->gate_scale, inputs->up, inputs->up_scale};
  graft_tensor *packed = NULL;
  graft_graph_apply(graph, "graft.linear_i8_swiglu_convrot_i8.v1", attrs, sizeof *attrs, in, N_INPUTS, &packed);
  return packed;
}

static const graft_attr_def schema[] = {
    LINEAR_I8_ROWS_ATTRS,
    // Names of their own: group and grid are the products'.
    {.name = "quantize_group",
     .type = GRAFT_ATTR_I64,
     .offset = offsetof(graft_linear_i8_swiglu_convrot_i8_attrs, quantize.group),
     .default_i64 = 1},
    {.name = "quantize_grid",
     .type = GRAFT_ATTR_ENUM,
     .offset = offsetof(graft_linear_i8_swiglu_convrot_i8_attrs, quantize.grid),
     .choices = quantize_convrot_i8_grids},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.linear_i8_swiglu_convrot_i8.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << GATE_SCALE | 1u << UP_SCALE,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_linear_i8_swiglu_convrot_i8_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_linear_i8_swiglu_convrot_i8_cases,
    .n_cases = GRAFT_LINEAR_I8_SWIGLU_CONVROT_I8_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "linear_i8_swiglu_convrot_i8",
    .op = "graft.linear_i8_swiglu_convrot_i8.v1",
    .forms = graft_linear_i8_swiglu_convrot_i8_cases,
    .n_forms = GRAFT_LINEAR_I8_SWIGLU_CONVROT_I8_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_linear_i8_swiglu_convrot_i8;
const graft_extension graft_extension_linear_i8_swiglu_convrot_i8 = {
    .struct_size = sizeof graft_extension_linear_i8_swiglu_convrot_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_i8_swiglu_convrot_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
