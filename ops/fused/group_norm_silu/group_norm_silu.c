#include "ops/fused/group_norm_silu/group_norm_silu.h"

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/fused/group_norm_silu/group_norm_silu_cases.h"
#include "ops/group_norm/group_norm_attrs.h"
#include "ops/unary/unary.h"

enum { X, WEIGHT, BIAS };

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_group_norm_attrs *a = attrs;
  graft_tensor *y = graft_group_norm(graph, inputs[X], inputs[WEIGHT], inputs[BIAS], a->n_groups, a->eps);
  out_tensors[0] = graft_silu(graph, y);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  *(graft_group_norm_attrs *)attrs = *(const graft_group_norm_attrs *)match->node_attrs[0];
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 10.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_group_norm_silu(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                                    int64_t n_groups, double eps) {
  const graft_group_norm_attrs attrs = {.n_groups = n_groups, .eps = eps};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.group_norm_silu.v1", &attrs, sizeof attrs, (graft_tensor *[]){x, weight, bias}, 3,
                    &y);
  return y;
}

static const graft_attr_def schema[] = {GROUP_NORM_ATTRS};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.group_norm_silu.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT | 1u << BIAS,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_group_norm_attrs),
    .infer = graft_infer_group_norm,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_group_norm_silu_cases,
    .n_cases = GRAFT_GROUP_NORM_SILU_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "group_norm_silu",
    .op = "graft.group_norm_silu.v1",
    .forms = graft_group_norm_silu_cases,
    .n_forms = GRAFT_GROUP_NORM_SILU_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_group_norm_silu;
const graft_extension graft_extension_group_norm_silu = {
    .struct_size = sizeof graft_extension_group_norm_silu,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.group_norm_silu",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
