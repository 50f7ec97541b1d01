#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary.h"

#include "graft/extension.h"
#include "ops/common/constructor.h"
#include "ops/common/infer.h"
#include "ops/common/maker.h"
#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary_cases.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_attrs.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_group.h"
#include "ops/linear_i8/linear_i8_form.h"
#include "ops/linear_i8/linear_i8_rows.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/view/view.h"

enum { X, WEIGHT, WEIGHT_SCALE, NORM, TABLE, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_linear_i8_rms_norm_rotary_attrs *attrs = args->attrs;
  graft_tensor_desc product, heads;
  GRAFT_TRY(graft_infer_linear_i8_rows(args, WEIGHT, &product));
  if (attrs->n_heads < 1 || product.shape[2] % attrs->n_heads != 0) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "rows of %lld are not %lld heads", (long long)product.shape[2],
                      (long long)attrs->n_heads);
  }
  const int64_t shape[] = {product.shape[0], product.shape[1], attrs->n_heads, product.shape[2] / attrs->n_heads};
  GRAFT_TRY(graft_tensor_desc_init(product.dtype, 4, shape, args->error, &heads));
  graft_infer_args then = *args;
  then.attrs = &attrs->then;
  then.inputs = (const graft_tensor_desc *[]){&heads, args->inputs[NORM], args->inputs[TABLE]};
  then.n_inputs = 3;
  return graft_infer_rms_norm_rotary(&then);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_linear_i8_rms_norm_rotary_attrs *a = attrs;
  graft_tensor *y = graft_linear_i8_rows(graph, inputs, WEIGHT, &a->product);
  const graft_tensor_desc *rows = graft_constructor_describe(y);
  const int64_t n_heads = a->n_heads > 0 ? a->n_heads : 1;
  if (rows) {
    y = graft_reshape(graph, y, 4, (int64_t[]){rows->shape[0], rows->shape[1], n_heads, rows->shape[2] / n_heads});
  }
  const graft_rms_norm_rotary_group then = {y, inputs[NORM], inputs[TABLE], a->then};
  out_tensors[0] = graft_rms_norm_rotary_build(graph, &then);
}

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  graft_rms_norm_rotary_group group;
  graft_fusion_node heads, rows, linear;
  if (!graft_rms_norm_rotary_find(result, &group)) return false;
  if (!graft_maker_is(group.x, "graft.reshape.v1", &heads)) return false;
  if (!graft_maker_is(heads.inputs[0], "graft.reshape.v1", &rows)) return false;
  if (!graft_maker_is(rows.inputs[0], "graft.linear_i8.v1", &linear)) return false;
  if (linear.inputs[LINEAR_I8_X_SCALE] != NULL || linear.inputs[LINEAR_I8_BIAS] != NULL) return false;
  const graft_fusion_match product = {
      .struct_size = sizeof product, .n_nodes = 2, .node_attrs = (const void *[]){linear.attrs, rows.attrs}};
  graft_linear_i8_rms_norm_rotary_attrs *attrs = proposal->attrs;
  attrs->n_heads = graft_tensor_describe(group.x)->shape[2];
  attrs->then = group.attrs;
  proposal->n_inputs = N_INPUTS;
  proposal->inputs[X] = linear.inputs[LINEAR_I8_X];
  proposal->inputs[WEIGHT] = linear.inputs[LINEAR_I8_WEIGHT];
  proposal->inputs[WEIGHT_SCALE] = linear.inputs[LINEAR_I8_WEIGHT_SCALE];
  proposal->inputs[NORM] = group.weight;
  proposal->inputs[TABLE] = group.table;
  return graft_linear_i8_rows_capture(&product, &attrs->product, why);
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)n_inputs;
  const graft_linear_i8_rms_norm_rotary_attrs *a = attrs;
  return graft_linear_i8_rows_flops(&a->product, inputs[WEIGHT]) +
         GRAFT_RMS_NORM_ROTARY_FLOPS * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_linear_i8_rms_norm_rotary(graft_graph *graph, const graft_linear_i8_rms_norm_rotary_inputs *inputs,
                                              const graft_linear_i8_rms_norm_rotary_attrs *attrs) {
  graft_tensor *const in[] = {inputs->x, inputs->weight, inputs->weight_scale, inputs->norm, inputs->table};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.linear_i8_rms_norm_rotary.v1", attrs, sizeof *attrs, in, N_INPUTS, &y);
  return y;
}

static const graft_attr_def schema[] = {
    LINEAR_I8_ROWS_ATTRS,
    {.name = "n_heads",
     .type = GRAFT_ATTR_I64,
     .offset = offsetof(graft_linear_i8_rms_norm_rotary_attrs, n_heads),
     .default_i64 = 1},
    RMS_NORM_ROTARY_ATTRS(offsetof(graft_linear_i8_rms_norm_rotary_attrs, then)),
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.linear_i8_rms_norm_rotary.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT_SCALE | 1u << NORM,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_linear_i8_rms_norm_rotary_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_linear_i8_rms_norm_rotary_cases,
    .n_cases = GRAFT_LINEAR_I8_RMS_NORM_ROTARY_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .priority = 1,  // before "rms_norm_rotary", which is a part of it
    .name = "linear_i8_rms_norm_rotary",
    .op = "graft.linear_i8_rms_norm_rotary.v1",
    .propose = propose,
}};

extern const graft_extension graft_extension_linear_i8_rms_norm_rotary;
const graft_extension graft_extension_linear_i8_rms_norm_rotary = {
    .struct_size = sizeof graft_extension_linear_i8_rms_norm_rotary,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_i8_rms_norm_rotary",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
