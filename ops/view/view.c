#include "ops/view/view.h"

#include "graft/extension.h"
#include "ops/common/constructor.h"
#include "ops/copy/copy.h"

enum { TEXT_BYTES = 160 };

static bool is_block_type(const graft_tensor_desc *desc) {
  return desc->dtype->block_elements > 1;
}

// Replaces a -1 in |shape| by what is left of |n| elements.
static graft_status resolve_rest(const graft_shape_attrs *attrs, int64_t n, graft_error *error, int64_t *shape) {
  int32_t rest = -1;
  int64_t product = 1;
  for (int32_t d = 0; d < attrs->rank; ++d) {
    shape[d] = attrs->shape[d];
    if (shape[d] == -1 && rest < 0) {
      rest = d;
    } else if (shape[d] < 0) {
      return GRAFT_FAIL(error, GRAFT_E_SHAPE, "dimension %d of the new shape is %lld; only one may be -1", d,
                        (long long)shape[d]);
    } else if (__builtin_mul_overflow(product, shape[d], &product)) {
      return GRAFT_FAIL(error, GRAFT_E_SHAPE, "the new shape has more elements than can be counted");
    }
  }
  if (rest >= 0 && (product == 0 || n % product != 0)) {
    return GRAFT_FAIL(error, GRAFT_E_SHAPE,
                      "%lld elements cannot be divided among the other dimensions, which hold %lld", (long long)n,
                      (long long)product);
  }
  if (rest >= 0) {
    shape[rest] = n / product;
  } else if (product != n) {
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "the new shape has %lld elements, the tensor %lld", (long long)product,
                      (long long)n);
  }
  return GRAFT_OK;
}

// Number of units (elements; blocks along the last dimension of a block type) of dimension |d|.
static int64_t units_of(const graft_tensor_desc *desc, int32_t d) {
  return d == desc->rank - 1 ? desc->shape[d] / desc->dtype->block_elements : desc->shape[d];
}

// Finds strides with which |y| (of as many elements, not 0) walks x in row-major order; false where there are none.
static bool view_strides(const graft_tensor_desc *x, graft_tensor_desc *y) {
  int32_t to = y->rank - 1;
  for (int32_t from = x->rank - 1; from >= 0;) {
    int64_t stride = x->strides[from], left = units_of(x, from), next = stride * left;
    for (--from; from >= 0 && (left == 1 || x->shape[from] == 1 || x->strides[from] == next); --from) {
      if (x->shape[from] == 1) continue;
      if (left == 1) stride = x->strides[from];
      left *= x->shape[from];
      next = stride * left;
    }
    for (; to >= 0 && (left > 1 || from < 0); --to) {
      const int64_t units = units_of(y, to);
      if (left % units != 0) return false;
      y->strides[to] = stride;
      stride *= units;
      left /= units;
    }
  }
  for (; to >= 0; --to) y->strides[to] = y->dtype->block_bytes;
  if (is_block_type(y) && units_of(y, y->rank - 1) == 1) y->strides[y->rank - 1] = y->dtype->block_bytes;
  return !is_block_type(y) || y->strides[y->rank - 1] == y->dtype->block_bytes;
}

// Describes |x| in a new shape: a contiguous tensor, unless |*out_is_view|.
static graft_status describe_reshape(const graft_tensor_desc *x, const graft_shape_attrs *attrs, graft_error *error,
                                     graft_tensor_desc *out_desc, bool *out_is_view) {
  int64_t shape[GRAFT_MAX_RANK];
  graft_tensor_desc desc;
  if (attrs->rank < 0 || attrs->rank > GRAFT_MAX_RANK) {
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "rank %d is outside 0 … %d", attrs->rank, GRAFT_MAX_RANK);
  }
  GRAFT_TRY(resolve_rest(attrs, graft_tensor_desc_elements(x), error, shape));
  GRAFT_TRY(graft_tensor_desc_init(x->dtype, attrs->rank, shape, error, &desc));
  graft_tensor_desc view = desc;
  *out_is_view = graft_tensor_desc_elements(x) == 0 || view_strides(x, &view);
  *out_desc = *out_is_view ? view : desc;
  return GRAFT_OK;
}

static graft_status infer_reshape(graft_infer_args *args) {
  bool is_view;
  GRAFT_TRY(describe_reshape(args->inputs[0], args->attrs, args->error, &args->outputs[0], &is_view));
  if (is_view) return GRAFT_OK;
  char text[TEXT_BYTES];
  return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%s cannot be seen in the new shape without copying it first",
                    graft_tensor_desc_format(args->inputs[0], text, sizeof text));
}

