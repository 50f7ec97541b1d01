#include "testing/helper_ops.h"

#include "testing/layout.h"

typedef struct view_attrs {
  int32_t rank, n_strides;
  int64_t shape[GRAFT_MAX_RANK];
  int64_t strides[GRAFT_MAX_RANK];
  int64_t offset;
} view_attrs;

static const graft_attr_def view_schema[] = {
    {.name = "shape",
     .type = GRAFT_ATTR_I64S,
     .offset = offsetof(view_attrs, shape),
     .max_count = GRAFT_MAX_RANK,
     .count_offset = offsetof(view_attrs, rank)},
    {.name = "strides",
     .type = GRAFT_ATTR_I64S,
     .offset = offsetof(view_attrs, strides),
     .max_count = GRAFT_MAX_RANK,
     .count_offset = offsetof(view_attrs, n_strides)},
    {.name = "offset", .type = GRAFT_ATTR_I64, .offset = offsetof(view_attrs, offset)},
};

static graft_status infer_view(graft_infer_args *args) {
  const view_attrs *attrs = args->attrs;
  if (attrs->rank != attrs->n_strides) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "%d sizes but %d strides", attrs->rank, attrs->n_strides);
  }
  GRAFT_TRY(graft_tensor_desc_init(args->inputs[0]->dtype, attrs->rank, attrs->shape, args->error, &args->outputs[0]));
  for (int32_t d = 0; d < attrs->rank; ++d) args->outputs[0].strides[d] = attrs->strides[d];
  args->view_offset = attrs->offset;
  return GRAFT_OK;
}

static graft_status infer_identity(graft_infer_args *args) {
  const graft_tensor_desc *input = args->inputs[0];
  return graft_tensor_desc_init(input->dtype, input->rank, input->shape, args->error, &args->outputs[0]);
}

static graft_status copy_values(const graft_reference_args *args) {
  graft_testing_gather(&args->inputs[0].desc, args->inputs[0].data, args->outputs[0].data);
  return GRAFT_OK;
}

static const graft_op_def helper_ops[] = {
    {.struct_size = sizeof helper_ops[0],
     .traits = GRAFT_OP_PURE,
     .name = "testing.identity.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .infer = infer_identity,
     .reference = copy_values},
    {.struct_size = sizeof helper_ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW,
     .name = "testing.strided_view.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .attrs = view_schema,
     .n_attrs = sizeof view_schema / sizeof view_schema[0],
     .attrs_bytes = sizeof(view_attrs),
     .infer = infer_view},
};

graft_tensor *graft_testing_identity(graft_graph *graph, graft_tensor *x) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, helper_ops[0].name, NULL, 0, &x, 1, &y);
  return y;
}

graft_tensor *graft_testing_strided_view(graft_graph *graph, graft_tensor *storage, const graft_tensor_desc *desc,
                                         size_t offset) {
  view_attrs attrs = {.rank = desc->rank, .n_strides = desc->rank, .offset = (int64_t)offset};
  for (int32_t d = 0; d < desc->rank; ++d) {
    attrs.shape[d] = desc->shape[d];
    attrs.strides[d] = desc->strides[d];
  }
  graft_tensor *view = NULL;
  graft_graph_apply(graph, helper_ops[1].name, &attrs, sizeof attrs, &storage, 1, &view);
  return view;
}

const graft_extension *graft_testing_helper_ops(void) {
  static const graft_extension extension = {.struct_size = sizeof extension,
                                            .abi_version = GRAFT_ABI_VERSION,
                                            .name = "testing.helper_ops",
                                            .vendor = "testing",
                                            .ops = helper_ops,
                                            .n_ops = sizeof helper_ops / sizeof helper_ops[0]};
  return &extension;
}
