#include "ops/rotary_embedding/rotary_embedding.h"

#include <stdlib.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/rotary_embedding/rotary_embedding_cases.h"

enum { X, TABLE };

graft_status graft_infer_rotary_embedding(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[X], *table = args->inputs[TABLE];
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  if (x->rank != 4) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have 4 dimensions, not %d", x->rank);
  if (table->dtype != GRAFT_F32 || table->rank < 3 || table->rank > 4 || table->shape[table->rank - 1] != 2) {
    char text[160];
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                      "the table must be f32 [positions, pairs, 2] or that per item, but is %s",
                      graft_tensor_desc_format(table, text, sizeof text));
  }
  const int64_t positions = table->shape[table->rank - 3], pairs = table->shape[table->rank - 2];
  if (positions < x->shape[1]) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x has %lld positions, but the table ends after %lld",
                      (long long)x->shape[1], (long long)positions);
  }
  if (pairs > x->shape[3] / 2) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the table rotates %lld pairs, but heads of width %lld have fewer",
                      (long long)pairs, (long long)x->shape[3]);
  }
  if (table->rank == 4 && table->shape[0] != x->shape[0]) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x has %lld items, but the table is for %lld", (long long)x->shape[0],
                      (long long)table->shape[0]);
  }
  return graft_tensor_desc_init(x->dtype, 4, x->shape, args->error, &args->outputs[0]);
}

// Rotates one head by one row of the table, [pairs][2].
static void rotate(const graft_view *x, const graft_view *y, int32_t style, const float *row, int64_t pairs) {
  graft_dtype dtype = x->desc.dtype;
  const int64_t step = style == GRAFT_ROTARY_HALF ? 1 : 2, distance = style == GRAFT_ROTARY_HALF ? pairs : 1;
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t first = i * step, second = first + distance;
    float a, b;
    dtype->to_f32(graft_view_at(x, &first), &a, 1);
    dtype->to_f32(graft_view_at(x, &second), &b, 1);
    const double cosine = (double)row[2 * i], sine = (double)row[2 * i + 1];
    const graft_view pair[2] = {{{dtype, 0, {0}, {0}}, graft_view_at(y, &first)},
                                {{dtype, 0, {0}, {0}}, graft_view_at(y, &second)}};
    const double values[2] = {(double)a * cosine - (double)b * sine, (double)a * sine + (double)b * cosine};
    graft_reference_store_row(&pair[0], NULL, &values[0]);
    graft_reference_store_row(&pair[1], NULL, &values[1]);
  }
  for (int64_t i = 2 * pairs; i < x->desc.shape[0]; ++i) {
    memcpy(graft_view_at(y, &i), graft_view_at(x, &i), dtype->block_bytes);
  }
}

// Head |index| (item, position, head) of a tensor of 4 dimensions.
static graft_view head_of(const graft_view *view, const int64_t *index) {
  graft_view head = *view;
  for (int d = 0; d < 3; ++d) head = graft_reference_select(&head, 0, index[d]);
  return head;
}

static graft_status reference(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[X];
  if (graft_tensor_desc_elements(&x->desc) == 0) return GRAFT_OK;
  const int32_t style = ((const graft_rotary_attrs *)args->attrs)->style;
  graft_reference_floats table;
  GRAFT_TRY(graft_reference_load(&args->inputs[TABLE], args->error, &table));
  const graft_tensor_desc *desc = &args->inputs[TABLE].desc, rows = graft_reference_rows(&x->desc);
  const int64_t positions = desc->shape[desc->rank - 3], pairs = desc->shape[desc->rank - 2];
  int64_t index[GRAFT_MAX_RANK] = {0};
  graft_status status;
  do {
    const int64_t row = (desc->rank == 4 ? index[0] * positions : 0) + index[1];
    const graft_view from = head_of(x, index), to = head_of(&args->outputs[0], index);
    rotate(&from, &to, style, table.data + row * pairs * 2, pairs);
    status = graft_reference_check(args);
  } while (status == GRAFT_OK && graft_index_next(&rows, index));
  graft_reference_floats_free(&table);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs, (void)outputs;
  const int64_t *x = inputs[X]->shape, *pairs = &inputs[TABLE]->shape[inputs[TABLE]->rank - 2];
  return 6.0 * (double)x[0] * (double)x[1] * (double)x[2] * (double)*pairs;
}

graft_tensor *graft_rotary_embedding(graft_graph *graph, graft_tensor *x, graft_tensor *table,
                                     graft_rotary_style style) {
  const graft_rotary_attrs attrs = {(int32_t)style};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.rotary_embedding.v1", &attrs, sizeof attrs, (graft_tensor *[]){x, table}, 2, &y);
  return y;
}

static const char *const styles[] = {"interleaved", "half", NULL};
static const graft_attr_def attr_defs[] = {
    {.name = "style", .type = GRAFT_ATTR_ENUM, .offset = offsetof(graft_rotary_attrs, style), .choices = styles}};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.rotary_embedding.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .attrs = attr_defs,
    .n_attrs = 1,
    .attrs_bytes = sizeof(graft_rotary_attrs),
    .infer = graft_infer_rotary_embedding,
    .reference = reference,
    .flops = flops,
    .cases = graft_rotary_embedding_cases,
    .n_cases = GRAFT_ROTARY_EMBEDDING_N_CASES,
}};

extern const graft_extension graft_extension_rotary_embedding;
const graft_extension graft_extension_rotary_embedding = {
    .struct_size = sizeof graft_extension_rotary_embedding,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.rotary_embedding",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
