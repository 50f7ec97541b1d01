#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"

#include <float.h>
#include <math.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/maker.h"
#include "ops/copy/copy.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_attrs.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_cases.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_group.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/unary/unary.h"

enum { X, WEIGHT, TABLE, N_INPUTS };

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
  GRAFT_TRY(graft_infer_rotary_embedding(&rotary));
  if (!(fabs(attrs->scale) <= (double)FLT_MAX)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "scale %g must be a finite float32 number", attrs->scale);
  }
  return graft_infer_converted(args, attrs->dtype);
}

graft_tensor *graft_rms_norm_rotary_build(graft_graph *graph, const graft_rms_norm_rotary_group *group) {
  const graft_rms_norm_rotary_attrs *a = &group->attrs;
  graft_tensor *y = graft_rms_norm(graph, group->x, group->weight, a->eps);
  y = graft_rotary_embedding(graph, y, group->table, (graft_rotary_style)a->style);
  if (a->scale != 0 && a->scale != 1) y = graft_scale(graph, y, a->scale, 0);
  return a->dtype != NULL ? graft_cast(graph, y, a->dtype) : y;
}

bool graft_rms_norm_rotary_find(graft_tensor *result, graft_rms_norm_rotary_group *out_group) {
  graft_rms_norm_rotary_group group = {.attrs = {.scale = 1}};
  graft_fusion_node node;
  if (graft_maker_is(result, "graft.cast.v1", &node)) {
    group.attrs.dtype = ((const graft_cast_attrs *)node.attrs)->dtype;
    result = node.inputs[0];
  }
  if (graft_maker_is(result, "graft.scale.v1", &node)) {
    group.attrs.scale = ((const graft_scale_attrs *)node.attrs)->scale;
    result = node.inputs[0];
  }
  if (!graft_maker_is(result, "graft.rotary_embedding.v1", &node)) return false;
  group.attrs.style = ((const graft_rotary_attrs *)node.attrs)->style;
  group.table = node.inputs[1];
  if (!graft_maker_is(node.inputs[0], "graft.rms_norm.v1", &node)) return false;
  group.attrs.eps = ((const graft_rms_norm_attrs *)node.attrs)->eps;
  group.x = node.inputs[0];
  group.weight = node.inputs[1];
  *out_group = group;
  return true;
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_rms_norm_rotary_group group = {inputs[X], inputs[WEIGHT], inputs[TABLE],
                                             *(const graft_rms_norm_rotary_attrs *)attrs};
  out_tensors[0] = graft_rms_norm_rotary_build(graph, &group);
}

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_rms_norm_rotary_group group;
  if (!graft_rms_norm_rotary_find(result, &group)) return false;
  *(graft_rms_norm_rotary_attrs *)proposal->attrs = group.attrs;
  proposal->n_inputs = N_INPUTS;
  proposal->inputs[X] = group.x;
  proposal->inputs[WEIGHT] = group.weight;
  proposal->inputs[TABLE] = group.table;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return GRAFT_RMS_NORM_ROTARY_FLOPS * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_rms_norm_rotary(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *table,
                                    const graft_rms_norm_rotary_attrs *attrs) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.rms_norm_rotary.v1", attrs, attrs ? sizeof *attrs : 0,
                    (graft_tensor *[]){x, weight, table}, N_INPUTS, &y);
  return y;
}

static const graft_attr_def schema[] = {RMS_NORM_ROTARY_ATTRS(0)};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.rms_norm_rotary.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
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
    .propose = propose,
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