static graft_status infer_permute(graft_infer_args *args) {
  const graft_permute_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  if (attrs->rank != x->rank) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "an order of rank %d does not fit a tensor of rank %d", attrs->rank,
                      x->rank);
  }
  uint32_t seen = 0;
  graft_tensor_desc y = {.dtype = x->dtype, .rank = x->rank};
  for (int32_t d = 0; d < x->rank; ++d) {
    const int64_t from = attrs->order[d];
    if (from < 0 || from >= x->rank || (seen >> from & 1)) {
      return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the order names dimension %lld of %d twice or beyond its end",
                        (long long)from, x->rank);
    }
    seen |= 1u << from;
    y.shape[d] = x->shape[from];
    y.strides[d] = x->strides[from];
  }
  if (is_block_type(x) && attrs->order[x->rank - 1] != x->rank - 1) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the last dimension holds blocks of type %s and must stay last",
                      x->dtype->name);
  }
  args->outputs[0] = y;
  return GRAFT_OK;
}

static graft_status infer_slice(graft_infer_args *args) {
  const graft_slice_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  if (attrs->axis < 0 || attrs->axis >= x->rank) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "axis %lld is outside a tensor of rank %d", (long long)attrs->axis,
                      x->rank);
  }
  const int32_t axis = (int32_t)attrs->axis;
  if (attrs->start < 0 || attrs->end < attrs->start || attrs->end > x->shape[axis]) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the range %lld … %lld is outside dimension %d of size %lld",
                      (long long)attrs->start, (long long)attrs->end, axis, (long long)x->shape[axis]);
  }
  const int64_t unit = axis == x->rank - 1 ? x->dtype->block_elements : 1;
  if (attrs->start % unit != 0 || attrs->end % unit != 0) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the range %lld … %lld splits a block of %lld elements of type %s",
                      (long long)attrs->start, (long long)attrs->end, (long long)unit, x->dtype->name);
  }
  args->outputs[0] = *x;
  args->outputs[0].shape[axis] = attrs->end - attrs->start;
  // What is empty begins at the start, since its own may lie beyond the end of the storage.
  const bool is_empty = graft_tensor_desc_elements(&args->outputs[0]) == 0;
  args->view_offset = is_empty ? 0 : attrs->start / unit * x->strides[axis];
  return GRAFT_OK;
}

// Describes dimension |to| of |y|, which dimension |from| (negative: none) of |x| is repeated to. Size -1 keeps it.
static graft_status expand_dim(const graft_tensor_desc *x, int32_t from, graft_tensor_desc *y, int32_t to,
                               graft_error *error) {
  const int64_t size = from < 0 ? 1 : x->shape[from];
  if (y->shape[to] == -1 && from >= 0) y->shape[to] = size;
  if (y->shape[to] < 0 || (size != 1 && size != y->shape[to])) {
    return GRAFT_FAIL(error, GRAFT_E_SHAPE, "dimension %d of size %lld cannot be repeated to %lld", to, (long long)size,
                      (long long)y->shape[to]);
  }
  y->strides[to] = from < 0 || size != y->shape[to] ? 0 : x->strides[from];
  return GRAFT_OK;
}

static graft_status infer_expand(graft_infer_args *args) {
  const graft_shape_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[0];
  if (attrs->rank < x->rank || attrs->rank > GRAFT_MAX_RANK) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "a tensor of rank %d cannot be expanded to rank %d", x->rank,
                      attrs->rank);
  }
  graft_tensor_desc y = {.dtype = x->dtype, .rank = attrs->rank}, plain;
  for (int32_t d = 0; d < y.rank; ++d) {
    y.shape[d] = attrs->shape[d];
    GRAFT_TRY(expand_dim(x, d - (y.rank - x->rank), &y, d, args->error));
  }
  // Only for its checks: the number of elements must be countable, and a block type's rows whole.
  GRAFT_TRY(graft_tensor_desc_init(y.dtype, y.rank, y.shape, args->error, &plain));
  args->outputs[0] = y;
  return GRAFT_OK;
}

static graft_tensor *apply(graft_graph *graph, const char *op, const void *attrs, size_t attrs_bytes, graft_tensor *x) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, op, attrs, attrs_bytes, &x, 1, &y);
  return y;
}

