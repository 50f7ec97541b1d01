#include "ops/fused/swiglu_convrot_i8/swiglu_convrot_i8.h"

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/fused/swiglu_convrot_i8/swiglu_convrot_i8_cases.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_attrs.h"
#include "ops/binary/binary.h"
#include "ops/unary/unary.h"

enum { GATE, X };

graft_status graft_infer_swiglu_convrot_i8(graft_infer_args *args) {
  graft_tensor_desc product;
  graft_infer_args swiglu = *args;
  swiglu.outputs = &product;
  GRAFT_TRY(graft_infer_swiglu(&swiglu));
  graft_infer_args quantize = *args;
  quantize.inputs = (const graft_tensor_desc *[]){&product};
  quantize.n_inputs = 1;
  return graft_infer_quantize_convrot_i8_packed(&quantize);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  graft_tensor *product = graft_mul(graph, graft_silu(graph, inputs[GATE]), inputs[X]);
  out_tensors[0] = graft_quantize_convrot_i8_packed(graph, product, attrs);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  *(graft_quantize_convrot_i8_attrs *)attrs = *(const graft_quantize_convrot_i8_attrs *)match->node_attrs[2];
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 4.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_swiglu_convrot_i8(graft_graph *graph, graft_tensor *gate, graft_tensor *x,
                                      const graft_quantize_convrot_i8_attrs *attrs) {
  graft_tensor *packed = NULL;
  graft_graph_apply(graph, "graft.swiglu_convrot_i8.v1", attrs, sizeof *attrs, (graft_tensor *[]){gate, x}, 2, &packed);
  return packed;
}

static const graft_attr_def schema[] = {QUANTIZE_CONVROT_I8_ATTRS(0)};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.swiglu_convrot_i8.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_quantize_convrot_i8_attrs),
    .infer = graft_infer_swiglu_convrot_i8,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_swiglu_convrot_i8_cases,
    .n_cases = GRAFT_SWIGLU_CONVROT_I8_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "swiglu_convrot_i8",
    .op = "graft.swiglu_convrot_i8.v1",
    .forms = graft_swiglu_convrot_i8_cases,
    .n_forms = GRAFT_SWIGLU_CONVROT_I8_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_swiglu_convrot_i8;
const graft_extension graft_extension_swiglu_convrot_i8 = {
    .struct_size = sizeof graft_extension_swiglu_convrot_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.swiglu_convrot_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
