#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention_cases.h"

enum { Q, K, V, MASK };

static graft_status check_shapes(const graft_infer_args *args) {
  const graft_tensor_desc *q = args->inputs[Q], *k = args->inputs[K], *v = args->inputs[V];
  if (q->rank != 4 || k->rank != 4 || v->rank != 4) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "q, k and v must have 4 dimensions, not %d, %d and %d", q->rank,
                      k->rank, v->rank);
  }
  const int64_t heads = q->shape[2], key_heads = k->shape[2];
  if (q->shape[0] != k->shape[0] || q->shape[3] != k->shape[3]) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                      "q has %lld items and heads of width %lld, k has %lld and %lld; they must be equal",
                      (long long)q->shape[0], (long long)q->shape[3], (long long)k->shape[0], (long long)k->shape[3]);
  }
  if (k->shape[0] != v->shape[0] || k->shape[1] != v->shape[1] || key_heads != v->shape[2]) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "k [%lld, %lld, %lld, …] and v [%lld, %lld, %lld, …] must agree",
                      (long long)k->shape[0], (long long)k->shape[1], (long long)key_heads, (long long)v->shape[0],
                      (long long)v->shape[1], (long long)v->shape[2]);
  }
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%lld query heads cannot share %lld key heads evenly",
                      (long long)heads, (long long)key_heads);
  }
  return GRAFT_OK;
}

static graft_status check_mask(const graft_infer_args *args) {
  const graft_tensor_desc *k = args->inputs[K], *mask = args->inputs[MASK];
  if (!mask || (mask->dtype == GRAFT_BOOL && graft_tensor_desc_has_shape(mask, 2, k->shape))) return GRAFT_OK;
  char text[160];
  return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the key mask must be bool [%lld, %lld], but is %s",
                    (long long)k->shape[0], (long long)k->shape[1], graft_tensor_desc_format(mask, text, sizeof text));
}

graft_status graft_infer_scaled_dot_product_attention(graft_infer_args *args) {
  const graft_attention_attrs *attrs = args->attrs;
  GRAFT_TRY(graft_infer_require_float(args, Q, "q", false));
  GRAFT_TRY(graft_infer_require_float(args, K, "k", false));
  GRAFT_TRY(graft_infer_require_float(args, V, "v", false));
  if (!(fabs(attrs->scale) <= (double)FLT_MAX)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "the scale %g must be a finite float32 number", attrs->scale);
  }
  GRAFT_TRY(check_shapes(args));
  GRAFT_TRY(check_mask(args));
  const graft_tensor_desc *q = args->inputs[Q];
  const int64_t shape[4] = {q->shape[0], q->shape[1], q->shape[2], args->inputs[V]->shape[3]};
  return graft_tensor_desc_init(q->dtype, 4, shape, args->error, &args->outputs[0]);
}

// One item and key head at a time.
typedef struct head {
  const graft_attention_attrs *attrs;
  graft_view q;                 // [Lq, D] of one query head
  graft_view y;                 // [Lq, Dv]
  graft_view mask;              // [Lk], data NULL: everything may be attended to
  graft_reference_floats k, v;  // [Lk, D], [Lk, Dv]
  int64_t n_queries, n_keys, width, value_width;
  float *query;    // [D]
  double *scores;  // [Lk]
  double *sums;    // [Dv]
} head;

static bool attends(const head *h, int64_t query, int64_t key) {
  if (h->attrs->is_causal && key > query + h->n_keys - h->n_queries) return false;
  return !h->mask.data || graft_dtype_load(GRAFT_BOOL, graft_view_at(&h->mask, &key)) != 0;
}

// Weights of the keys for one query, not yet divided by their sum, which is returned; 0 with nothing to attend to.
static double weigh_keys(const head *h, int64_t query) {
  const double scale = h->attrs->scale != 0 ? h->attrs->scale : 1 / sqrt((double)h->width);
  double largest = -HUGE_VAL, sum = 0;
  for (int64_t j = 0; j < h->n_keys; ++j) {
    h->scores[j] = -HUGE_VAL;
    if (!attends(h, query, j)) continue;
    double product = 0;
    for (int64_t i = 0; i < h->width; ++i) product += (double)h->query[i] * (double)h->k.data[j * h->width + i];
    h->scores[j] = h->width > 0 ? scale * product : 0;
    largest = h->scores[j] > largest || isnan(h->scores[j]) ? h->scores[j] : largest;
  }
  for (int64_t j = 0; j < h->n_keys; ++j) {
    h->scores[j] = attends(h, query, j) ? exp(h->scores[j] - largest) : 0;
    sum += h->scores[j];
  }
  return sum;
}

