#include "ops/conv2d/conv2d.h"

#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/conv2d/conv2d_attrs.h"
#include "ops/conv2d/conv2d_cases.h"

enum { X, WEIGHT, BIAS };

static graft_status check_attrs(const graft_conv2d_attrs *attrs, graft_error *error) {
  for (int i = 0; i < 2; ++i) {
    if (attrs->stride[i] < 1 || attrs->dilation[i] < 1) {
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "stride and dilation must be at least 1, not %lld and %lld",
                        (long long)attrs->stride[i], (long long)attrs->dilation[i]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    if (attrs->padding[i] < 0) {
      return GRAFT_FAIL(error, GRAFT_E_INVALID, "padding must not be negative, but is %lld",
                        (long long)attrs->padding[i]);
    }
  }
  if (attrs->groups >= 1) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_INVALID, "there must be at least 1 group, not %lld", (long long)attrs->groups);
}

static graft_status check_channels(const graft_infer_args *args, int64_t groups) {
  const graft_tensor_desc *x = args->inputs[X], *weight = args->inputs[WEIGHT], *bias = args->inputs[BIAS];
  if (x->rank != 4 || weight->rank != 4) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x and the weight must have 4 dimensions, not %d and %d", x->rank,
                      weight->rank);
  }
  const int64_t channels = x->shape[1], filters = weight->shape[0];
  if (channels % groups != 0 || filters % groups != 0 || weight->shape[1] != channels / groups) {
    return GRAFT_FAIL(
        args->error, GRAFT_E_SHAPE,
        "x has %lld channels in %lld groups, which a weight of %lld filters with %lld channels does not fit",
        (long long)channels, (long long)groups, (long long)filters, (long long)weight->shape[1]);
  }
  if (bias && (bias->rank != 1 || bias->shape[0] != filters)) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the bias must have one dimension of %lld elements, one per filter",
                      (long long)filters);
  }
  return GRAFT_OK;
}

// Size of the output along |axis| (0: down, 1: across).
static graft_status output_size(const graft_infer_args *args, int axis, int64_t *out_size) {
  const graft_conv2d_attrs *attrs = args->attrs;
  const int64_t size = args->inputs[X]->shape[2 + axis], kernel = args->inputs[WEIGHT]->shape[2 + axis];
  int64_t padded, reach;
  if (kernel < 1) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the kernel is empty");
  if (__builtin_add_overflow(size, attrs->padding[2 * axis], &padded) ||
      __builtin_add_overflow(padded, attrs->padding[2 * axis + 1], &padded) ||
      __builtin_mul_overflow(kernel - 1, attrs->dilation[axis], &reach)) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "padding or dilation is too large for an image of size %lld",
                      (long long)size);
  }
  if (reach >= padded) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                      "a kernel of size %lld with dilation %lld is larger than the padded image of size %lld",
                      (long long)kernel, (long long)attrs->dilation[axis], (long long)padded);
  }
  *out_size = (padded - reach - 1) / attrs->stride[axis] + 1;
  return GRAFT_OK;
}

graft_status graft_infer_conv2d(graft_infer_args *args) {
  const graft_conv2d_attrs *attrs = args->attrs;
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  GRAFT_TRY(graft_infer_require_float(args, WEIGHT, "the weight", true));
  if (args->inputs[BIAS]) GRAFT_TRY(graft_infer_require_float(args, BIAS, "the bias", true));
  GRAFT_TRY(check_attrs(attrs, args->error));
  GRAFT_TRY(check_channels(args, attrs->groups));
  const graft_tensor_desc *x = args->inputs[X];
  int64_t shape[4] = {x->shape[0], args->inputs[WEIGHT]->shape[0]};
  GRAFT_TRY(output_size(args, 0, &shape[2]));
  GRAFT_TRY(output_size(args, 1, &shape[3]));
  return graft_tensor_desc_init(x->dtype, 4, shape, args->error, &args->outputs[0]);
}

typedef struct operands {
  const graft_conv2d_attrs *attrs;
  graft_reference_floats x, weight, bias;
  const graft_tensor_desc *x_desc, *weight_desc, *y_desc;
  double *sums;  // one row of y
} operands;

