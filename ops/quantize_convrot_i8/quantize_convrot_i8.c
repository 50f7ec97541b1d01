#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

#include <stdlib.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/quantize.h"
#include "ops/common/reference.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_attrs.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8_cases.h"

static graft_status check(graft_infer_args *args) {
  const graft_quantize_convrot_i8_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  GRAFT_TRY(graft_infer_require_float(args, 0, "x", false));
  if (x->rank < 1) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have at least 1 dimension, not 0");
  return graft_quantize_check_group(attrs->group, x->shape[x->rank - 1], args->error);
}

static graft_status infer(graft_infer_args *args) {
  GRAFT_TRY(check(args));
  const graft_tensor_desc *x = args->inputs[0];
  int64_t shape[GRAFT_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  GRAFT_TRY(graft_tensor_desc_init(GRAFT_I8, x->rank, shape, args->error, &args->outputs[0]));
  shape[x->rank - 1] = 1;
  return graft_tensor_desc_init(GRAFT_F32, x->rank, shape, args->error, &args->outputs[1]);
}

graft_status graft_infer_quantize_convrot_i8_packed(graft_infer_args *args) {
  GRAFT_TRY(check(args));
  const graft_tensor_desc *x = args->inputs[0];
  const int64_t k = x->shape[x->rank - 1];
  int64_t m = 1;
  for (int32_t d = 0; d + 1 < x->rank; ++d) {
    if (__builtin_mul_overflow(m, x->shape[d], &m)) m = INT64_MAX;
  }
  if (m > INT64_MAX - 3 || k > INT64_MAX - 4) {
    return GRAFT_FAIL(args->error, GRAFT_E_NO_MEMORY, "x is larger than the address space");
  }
  const int64_t shape[] = {(m + 3) / 4 * 4, k + 4};
  return graft_tensor_desc_init(GRAFT_I8, 2, shape, args->error, &args->outputs[0]);
}

// Room for one row.
typedef struct target {
  float *row;  // rotated in place
  int8_t *q;
} target;

static graft_status allocate(int64_t k, graft_error *error, target *out) {
  out->row = graft_reference_allocate(k, sizeof(float), error);
  out->q = out->row ? graft_reference_allocate(k, 1, error) : NULL;
  return out->q ? GRAFT_OK : GRAFT_E_NO_MEMORY;
}

static float quantize_row(const graft_reference_args *args, const int64_t *index, const target *t) {
  const graft_quantize_convrot_i8_attrs *attrs = args->attrs;
  const int64_t k = graft_reference_row_length(&args->inputs[0].desc);
  graft_reference_load_row(&args->inputs[0], index, t->row);
  return graft_quantize_reference_row(t->row, k, attrs->group, attrs->grid == GRAFT_QUANTIZE_BF16, t->q);
}

static graft_status quantize(const graft_reference_args *args, const target *t) {
  const graft_tensor_desc rows = graft_reference_rows(&args->inputs[0].desc), *q = &args->outputs[0].desc;
  const int32_t last = q->rank - 1;
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    const float scale = quantize_row(args, index, t);
    index[last] = 0;
    memcpy(graft_view_at(&args->outputs[1], index), &scale, sizeof scale);
    for (; index[last] < q->shape[last]; ++index[last]) {
      *(int8_t *)graft_view_at(&args->outputs[0], index) = t->q[index[last]];
    }
    index[last] = 0;
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  if (graft_tensor_desc_elements(&args->outputs[1].desc) == 0) return GRAFT_OK;
  target t = {0};
  graft_status status = allocate(graft_reference_row_length(&args->inputs[0].desc), args->error, &t);
  if (status == GRAFT_OK) status = quantize(args, &t);
  free(t.q);
  free(t.row);
  return status;
}

// Byte |at| of the packed form.
static void put(const graft_view *packed, int64_t at, int8_t value) {
  const int64_t columns = packed->desc.shape[1], index[GRAFT_MAX_RANK] = {at / columns, at % columns};
  *(int8_t *)graft_view_at(packed, index) = value;
}

static void put_row(const graft_view *packed, int64_t row, int64_t k, const int8_t *q, float scale) {
  for (int64_t i = 0; i < k; ++i) put(packed, row * k + i, q[i]);
  int8_t bytes[sizeof scale];
  memcpy(bytes, &scale, sizeof scale);
  for (int64_t i = 0; i < 4; ++i) put(packed, packed->desc.shape[0] * k + 4 * row + i, bytes[i]);
}

static graft_status quantize_packed(const graft_reference_args *args, const target *t) {
  const graft_view *packed = &args->outputs[0];
  const graft_tensor_desc rows = graft_reference_rows(&args->inputs[0].desc);
  const int64_t k = graft_reference_row_length(&args->inputs[0].desc), padded = packed->desc.shape[0];
  int64_t row = 0, index[GRAFT_MAX_RANK] = {0};
  for (bool is_row = graft_tensor_desc_elements(&rows) > 0; is_row; is_row = graft_index_next(&rows, index)) {
    GRAFT_TRY(graft_reference_check(args));
    const float scale = quantize_row(args, index, t);
    put_row(packed, row++, k, t->q, scale);
  }
  memset(t->q, 0, (size_t)k);
  while (row < padded) put_row(packed, row++, k, t->q, 0);
  return GRAFT_OK;
}

static graft_status reference_packed(const graft_reference_args *args) {
  target t = {0};
  graft_status status = allocate(graft_reference_row_length(&args->inputs[0].desc), args->error, &t);
  if (status == GRAFT_OK) status = quantize_packed(args, &t);
  free(t.q);
  free(t.row);
  return status;
}

graft_quantized_pair graft_quantize_convrot_i8(graft_graph *graph, graft_tensor *x,
                                               const graft_quantize_convrot_i8_attrs *attrs) {
  graft_tensor *out[2] = {NULL, NULL};
  graft_graph_apply(graph, "graft.quantize_convrot_i8.v1", attrs, sizeof *attrs, &x, 1, out);
  return (graft_quantized_pair){out[0], out[1]};
}

graft_tensor *graft_quantize_convrot_i8_packed(graft_graph *graph, graft_tensor *x,
                                               const graft_quantize_convrot_i8_attrs *attrs) {
  graft_tensor *packed = NULL;
  graft_graph_apply(graph, "graft.quantize_convrot_i8_packed.v1", attrs, sizeof *attrs, &x, 1, &packed);
  return packed;
}

static const graft_attr_def attr_defs[] = {QUANTIZE_CONVROT_I8_ATTRS(0)};

static const graft_op_def ops[] = {
    {
        .struct_size = sizeof ops[0],
        .traits = GRAFT_OP_PURE,
        .name = "graft.quantize_convrot_i8.v1",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_outputs = 2,
        .attrs = attr_defs,
        .n_attrs = 2,
        .attrs_bytes = sizeof(graft_quantize_convrot_i8_attrs),
        .infer = infer,
        .reference = reference,
        .cases = graft_quantize_convrot_i8_cases,
        .n_cases = GRAFT_QUANTIZE_CONVROT_I8_N_CASES,
    },
    {
        .struct_size = sizeof ops[0],
        .traits = GRAFT_OP_PURE,
        .name = "graft.quantize_convrot_i8_packed.v1",
        .min_inputs = 1,
        .max_inputs = 1,
        .n_outputs = 1,
        .attrs = attr_defs,
        .n_attrs = 2,
        .attrs_bytes = sizeof(graft_quantize_convrot_i8_attrs),
        .infer = graft_infer_quantize_convrot_i8_packed,
        .reference = reference_packed,
        .cases = graft_quantize_convrot_i8_packed_cases,
        .n_cases = GRAFT_QUANTIZE_CONVROT_I8_PACKED_N_CASES,
    },
};

extern const graft_extension graft_extension_quantize_convrot_i8;
const graft_extension graft_extension_quantize_convrot_i8 = {
    .struct_size = sizeof graft_extension_quantize_convrot_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.quantize_convrot_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
