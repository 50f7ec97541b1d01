#include "ops/upsample_nearest/upsample_nearest.h"

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/upsample_nearest/upsample_nearest_cases.h"

graft_status graft_infer_upsample_nearest(graft_infer_args *args) {
  const graft_upsample_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  if (x->rank != 4 || x->dtype->block_elements > 1) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have 4 dimensions of single elements, not %d of type %s",
                      x->rank, x->dtype->name);
  }
  if (attrs->scale_h < 1 || attrs->scale_w < 1) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "scales must be at least 1, not %lld and %lld",
                      (long long)attrs->scale_h, (long long)attrs->scale_w);
  }
  int64_t shape[4] = {x->shape[0], x->shape[1]};
  if (__builtin_mul_overflow(x->shape[2], attrs->scale_h, &shape[2]) ||
      __builtin_mul_overflow(x->shape[3], attrs->scale_w, &shape[3])) {
    return GRAFT_FAIL(args->error, GRAFT_E_NO_MEMORY, "an image of %lld × %lld enlarged %lld × %lld times is too large",
                      (long long)x->shape[2], (long long)x->shape[3], (long long)attrs->scale_h,
                      (long long)attrs->scale_w);
  }
  return graft_tensor_desc_init(x->dtype, 4, shape, args->error, &args->outputs[0]);
}

// Every pixel of one tensor is copied to a block of the other: the same as a copy between tensors of 6 dimensions.
static graft_status reference(const graft_reference_args *args) {
  const graft_upsample_attrs *attrs = args->attrs;
  graft_view x = args->inputs[0], y = args->outputs[0];
  const int64_t *from = args->inputs[0].desc.strides, *to = args->outputs[0].desc.strides;
  const int64_t *size = args->inputs[0].desc.shape;
  x.desc = (graft_tensor_desc){.dtype = x.desc.dtype,
                               .rank = 6,
                               .shape = {size[0], size[1], size[2], attrs->scale_h, size[3], attrs->scale_w},
                               .strides = {from[0], from[1], from[2], 0, from[3], 0}};
  y.desc = x.desc;
  const int64_t strides[6] = {to[0], to[1], to[2] * attrs->scale_h, to[2], to[3] * attrs->scale_w, to[3]};
  for (int d = 0; d < 6; ++d) y.desc.strides[d] = strides[d];
  graft_reference_copy(&x, &y);
  return GRAFT_OK;
}

graft_tensor *graft_upsample_nearest(graft_graph *graph, graft_tensor *x, int64_t scale_h, int64_t scale_w) {
  const graft_upsample_attrs attrs = {scale_h, scale_w};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.upsample_nearest.v1", &attrs, sizeof attrs, &x, 1, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {
    {.name = "scale_h", .offset = offsetof(graft_upsample_attrs, scale_h), .default_i64 = 2},
    {.name = "scale_w", .offset = offsetof(graft_upsample_attrs, scale_w), .default_i64 = 2},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.upsample_nearest.v1",
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 1,
    .attrs = attr_defs,
    .n_attrs = sizeof attr_defs / sizeof attr_defs[0],
    .attrs_bytes = sizeof(graft_upsample_attrs),
    .infer = graft_infer_upsample_nearest,
    .reference = reference,
    .cases = graft_upsample_nearest_cases,
    .n_cases = GRAFT_UPSAMPLE_NEAREST_N_CASES,
}};

extern const graft_extension graft_extension_upsample_nearest;
const graft_extension graft_extension_upsample_nearest = {
    .struct_size = sizeof graft_extension_upsample_nearest,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.upsample_nearest",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
