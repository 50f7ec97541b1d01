#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary.h"

#include "graft/extension.h"
#include "ops/common/constructor.h"
#include "ops/common/infer.h"
#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary_cases.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_attrs.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary_group.h"
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

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  graft_linear_i8_rms_norm_rotary_attrs *a = attrs;
  a->n_heads = match->output->rank == 4 ? match->output->shape[2] : 0;
  a->then.eps = ((const graft_rms_norm_attrs *)match->node_attrs[3])->eps;
  a->then.style = ((const graft_rotary_attrs *)match->node_attrs[4])->style;
  return graft_linear_i8_rows_capture(match, &a->product, why);
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
    .name = "linear_i8_rms_norm_rotary",
    .op = "graft.linear_i8_rms_norm_rotary.v1",
    .forms = graft_linear_i8_rms_norm_rotary_cases,
    .n_forms = GRAFT_LINEAR_I8_RMS_NORM_ROTARY_N_FORMS,
    .capture = capture,
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