// Copies |shape| into attributes; false with the failure recorded where |rank| is out of range.
static bool set_shape(graft_graph *graph, int32_t rank, const int64_t *shape, graft_shape_attrs *out_attrs) {
  if (rank < 0 || rank > GRAFT_MAX_RANK) {
    GRAFT_GRAPH_FAIL(graph, GRAFT_E_SHAPE, "rank %d is outside 0 … %d", rank, GRAFT_MAX_RANK);
    return false;
  }
  *out_attrs = (graft_shape_attrs){.rank = rank};
  for (int32_t d = 0; d < rank; ++d) out_attrs->shape[d] = shape[d];
  return true;
}

graft_tensor *graft_reshape(graft_graph *graph, graft_tensor *x, int32_t rank, const int64_t *shape) {
  graft_shape_attrs attrs;
  if (!set_shape(graph, rank, shape, &attrs)) return NULL;
  const graft_tensor_desc *desc = graft_constructor_describe(x);
  graft_tensor_desc y;
  bool is_view = true;
  if (desc && describe_reshape(desc, &attrs, NULL, &y, &is_view) == GRAFT_OK && !is_view)
    x = graft_contiguous(graph, x);
  return apply(graph, "graft.reshape.v1", &attrs, sizeof attrs, x);
}

graft_tensor *graft_permute(graft_graph *graph, graft_tensor *x, const int32_t *order) {
  const graft_tensor_desc *desc = graft_constructor_describe(x);
  graft_permute_attrs attrs = {.rank = desc ? desc->rank : 0};
  for (int32_t d = 0; d < attrs.rank; ++d) attrs.order[d] = order[d];
  return apply(graph, "graft.permute.v1", &attrs, sizeof attrs, x);
}

graft_tensor *graft_slice(graft_graph *graph, graft_tensor *x, int32_t axis, int64_t start, int64_t end) {
  const graft_slice_attrs attrs = {graft_constructor_axis(graft_constructor_describe(x), axis), start, end};
  return apply(graph, "graft.slice.v1", &attrs, sizeof attrs, x);
}

graft_tensor *graft_expand(graft_graph *graph, graft_tensor *x, int32_t rank, const int64_t *shape) {
  graft_shape_attrs attrs;
  if (!set_shape(graph, rank, shape, &attrs)) return NULL;
  return apply(graph, "graft.expand.v1", &attrs, sizeof attrs, x);
}

static const graft_attr_def shape_attrs[] = {{.name = "shape",
                                              .type = GRAFT_ATTR_I64S,
                                              .offset = offsetof(graft_shape_attrs, shape),
                                              .max_count = GRAFT_MAX_RANK,
                                              .count_offset = offsetof(graft_shape_attrs, rank)}};
static const graft_attr_def permute_attrs[] = {{.name = "order",
                                                .type = GRAFT_ATTR_I64S,
                                                .offset = offsetof(graft_permute_attrs, order),
                                                .max_count = GRAFT_MAX_RANK,
                                                .count_offset = offsetof(graft_permute_attrs, rank)}};
static const graft_attr_def slice_attrs[] = {
    {.name = "axis", .offset = offsetof(graft_slice_attrs, axis)},
    {.name = "start", .offset = offsetof(graft_slice_attrs, start)},
    {.name = "end", .offset = offsetof(graft_slice_attrs, end)},
};

static const graft_op_def ops[] = {
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW,
     .name = "graft.reshape.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .attrs = shape_attrs,
     .n_attrs = 1,
     .attrs_bytes = sizeof(graft_shape_attrs),
     .infer = infer_reshape},
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW,
     .name = "graft.permute.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .attrs = permute_attrs,
     .n_attrs = 1,
     .attrs_bytes = sizeof(graft_permute_attrs),
     .infer = infer_permute},
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW,
     .name = "graft.slice.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .attrs = slice_attrs,
     .n_attrs = sizeof slice_attrs / sizeof slice_attrs[0],
     .attrs_bytes = sizeof(graft_slice_attrs),
     .infer = infer_slice},
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_VIEW,
     .name = "graft.expand.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .attrs = shape_attrs,
     .n_attrs = 1,
     .attrs_bytes = sizeof(graft_shape_attrs),
     .infer = infer_expand},
};

extern const graft_extension graft_extension_view;
const graft_extension graft_extension_view = {
    .struct_size = sizeof graft_extension_view,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.view",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
