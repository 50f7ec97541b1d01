#include "ops/copy/copy.h"

#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/constructor.h"
#include "ops/common/reference.h"
#include "ops/copy/copy_cases.h"

static graft_status infer_copy(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[0];
  return graft_tensor_desc_init(x->dtype, x->rank, x->shape, args->error, &args->outputs[0]);
}

static graft_status copy(const graft_reference_args *args) {
  graft_reference_copy(&args->inputs[0], &args->outputs[0]);
  return GRAFT_OK;
}

static graft_status infer_cast(graft_infer_args *args) {
  const graft_cast_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  if (attrs->dtype == NULL) return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "the dtype to convert to is missing");
  return graft_tensor_desc_init(attrs->dtype, x->rank, x->shape, args->error, &args->outputs[0]);
}

// Whole rows pass through float32, which is exact for every float dtype; plain integers are converted one by one, since
// float32 does not hold them all.
static void cast_row(const graft_view *x, const graft_view *y, const int64_t *index, float *row) {
  const graft_tensor_desc *from = &x->desc, *to = &y->desc;
  const int64_t n = graft_reference_row_length(from);
  const bool by_element = from->dtype->code != GRAFT_DTYPE_CUSTOM && to->dtype->code != GRAFT_DTYPE_CUSTOM;
  int64_t at[GRAFT_MAX_RANK] = {0};
  for (int32_t d = 0; d + 1 < from->rank; ++d) at[d] = index[d];
  if (!by_element) {
    graft_reference_load_row(x, at, row);
    to->dtype->from_f32(row, graft_view_at(y, at), (size_t)n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (from->rank > 0) at[from->rank - 1] = i;
    graft_dtype_store(to->dtype, graft_view_at(y, at), graft_dtype_load(from->dtype, graft_view_at(x, at)));
  }
}

static graft_status cast(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  if (graft_tensor_desc_elements(&x->desc) == 0) return GRAFT_OK;
  float *row = graft_reference_allocate(graft_reference_row_length(&x->desc), sizeof *row, args->error);
  if (!row) return GRAFT_E_NO_MEMORY;
  const graft_tensor_desc rows = graft_reference_rows(&x->desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  graft_status status;
  do {
    cast_row(x, y, index, row);
    status = graft_reference_check(args);
  } while (status == GRAFT_OK && graft_index_next(&rows, index));
  free(row);
  return status;
}

graft_tensor *graft_contiguous(graft_graph *graph, graft_tensor *x) {
  const graft_tensor_desc *desc = graft_constructor_describe(x);
  if (desc && graft_tensor_desc_is_contiguous(desc)) return x;
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.copy.v1", NULL, 0, &x, 1, &y);
  return y;
}

graft_tensor *graft_copy_to(graft_graph *graph, graft_tensor *x, graft_tensor *target) {
  graft_tensor *y = NULL;
  if (target == NULL) return GRAFT_GRAPH_FAIL(graph, GRAFT_E_INVALID, "the target of a copy is NULL");
  const graft_application call = {
      .struct_size = sizeof call, .op = "graft.copy.v1", .inputs = &x, .n_inputs = 1, .into = target};
  graft_graph_apply_into(graph, &call, &y);
  return y;
}

graft_tensor *graft_cast(graft_graph *graph, graft_tensor *x, graft_dtype dtype) {
  const graft_tensor_desc *desc = graft_constructor_describe(x);
  if (desc && desc->dtype == dtype) return x;
  const graft_cast_attrs attrs = {dtype};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.cast.v1", &attrs, sizeof attrs, &x, 1, &y);
  return y;
}

static const graft_attr_def cast_attrs[] = {{.name = "dtype",
                                             .type = GRAFT_ATTR_DTYPE,
                                             .offset = offsetof(graft_cast_attrs, dtype),
                                             .default_i64 = GRAFT_DTYPE_F32}};

static const graft_op_def ops[] = {
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_COPY,
     .name = "graft.copy.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .infer = infer_copy,
     .reference = copy,
     .cases = graft_copy_cases,
     .n_cases = GRAFT_COPY_N_CASES},
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_CAST | GRAFT_OP_ELEMENTWISE,
     .name = "graft.cast.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .attrs = cast_attrs,
     .n_attrs = 1,
     .attrs_bytes = sizeof(graft_cast_attrs),
     .infer = infer_cast,
     .reference = cast,
     .cases = graft_cast_cases,
     .n_cases = GRAFT_CAST_N_CASES},
};

extern const graft_extension graft_extension_copy;
const graft_extension graft_extension_copy = {
    .struct_size = sizeof graft_extension_copy,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.copy",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