// Adds one row of one plane of x, seen through one row of a kernel, to the sums.
static void add_row(const operands *o, const float *x, const float *weight) {
  const int64_t stride = o->attrs->stride[1], dilation = o->attrs->dilation[1], left = o->attrs->padding[2];
  const int64_t width = o->x_desc->shape[3], out_width = o->y_desc->shape[3];
  for (int64_t i = 0; i < o->weight_desc->shape[3]; ++i) {
    const int64_t shift = i * dilation - left;
    const int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    const int64_t last = shift < width ? (width - 1 - shift) / stride : -1;
    const double factor = (double)weight[i];
    for (int64_t j = first; j <= last && j < out_width; ++j) o->sums[j] += factor * (double)x[j * stride + shift];
  }
}

// Row |row| of plane |filter| of image |image|.
static void compute_row(const operands *o, int64_t image, int64_t filter, int64_t row) {
  const int64_t *x = o->x_desc->shape, *weight = o->weight_desc->shape;
  const int64_t group = filter / (weight[0] / o->attrs->groups);
  for (int64_t j = 0; j < o->y_desc->shape[3]; ++j) o->sums[j] = o->bias.data ? (double)o->bias.data[filter] : 0;
  for (int64_t c = 0; c < weight[1]; ++c) {
    const float *plane = o->x.data + (image * x[1] + group * weight[1] + c) * x[2] * x[3];
    for (int64_t i = 0; i < weight[2]; ++i) {
      const int64_t source = row * o->attrs->stride[0] + i * o->attrs->dilation[0] - o->attrs->padding[0];
      if (source < 0 || source >= x[2]) continue;
      add_row(o, plane + source * x[3], o->weight.data + ((filter * weight[1] + c) * weight[2] + i) * weight[3]);
    }
  }
}

static graft_status compute(const graft_reference_args *args, const operands *o) {
  const graft_tensor_desc rows = graft_reference_rows(o->y_desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    compute_row(o, index[0], index[1], index[2]);
    graft_reference_store_row(&args->outputs[0], index, o->sums);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  operands o = {.attrs = args->attrs,
                .x_desc = &args->inputs[X].desc,
                .weight_desc = &args->inputs[WEIGHT].desc,
                .y_desc = &args->outputs[0].desc};
  if (graft_tensor_desc_elements(o.y_desc) == 0) return GRAFT_OK;
  graft_status status = graft_reference_load(&args->inputs[X], args->error, &o.x);
  if (status == GRAFT_OK) status = graft_reference_load(&args->inputs[WEIGHT], args->error, &o.weight);
  if (status == GRAFT_OK) status = graft_reference_load(&args->inputs[BIAS], args->error, &o.bias);
  if (status == GRAFT_OK) {
    o.sums = graft_reference_allocate(o.y_desc->shape[3], sizeof *o.sums, args->error);
    status = o.sums ? compute(args, &o) : GRAFT_E_NO_MEMORY;
  }
  free(o.sums);
  graft_reference_floats_free(&o.bias);
  graft_reference_floats_free(&o.weight);
  graft_reference_floats_free(&o.x);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  const int64_t *weight = inputs[WEIGHT]->shape;
  return 2.0 * (double)weight[1] * (double)weight[2] * (double)weight[3] *
         (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_conv2d(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                           const graft_conv2d_attrs *attrs) {
  graft_conv2d_attrs used = attrs ? *attrs : (graft_conv2d_attrs){0};
  for (int i = 0; i < 2; ++i) {
    if (used.stride[i] == 0) used.stride[i] = 1;
    if (used.dilation[i] == 0) used.dilation[i] = 1;
  }
  if (used.groups == 0) used.groups = 1;
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.conv2d.v1", &used, sizeof used, (graft_tensor *[]){x, weight, bias}, 3, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {CONV2D_ATTRS};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.conv2d.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << BIAS,
    .attrs = attr_defs,
    .n_attrs = sizeof attr_defs / sizeof attr_defs[0],
    .attrs_bytes = sizeof(graft_conv2d_attrs),
    .infer = graft_infer_conv2d,
    .reference = reference,
    .flops = flops,
    .cases = graft_conv2d_cases,
    .n_cases = GRAFT_CONV2D_N_CASES,
}};

extern const graft_extension graft_extension_conv2d;
const graft_extension graft_extension_conv2d = {
    .struct_size = sizeof graft_extension_conv2d,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.conv2d",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
