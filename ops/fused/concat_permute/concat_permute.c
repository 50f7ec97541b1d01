#include "ops/fused/concat_permute/concat_permute.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/maker.h"
#include "ops/concat/concat.h"
#include "ops/copy/copy.h"
#include "ops/fused/concat_permute/concat_permute_cases.h"
#include "ops/unary/unary.h"
#include "ops/view/view.h"

static graft_status check_order(const graft_infer_args *args) {
  const graft_concat_permute_attrs *attrs = args->attrs;
  uint32_t seen = 0;
  if (attrs->rank != args->inputs[0]->rank) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "an order of rank %d does not fit a tensor of rank %d", attrs->rank,
                      args->inputs[0]->rank);
  }
  for (int32_t d = 0; d < attrs->rank; ++d) {
    const int64_t from = attrs->order[d];
    if (from < 0 || from >= attrs->rank || (seen >> from & 1) != 0) {
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the order names dimension %lld of %d twice or beyond its end",
                        (long long)from, attrs->rank);
    }
    seen |= 1u << from;
  }
  return GRAFT_OK;
}

static graft_status check_types(const graft_infer_args *args, graft_dtype to) {
  const graft_concat_permute_attrs *attrs = args->attrs;
  const graft_dtype from = args->inputs[0]->dtype;
  if (from->block_elements > 1 || to->block_elements > 1) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "elements of %s cannot change places and become %s one by one",
                      from->name, to->name);
  }
  if (!(fabs(attrs->factor) <= (double)FLT_MAX)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "the factor %g must be a finite float32 number", attrs->factor);
  }
  if (attrs->factor == 1 || from->is_float) return GRAFT_OK;
  return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "%s cannot be multiplied by %g", from->name, attrs->factor);
}

static graft_status infer(graft_infer_args *args) {
  const graft_concat_permute_attrs *attrs = args->attrs;
  const graft_dtype dtype = attrs->dtype != NULL ? attrs->dtype : args->inputs[0]->dtype;
  GRAFT_TRY(check_order(args));
  GRAFT_TRY(check_types(args, dtype));
  graft_tensor_desc joined = *args->inputs[0];
  if (args->n_inputs > 1) {
    const graft_concat_attrs concat = {attrs->axis};
    graft_infer_args of_concat = *args;
    of_concat.attrs = &concat;
    GRAFT_TRY(graft_infer_concat(&of_concat));
    joined = of_concat.outputs[0];
  }
  int64_t shape[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < attrs->rank; ++d) shape[d] = joined.shape[attrs->order[d]];
  return graft_tensor_desc_init(dtype, attrs->rank, shape, args->error, &args->outputs[0]);
}

static void decompose(graft_graph *graph, const void *attributes, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  const graft_concat_permute_attrs *attrs = attributes;
  int32_t order[GRAFT_MAX_RANK];
  for (int32_t d = 0; d < attrs->rank; ++d) order[d] = (int32_t)attrs->order[d];
  graft_tensor *y = n_inputs > 1 ? graft_concat(graph, inputs, n_inputs, (int32_t)attrs->axis) : inputs[0];
  if (attrs->factor != 1) y = graft_scale(graph, y, attrs->factor, 0);
  y = graft_permute(graph, y, order);
  y = attrs->dtype != NULL ? graft_cast(graph, y, attrs->dtype) : y;
  out_tensors[0] = graft_contiguous(graph, y);
}

// The last step, and the view before it.
static bool find_permute(graft_tensor *result, graft_concat_permute_attrs *attrs, graft_tensor **out_source) {
  graft_fusion_node node;
  if (graft_maker_is(result, "graft.cast.v1", &node)) {
    attrs->dtype = ((const graft_cast_attrs *)node.attrs)->dtype;
  } else if (!graft_maker_is(result, "graft.copy.v1", &node)) {
    return false;
  }
  if (!graft_maker_is(node.inputs[0], "graft.permute.v1", &node)) return false;
  const graft_permute_attrs *permute = node.attrs;
  memcpy(attrs->order, permute->order, sizeof attrs->order);
  attrs->rank = permute->rank;
  *out_source = node.inputs[0];
  return true;
}

static bool propose(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_concat_permute_attrs *attrs = proposal->attrs;
  graft_fusion_node node;
  graft_tensor *source;
  if (!find_permute(result, attrs, &source)) return false;
  proposal->n_inputs = 1;
  if (graft_maker_is(source, "graft.scale.v1", &node) && ((const graft_scale_attrs *)node.attrs)->bias == 0) {
    attrs->factor = ((const graft_scale_attrs *)node.attrs)->scale;
    source = node.inputs[0];
  }
  proposal->inputs[0] = source;
  if (!graft_maker_is(source, "graft.concat.v1", &node)) return attrs->factor != 1;
  attrs->axis = ((const graft_concat_attrs *)node.attrs)->axis;
  proposal->n_inputs = node.n_inputs;
  memcpy(proposal->inputs, node.inputs, node.n_inputs * sizeof(graft_tensor *));
  return true;
}

graft_tensor *graft_concat_permute(graft_graph *graph, graft_tensor *const *tensors, uint32_t n,
                                   const graft_concat_permute_attrs *attrs) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.concat_permute.v1", attrs, sizeof *attrs, tensors, n, &y);
  return y;
}

static const graft_attr_def schema[] = {
    {.name = "axis", .offset = offsetof(graft_concat_permute_attrs, axis)},
    {.name = "factor",
     .type = GRAFT_ATTR_F64,
     .offset = offsetof(graft_concat_permute_attrs, factor),
     .default_f64 = 1},
    {.name = "order",
     .type = GRAFT_ATTR_I64S,
     .offset = offsetof(graft_concat_permute_attrs, order),
     .max_count = GRAFT_MAX_RANK,
     .count_offset = offsetof(graft_concat_permute_attrs, rank)},
    {.name = "dtype", .type = GRAFT_ATTR_DTYPE, .offset = offsetof(graft_concat_permute_attrs, dtype)},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.concat_permute.v1",
    .min_inputs = 1,
    .max_inputs = GRAFT_MAX_INPUTS,
    .n_outputs = 1,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_concat_permute_attrs),
    .infer = infer,
    .decompose = decompose,
    .cases = graft_concat_permute_cases,
    .n_cases = GRAFT_CONCAT_PERMUTE_N_CASES,
}};

static const graft_fusion_def fusions[] = {
    {.struct_size = sizeof fusions[0], .name = "concat_permute", .op = "graft.concat_permute.v1", .propose = propose}};

extern const graft_extension graft_extension_concat_permute;
const graft_extension graft_extension_concat_permute = {
    .struct_size = sizeof graft_extension_concat_permute,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.concat_permute",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
