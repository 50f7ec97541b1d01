#include "ops/fused/matmul_attention/matmul_attention.h"

#include <float.h>
#include <math.h>

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/fused/matmul_attention/matmul_attention_cases.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"
#include "ops/unary/unary.h"

enum { Q, K, V, MASK };

static bool agree(const graft_tensor_desc *q, const graft_tensor_desc *k, const graft_tensor_desc *v) {
  const int32_t rank = q->rank;
  if (rank < 2 || rank > 4 || k->rank != rank || v->rank != rank) return false;
  for (int32_t d = 0; d < rank - 2; ++d) {
    if (q->shape[d] != k->shape[d] || q->shape[d] != v->shape[d]) return false;
  }
  return q->shape[rank - 1] == k->shape[rank - 2] && k->shape[rank - 1] == v->shape[rank - 2];
}

// The mask is added to the scores, which are nowhere.
static graft_status check_mask(const graft_infer_args *args, const int64_t *shape) {
  graft_tensor_desc scores;
  graft_infer_args adding = *args;
  adding.outputs = &scores;
  GRAFT_TRY(graft_tensor_desc_init(args->inputs[Q]->dtype, args->inputs[Q]->rank, shape, args->error, &scores));
  return graft_infer_fits_output(&adding, MASK, "the mask");
}

static graft_status infer(graft_infer_args *args) {
  const graft_tensor_desc *q = args->inputs[Q], *k = args->inputs[K], *v = args->inputs[V];
  GRAFT_TRY(graft_infer_require_float(args, Q, "q", false));
  GRAFT_TRY(graft_infer_require_float(args, K, "k", false));
  GRAFT_TRY(graft_infer_require_float(args, V, "v", false));
  const double scale = ((const graft_matmul_attention_attrs *)args->attrs)->scale;
  if (!(fabs(scale) <= (double)FLT_MAX)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "the scale %g must be a finite float32 number", scale);
  }
  if (!agree(q, k, v)) {
    char a[64], b[64], c[64];
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "q %s, k %s and v %s do not fit together",
                      graft_tensor_desc_format(q, a, sizeof a), graft_tensor_desc_format(k, b, sizeof b),
                      graft_tensor_desc_format(v, c, sizeof c));
  }
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < q->rank; ++d) shape[d] = q->shape[d];
  shape[q->rank - 1] = k->shape[q->rank - 1];
  GRAFT_TRY(check_mask(args, shape));
  shape[q->rank - 1] = v->shape[q->rank - 1];
  return graft_tensor_desc_init(q->dtype, q->rank, shape, args->error, &args->outputs[0]);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)n_inputs;
  const graft_matmul_attention_attrs *a = attrs;
  graft_tensor *scores = graft_matmul(graph, inputs[Q], inputs[K]);
  if (a->scale != 1) scores = graft_scale(graph, scores, a->scale, 0);
  if (inputs[MASK] != graft_graph_none()) scores = graft_add(graph, scores, inputs[MASK]);
  out_tensors[0] = graft_matmul(graph, graft_softmax(graph, scores), inputs[V]);
}

static bool capture(const graft_fusion_match *match, void *attrs, graft_reason *why) {
  (void)why;
  graft_matmul_attention_attrs *a = attrs;
  if (a->scale != 1) a->scale = ((const graft_scale_attrs *)match->node_attrs[1])->scale;
  return true;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs, (void)outputs;
  const graft_tensor_desc *q = inputs[Q], *v = inputs[V];
  const double keys = (double)v->shape[v->rank - 2], width = (double)q->shape[q->rank - 1];
  const double rows = width > 0 ? (double)graft_tensor_desc_elements(q) / width : 0;
  return 2.0 * rows * keys * (width + (double)v->shape[v->rank - 1]);
}

graft_tensor *graft_matmul_attention(graft_graph *graph, graft_tensor *q, graft_tensor *k, graft_tensor *v,
                                     graft_tensor *mask, double scale) {
  const graft_matmul_attention_attrs attrs = {.scale = scale};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.matmul_attention.v1", &attrs, sizeof attrs, (graft_tensor *[]){q, k, v, mask}, 4, &y);
  return y;
}

static const graft_attr_def schema[] = {
    {.name = "scale",
     .type = GRAFT_ATTR_F64,
     .offset = offsetof(graft_matmul_attention_attrs, scale),
     .default_f64 = 1},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.matmul_attention.v1",
    .min_inputs = 4,
    .max_inputs = 4,
    .n_outputs = 1,
    .optional_inputs = 1u << MASK,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_matmul_attention_attrs),
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_matmul_attention_cases,
    .n_cases = GRAFT_MATMUL_ATTENTION_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "matmul_attention",
    .op = "graft.matmul_attention.v1",
    .forms = graft_matmul_attention_cases,
    .n_forms = GRAFT_MATMUL_ATTENTION_N_FORMS,
    .capture = capture,
}};

extern const graft_extension graft_extension_matmul_attention;
const graft_extension graft_extension_matmul_attention = {
    .struct_size = sizeof graft_extension_matmul_attention,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.matmul_attention",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
