#include "ops/fused/gated_convrot_i8/gated_convrot_i8.h"

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/fused/gated_convrot_i8/gated_convrot_i8_cases.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_attrs.h"
#include "ops/binary/binary.h"
#include "ops/unary/unary.h"

enum { GATE, X };

graft_status graft_infer_gated_convrot_i8(graft_infer_args *args) {
  const graft_gated_convrot_i8_attrs *attrs = args->attrs;
  graft_tensor_desc product = *args->inputs[X];
  graft_infer_args gated = *args, quantize = *args;
  if ((attrs->gating == GRAFT_GATING_SCALE) != (args->inputs[GATE] == NULL)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "activations are either gated or scaled");
  }
  gated.outputs = &product;
  if (args->inputs[GATE]) GRAFT_TRY(graft_infer_swiglu(&gated));
  quantize.attrs = &attrs->quantize;
  quantize.inputs = (const graft_tensor_desc *[]){&product};
  quantize.n_inputs = 1;
  return graft_infer_quantize_convrot_i8_packed(&quantize);
}

static graft_tensor *build(graft_graph *graph, graft_tensor *const *inputs, const graft_gated_convrot_i8_attrs *a) {
  switch (a->gating) {
    case GRAFT_GATING_SCALE: return graft_scale(graph, inputs[X], a->scale, a->bias);
    case GRAFT_GATING_PRODUCT: return graft_mul(graph, inputs[GATE], inputs[X]);
    case GRAFT_GATING_SIGMOID: return graft_mul(graph, graft_sigmoid(graph, inputs[GATE]), inputs[X]);
    default: return graft_mul(graph, graft_silu(graph, inputs[GATE]), inputs[X]);
  }
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_gated_convrot_i8_attrs *a = attrs;
  out_tensors[0] = graft_quantize_convrot_i8_packed(graph, build(graph, inputs, a), &a->quantize);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  graft_gated_convrot_i8_attrs *a = attrs;
  const graft_scale_attrs *scale = match->node_attrs[0];
  a->quantize = *(const graft_quantize_convrot_i8_attrs *)match->node_attrs[match->n_nodes - 1];
  if (a->gating != GRAFT_GATING_SCALE) return true;
  a->scale = scale->scale;
  a->bias = scale->bias;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 4.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_gated_convrot_i8(graft_graph *graph, graft_tensor *gate, graft_tensor *x,
                                     const graft_gated_convrot_i8_attrs *attrs) {
  graft_tensor *packed = NULL;
  graft_graph_apply(graph, "graft.gated_convrot_i8.v1", attrs, sizeof *attrs, (graft_tensor *[]){gate, x}, 2, &packed);
  return packed;
}

static const char *const gatings[] = {"silu", "sigmoid", "product", "scale", NULL};
static const graft_attr_def schema[] = {
    QUANTIZE_CONVROT_I8_ATTRS(offsetof(graft_gated_convrot_i8_attrs, quantize)),
    {.name = "gating",
     .type = GRAFT_ATTR_ENUM,
     .offset = offsetof(graft_gated_convrot_i8_attrs, gating),
     .choices = gatings},
    {.name = "scale",
     .type = GRAFT_ATTR_F64,
     .offset = offsetof(graft_gated_convrot_i8_attrs, scale),
     .default_f64 = 1},
    {.name = "bias", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_gated_convrot_i8_attrs, bias)},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.gated_convrot_i8.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .optional_inputs = 1u << GATE,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_gated_convrot_i8_attrs),
    .infer = graft_infer_gated_convrot_i8,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_gated_convrot_i8_cases,
    .n_cases = GRAFT_GATED_CONVROT_I8_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "gated_convrot_i8",
    .op = "graft.gated_convrot_i8.v1",
    .forms = graft_gated_convrot_i8_cases,
    .n_forms = GRAFT_GATED_CONVROT_I8_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_gated_convrot_i8;
const graft_extension graft_extension_gated_convrot_i8 = {
    .struct_size = sizeof graft_extension_gated_convrot_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.gated_convrot_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