static graft_status attend(const graft_reference_args *args, const head *h) {
  for (int64_t i = 0; i < h->n_queries; ++i) {
    const int64_t row[2] = {i, 0};
    graft_reference_load_row(&h->q, row, h->query);
    const double sum = weigh_keys(h, i);
    for (int64_t c = 0; c < h->value_width; ++c) h->sums[c] = 0;
    for (int64_t j = 0; j < h->n_keys; ++j) {
      if (!attends(h, i, j)) continue;
      for (int64_t c = 0; c < h->value_width; ++c) {
        h->sums[c] += h->scores[j] / sum * (double)h->v.data[j * h->value_width + c];
      }
    }
    graft_reference_store_row(&h->y, row, h->sums);
    GRAFT_TRY(graft_reference_check(args));
  }
  return GRAFT_OK;
}

// [L, width] of item |item| and head |index| of a tensor [B, L, H, width].
static graft_view head_of(const graft_view *view, int64_t item, int64_t index) {
  const graft_view heads = graft_reference_select(view, 0, item);
  return graft_reference_select(&heads, 1, index);
}

// All query heads that share key head |key_head| of |item|.
static graft_status attend_group(const graft_reference_args *args, head *h, int64_t item, int64_t key_head) {
  const graft_view *q = &args->inputs[Q];
  const int64_t n = q->desc.shape[2] / args->inputs[K].desc.shape[2];
  const graft_view k = head_of(&args->inputs[K], item, key_head), v = head_of(&args->inputs[V], item, key_head);
  graft_status status = graft_reference_load(&k, args->error, &h->k);
  if (status == GRAFT_OK) status = graft_reference_load(&v, args->error, &h->v);
  for (int64_t i = key_head * n; i < (key_head + 1) * n && status == GRAFT_OK; ++i) {
    h->q = head_of(q, item, i);
    h->y = head_of(&args->outputs[0], item, i);
    status = attend(args, h);
  }
  graft_reference_floats_free(&h->k);
  graft_reference_floats_free(&h->v);
  return status;
}

static graft_status attend_all(const graft_reference_args *args, head *h) {
  const bool is_masked = args->inputs[MASK].desc.rank == 2;
  for (int64_t item = 0; item < args->inputs[Q].desc.shape[0]; ++item) {
    h->mask = is_masked ? graft_reference_select(&args->inputs[MASK], 0, item) : (graft_view){0};
    for (int64_t i = 0; i < args->inputs[K].desc.shape[2]; ++i) GRAFT_TRY(attend_group(args, h, item, i));
  }
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const int64_t *q = args->inputs[Q].desc.shape, *v = args->inputs[V].desc.shape;
  if (graft_tensor_desc_elements(&args->outputs[0].desc) == 0) return GRAFT_OK;
  head h = {.attrs = args->attrs, .n_queries = q[1], .n_keys = v[1], .width = q[3], .value_width = v[3]};
  graft_status status = GRAFT_E_NO_MEMORY;
  h.query = graft_reference_allocate(h.width, sizeof *h.query, args->error);
  h.scores = h.query ? graft_reference_allocate(h.n_keys, sizeof *h.scores, args->error) : NULL;
  h.sums = h.scores ? graft_reference_allocate(h.value_width, sizeof *h.sums, args->error) : NULL;
  if (h.sums) status = attend_all(args, &h);
  free(h.sums);
  free(h.scores);
  free(h.query);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)n_inputs, (void)outputs;
  const int64_t *q = inputs[Q]->shape, *v = inputs[V]->shape;
  const double pairs = (double)q[0] * (double)q[1] * (double)q[2] * (double)v[1];
  return (((const graft_attention_attrs *)attrs)->is_causal ? 1.0 : 2.0) * pairs * (double)(q[3] + v[3]);
}

graft_tensor *graft_scaled_dot_product_attention(graft_graph *graph, graft_tensor *q, graft_tensor *k, graft_tensor *v,
                                                 graft_tensor *key_mask, const graft_attention_attrs *attrs) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.scaled_dot_product_attention.v1", attrs, attrs ? sizeof *attrs : 0,
                    (graft_tensor *[]){q, k, v, key_mask}, 4, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {
    {.name = "scale", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_attention_attrs, scale)},
    {.name = "is_causal", .type = GRAFT_ATTR_BOOL, .offset = offsetof(graft_attention_attrs, is_causal)},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.scaled_dot_product_attention.v1",
    .min_inputs = 4,
    .max_inputs = 4,
    .n_outputs = 1,
    .optional_inputs = 1u << MASK,
    .attrs = attr_defs,
    .n_attrs = sizeof attr_defs / sizeof attr_defs[0],
    .attrs_bytes = sizeof(graft_attention_attrs),
    .infer = graft_infer_scaled_dot_product_attention,
    .reference = reference,
    .flops = flops,
    .cases = graft_scaled_dot_product_attention_cases,
    .n_cases = GRAFT_SCALED_DOT_PRODUCT_ATTENTION_N_CASES,
}};

extern const graft_extension graft_extension_scaled_dot_product_attention;
const graft_extension graft_extension_scaled_dot_product_attention = {
    .struct_size = sizeof graft_extension_scaled_dot_product_attention,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.scaled_dot_product_attention",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
