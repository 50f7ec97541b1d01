#include "ops/fused/attention_convrot_i8/attention_convrot_i8.h"

#include <float.h>
#include <math.h>

#include "graft/extension.h"
#include "ops/common/constructor.h"
#include "ops/common/infer.h"
#include "ops/fused/attention_convrot_i8/attention_convrot_i8_cases.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_attrs.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"

enum { Q, K, V, MASK, N_INPUTS };

static graft_status infer(graft_infer_args *args) {
  const graft_attention_convrot_i8_attrs *attrs = args->attrs;
  graft_tensor_desc heads, rows;
  graft_infer_args attention = *args, quantize = *args;
  attention.attrs = &attrs->attention;
  attention.outputs = &heads;
  GRAFT_TRY(graft_infer_scaled_dot_product_attention(&attention));
  if (!(fabs(attrs->factor) <= (double)FLT_MAX)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "the factor %g must be a finite float32 number", attrs->factor);
  }
  int64_t shape[] = {heads.shape[0], heads.shape[1], 0};
  if (__builtin_mul_overflow(heads.shape[2], heads.shape[3], &shape[2])) shape[2] = INT64_MAX;
  GRAFT_TRY(graft_tensor_desc_init(heads.dtype, 3, shape, args->error, &rows));
  quantize.attrs = &attrs->quantize;
  quantize.inputs = (const graft_tensor_desc *[]){&rows};
  quantize.n_inputs = 1;
  return graft_infer_quantize_convrot_i8_packed(&quantize);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_attention_convrot_i8_attrs *a = attrs;
  graft_tensor *x =
      graft_scaled_dot_product_attention(graph, inputs[Q], inputs[K], inputs[V], inputs[MASK], &a->attention);
  if (a->factor != 0 && a->scales_heads) x = graft_scale(graph, x, a->factor, 0);
  const graft_tensor_desc *y = graft_constructor_describe(x);
  if (y) x = graft_reshape(graph, x, 3, (int64_t[]){y->shape[0], y->shape[1], y->shape[2] * y->shape[3]});
  if (a->factor != 0 && !a->scales_heads) x = graft_scale(graph, x, a->factor, 0);
  out_tensors[0] = graft_quantize_convrot_i8_packed(graph, x, &a->quantize);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  graft_attention_convrot_i8_attrs *a = attrs;
  a->attention = *(const graft_attention_attrs *)match->node_attrs[0];
  a->quantize = *(const graft_quantize_convrot_i8_attrs *)match->node_attrs[match->n_nodes - 1];
  // Behind the attention, or behind the reshape.
  if (a->factor != 0) a->factor = ((const graft_scale_attrs *)match->node_attrs[a->scales_heads ? 1 : 2])->scale;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)n_inputs, (void)outputs;
  const graft_attention_convrot_i8_attrs *a = attrs;
  const int64_t *q = inputs[Q]->shape, *v = inputs[V]->shape;
  const double pairs = (double)q[0] * (double)q[1] * (double)q[2] * (double)v[1];
  return (a->attention.is_causal ? 1.0 : 2.0) * pairs * (double)(q[3] + v[3]);
}

graft_tensor *graft_attention_convrot_i8(graft_graph *graph, graft_tensor *q, graft_tensor *k, graft_tensor *v,
                                         graft_tensor *key_mask, const graft_attention_convrot_i8_attrs *attrs) {
  graft_tensor *packed = NULL;
  graft_graph_apply(graph, "graft.attention_convrot_i8.v1", attrs, sizeof *attrs, (graft_tensor *[]){q, k, v, key_mask},
                    N_INPUTS, &packed);
  return packed;
}

static const graft_attr_def schema[] = {
    {.name = "scale", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_attention_convrot_i8_attrs, attention.scale)},
    {.name = "is_causal",
     .type = GRAFT_ATTR_BOOL,
     .offset = offsetof(graft_attention_convrot_i8_attrs, attention.is_causal)},
    QUANTIZE_CONVROT_I8_ATTRS(offsetof(graft_attention_convrot_i8_attrs, quantize)),
    {.name = "factor", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_attention_convrot_i8_attrs, factor)},
    {.name = "scales_heads",
     .type = GRAFT_ATTR_BOOL,
     .offset = offsetof(graft_attention_convrot_i8_attrs, scales_heads)},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.attention_convrot_i8.v1",
    .min_inputs = N_INPUTS,
    .max_inputs = N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << MASK,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_attention_convrot_i8_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_attention_convrot_i8_cases,
    .n_cases = GRAFT_ATTENTION_CONVROT_I8_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "attention_convrot_i8",
    .op = "graft.attention_convrot_i8.v1",
    .forms = graft_attention_convrot_i8_cases,
    .n_forms = GRAFT_ATTENTION_CONVROT_I8_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_attention_convrot_i8;
const graft_extension graft_extension_attention_convrot_i8 = {
    .struct_size = sizeof graft_extension_attention_convrot_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.attention_convrot_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
