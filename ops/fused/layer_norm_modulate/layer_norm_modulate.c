#include "ops/fused/layer_norm_modulate/layer_norm_modulate.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/fused/layer_norm_modulate/layer_norm_modulate_cases.h"
#include "ops/unary/unary.h"

enum { X, WEIGHT, BIAS, SCALE, SHIFT };

static graft_status infer(graft_infer_args *args) {
  graft_infer_args norm = *args;
  norm.n_inputs = 3;
  GRAFT_TRY(graft_infer_layer_norm(&norm));
  GRAFT_TRY(graft_infer_fits_output(args, SCALE, "the scale"));
  return graft_infer_fits_output(args, SHIFT, "the shift");
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_layer_norm_attrs *a = attrs;
  graft_tensor *y = graft_layer_norm(graph, inputs[X], inputs[WEIGHT], inputs[BIAS], a->eps);
  y = graft_mul(graph, y, graft_scale(graph, inputs[SCALE], 1, 1));
  out_tensors[0] = inputs[SHIFT] != graft_graph_none() ? graft_add(graph, y, inputs[SHIFT]) : y;
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  *(graft_layer_norm_attrs *)attrs = *(const graft_layer_norm_attrs *)match->node_attrs[0];
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 11.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_layer_norm_modulate(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                                        graft_tensor *scale, graft_tensor *shift, const graft_layer_norm_attrs *attrs) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.layer_norm_modulate.v1", attrs, attrs ? sizeof *attrs : 0,
                    (graft_tensor *[]){x, weight, bias, scale, shift}, 5, &y);
  return y;
}

static const graft_attr_def schema[] = {
    {.name = "eps", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_layer_norm_attrs, eps), .default_f64 = 1e-5},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.layer_norm_modulate.v1",
    .min_inputs = 5,
    .max_inputs = 5,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT | 1u << BIAS | 1u << SHIFT,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_layer_norm_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_layer_norm_modulate_cases,
    .n_cases = GRAFT_LAYER_NORM_MODULATE_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "layer_norm_modulate",
    .op = "graft.layer_norm_modulate.v1",
    .forms = graft_layer_norm_modulate_cases,
    .n_forms = GRAFT_LAYER_NORM_MODULATE_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_layer_norm_modulate;
const graft_extension graft_extension_layer_norm_modulate = {
    .struct_size = sizeof graft_extension_layer_norm_modulate,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.layer_norm_modulate",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
