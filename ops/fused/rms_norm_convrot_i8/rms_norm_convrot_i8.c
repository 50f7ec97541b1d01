#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/fused/rms_norm_convrot_i8/rms_norm_convrot_i8_cases.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_attrs.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/unary/unary.h"

enum { X, WEIGHT, SCALE, SHIFT, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_rms_norm_convrot_i8_attrs *attrs = args->attrs;
  graft_tensor_desc rows;
  graft_infer_args norm = *args;
  norm.attrs = &(graft_rms_norm_attrs){.eps = attrs->eps};
  norm.n_inputs = 2;
  norm.outputs = &rows;
  GRAFT_TRY(graft_infer_rms_norm(&norm));
  norm.n_inputs = N_INPUTS;
  GRAFT_TRY(graft_infer_fits_output(&norm, SCALE, "the scale"));
  GRAFT_TRY(graft_infer_fits_output(&norm, SHIFT, "the shift"));
  graft_infer_args quantize = *args;
  quantize.attrs = &attrs->quantize;
  quantize.inputs = (const graft_tensor_desc *[]){&rows};
  quantize.n_inputs = 1;
  return graft_infer_quantize_convrot_i8_packed(&quantize);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_rms_norm_convrot_i8_attrs *a = attrs;
  graft_tensor *y = graft_rms_norm(graph, inputs[X], inputs[WEIGHT], a->eps);
  if (inputs[SCALE] != graft_graph_none()) {
    y = graft_mul(graph, y, a->is_factor ? inputs[SCALE] : graft_scale(graph, inputs[SCALE], 1, 1));
  }
  if (inputs[SHIFT] != graft_graph_none()) y = graft_add(graph, y, inputs[SHIFT]);
  out_tensors[0] = graft_quantize_convrot_i8_packed(graph, y, &a->quantize);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  graft_rms_norm_convrot_i8_attrs *a = attrs;
  a->eps = ((const graft_rms_norm_attrs *)match->node_attrs[0])->eps;
  a->quantize = *(const graft_quantize_convrot_i8_attrs *)match->node_attrs[match->n_nodes - 1];
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 9.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_rms_norm_convrot_i8(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *scale,
                                        graft_tensor *shift, const graft_rms_norm_convrot_i8_attrs *attrs) {
  graft_tensor *packed = NULL;
  graft_graph_apply(graph, "graft.rms_norm_convrot_i8.v1", attrs, sizeof *attrs,
                    (graft_tensor *[]){x, weight, scale, shift}, N_INPUTS, &packed);
  return packed;
}

static const graft_attr_def schema[] = {
    {.name = "eps",
     .type = GRAFT_ATTR_F64,
     .offset = offsetof(graft_rms_norm_convrot_i8_attrs, eps),
     .default_f64 = 1e-5},
    QUANTIZE_CONVROT_I8_ATTRS(offsetof(graft_rms_norm_convrot_i8_attrs, quantize)),
    {.name = "is_factor", .type = GRAFT_ATTR_BOOL, .offset = offsetof(graft_rms_norm_convrot_i8_attrs, is_factor)},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.rms_norm_convrot_i8.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT | 1u << SCALE | 1u << SHIFT,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_rms_norm_convrot_i8_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_rms_norm_convrot_i8_cases,
    .n_cases = GRAFT_RMS_NORM_CONVROT_I8_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "rms_norm_convrot_i8",
    .op = "graft.rms_norm_convrot_i8.v1",
    .forms = graft_rms_norm_convrot_i8_cases,
    .n_forms = GRAFT_RMS_NORM_CONVROT_I8_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_rms_norm_convrot_i8;
const graft_extension graft_extension_rms_norm_convrot_i8 = {
    .struct_size = sizeof graft_extension_rms_norm_convrot_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.rms_norm_convrot_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
