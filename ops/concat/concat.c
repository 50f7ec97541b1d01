#include "ops/concat/concat.h"

#include "graft/extension.h"
#include "ops/common/constructor.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/concat/concat_cases.h"

// Whether |x| can stand beside |first| along |axis|.
static bool fits(const graft_tensor_desc *first, const graft_tensor_desc *x, int64_t axis) {
  if (x->dtype != first->dtype || x->rank != first->rank) return false;
  for (int32_t d = 0; d < x->rank; ++d) {
    if (d != axis && x->shape[d] != first->shape[d]) return false;
  }
  return true;
}

graft_status graft_infer_concat(graft_infer_args *args) {
  const int64_t axis = ((const graft_concat_attrs *)args->attrs)->axis;
  const graft_tensor_desc *first = args->inputs[0];
  if (axis < 0 || axis >= first->rank) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "axis %lld is outside tensors of rank %d", (long long)axis,
                      first->rank);
  }
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < first->rank; ++d) shape[d] = first->shape[d];
  for (uint32_t i = 1; i < args->n_inputs; ++i) {
    const graft_tensor_desc *x = args->inputs[i];
    if (!fits(first, x, axis)) {
      char text[160], first_text[160];
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "tensor %u %s does not fit beside %s along axis %lld", i,
                        graft_tensor_desc_format(x, text, sizeof text),
                        graft_tensor_desc_format(first, first_text, sizeof first_text), (long long)axis);
    }
    if (__builtin_add_overflow(shape[axis], x->shape[axis], &shape[axis])) {
      return GRAFT_FAIL(args->error, GRAFT_E_NO_MEMORY, "the sizes along axis %lld sum to more than can be counted",
                        (long long)axis);
    }
  }
  return graft_tensor_desc_init(first->dtype, first->rank, shape, args->error, &args->outputs[0]);
}

static graft_status reference(const graft_reference_args *args) {
  const int64_t axis = ((const graft_concat_attrs *)args->attrs)->axis;
  graft_view part = args->outputs[0];
  for (uint32_t i = 0; i < args->n_inputs; ++i) {
    const graft_view *x = &args->inputs[i];
    GRAFT_TRY(graft_reference_check(args));
    part.desc.shape[axis] = x->desc.shape[axis];
    graft_reference_copy(x, &part);
    const int64_t unit = axis == x->desc.rank - 1 ? x->desc.dtype->block_elements : 1;
    part.data = (char *)part.data + x->desc.shape[axis] / unit * part.desc.strides[axis];
  }
  return GRAFT_OK;
}

static bool part(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                 const graft_tensor_desc *output, uint32_t input, int64_t *out_offset) {
  (void)n_inputs;
  const int64_t axis = ((const graft_concat_attrs *)attrs)->axis;
  const int64_t unit = axis == output->rank - 1 ? output->dtype->block_elements : 1;
  for (int64_t d = 0; d < axis; ++d) {
    if (output->shape[d] != 1) return false;
  }
  int64_t before = 0;
  for (uint32_t i = 0; i < input; ++i) before += inputs[i]->shape[axis];
  *out_offset = before / unit * output->strides[axis];
  return true;
}

graft_tensor *graft_concat(graft_graph *graph, graft_tensor *const *tensors, uint32_t n, int32_t axis) {
  graft_tensor *y = NULL;
  if (n == 0 || n > GRAFT_MAX_INPUTS) {
    return GRAFT_GRAPH_FAIL(graph, GRAFT_E_INVALID, "%u tensors cannot be joined, only 1 … %d", n, GRAFT_MAX_INPUTS);
  }
  const graft_tensor_desc *first = graft_constructor_describe(tensors[0]);
  const graft_concat_attrs attrs = {graft_constructor_axis(first, axis)};
  if (n == 1 && first && attrs.axis >= 0 && attrs.axis < first->rank) return tensors[0];
  graft_graph_apply(graph, "graft.concat.v1", &attrs, sizeof attrs, tensors, n, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {{.name = "axis", .offset = offsetof(graft_concat_attrs, axis)}};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.concat.v1",
    .min_inputs = 1,
    .max_inputs = GRAFT_MAX_INPUTS,
    .n_outputs = 1,
    .attrs = attr_defs,
    .n_attrs = 1,
    .attrs_bytes = sizeof(graft_concat_attrs),
    .infer = graft_infer_concat,
    .reference = reference,
    .cases = graft_concat_cases,
    .n_cases = GRAFT_CONCAT_N_CASES,
    .part = part,
}};

extern const graft_extension graft_extension_concat;
const graft_extension graft_extension_concat = {
    .struct_size = sizeof graft_extension_concat,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.concat",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
