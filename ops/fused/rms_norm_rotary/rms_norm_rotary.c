#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_attrs.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_cases.h"
#include "ops/rms_norm/rms_norm.h"

enum { X, WEIGHT, TABLE };

graft_status graft_infer_rms_norm_rotary(graft_infer_args *args) {
  const graft_rms_norm_rotary_attrs *attrs = args->attrs;
  graft_tensor_desc normalised;
  graft_infer_args norm = *args, rotary = *args;
  norm.attrs = &(graft_rms_norm_attrs){.eps = attrs->eps};
  norm.n_inputs = rotary.n_inputs = 2;
  norm.outputs = &normalised;
  GRAFT_TRY(graft_infer_rms_norm(&norm));
  rotary.attrs = &(graft_rotary_attrs){.style = attrs->style};
  rotary.inputs = (const graft_tensor_desc *[]){&normalised, args->inputs[TABLE]};
  return graft_infer_rotary_embedding(&rotary);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_rms_norm_rotary_attrs *a = attrs;
  graft_tensor *x = graft_rms_norm(graph, inputs[X], inputs[WEIGHT], a->eps);
  out_tensors[0] = graft_rotary_embedding(graph, x, inputs[TABLE], (graft_rotary_style)a->style);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  graft_rms_norm_rotary_attrs *a = attrs;
  a->eps = ((const graft_rms_norm_attrs *)match->node_attrs[0])->eps;
  a->style = ((const graft_rotary_attrs *)match->node_attrs[1])->style;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 7.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_rms_norm_rotary(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *table,
                                    const graft_rms_norm_rotary_attrs *attrs) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.rms_norm_rotary.v1", attrs, attrs ? sizeof *attrs : 0,
                    (graft_tensor *[]){x, weight, table}, 3, &y);
  return y;
}

static const graft_attr_def schema[] = {RMS_NORM_ROTARY_ATTRS(0)};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.rms_norm_rotary.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_rms_norm_rotary_attrs),
    .infer = graft_infer_rms_norm_rotary,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_rms_norm_rotary_cases,
    .n_cases = GRAFT_RMS_NORM_ROTARY_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "rms_norm_rotary",
    .op = "graft.rms_norm_rotary.v1",
    .forms = graft_rms_norm_rotary_cases,
    .n_forms = GRAFT_RMS_NORM_ROTARY_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_rms_norm_rotary;
const graft_extension graft_extension_rms_norm_rotary = {
    .struct_size = sizeof graft_extension_rms_norm_rotary,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.rms_norm_rotary",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
