#include "ops/group_norm/group_norm.h"

#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/group_norm/group_norm_attrs.h"
#include "ops/group_norm/group_norm_cases.h"

enum { X, WEIGHT, BIAS };

// |input|, called |name| in the sentence, is left out or has one element for each of |n_channels|.
static graft_status check_per_channel(const graft_infer_args *args, uint32_t input, const char *name,
                                      int64_t n_channels) {
  const graft_tensor_desc *desc = args->inputs[input];
  if (!desc) return GRAFT_OK;
  GRAFT_TRY(graft_infer_require_float(args, input, name, false));
  if (desc->rank == 1 && desc->shape[0] == n_channels) return GRAFT_OK;
  return GRAFT_FAIL(args->error, GRAFT_E_SHAPE,
                    "%s must have one dimension of %lld elements, as many as x has channels", name,
                    (long long)n_channels);
}

graft_status graft_infer_group_norm(graft_infer_args *args) {
  const graft_group_norm_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[X];
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  if (!(attrs->eps >= 0 && isfinite(attrs->eps))) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "eps is %g, but must be finite and not negative", attrs->eps);
  }
  if (x->rank < 2) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have at least 2 dimensions (items, channels), not %d",
                      x->rank);
  }
  const int64_t n_channels = x->shape[1];
  if (attrs->n_groups < 1 || n_channels % attrs->n_groups != 0) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "%lld channels cannot be divided into %lld groups",
                      (long long)n_channels, (long long)attrs->n_groups);
  }
  GRAFT_TRY(check_per_channel(args, WEIGHT, "the weight", n_channels));
  GRAFT_TRY(check_per_channel(args, BIAS, "the bias", n_channels));
  return graft_tensor_desc_init(x->dtype, x->rank, x->shape, args->error, &args->outputs[0]);
}

typedef struct group {
  double mean, factor;
} group;

typedef struct operands {
  graft_reference_floats x, weight, bias;
  int64_t n_channels, channel_size;  // elements of one channel of one item
  int64_t n_all_groups, group_size;  // groups of all items; elements of one
  group *groups;
  double *row;
} operands;

static graft_status measure_groups(const graft_reference_args *args, const operands *o, double eps) {
  for (int64_t g = 0; g < o->n_all_groups; ++g) {
    GRAFT_TRY(graft_reference_check(args));
    const float *x = o->x.data + g * o->group_size;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < o->group_size; ++i) sum += (double)x[i];
    const double mean = sum / (double)o->group_size;
    for (int64_t i = 0; i < o->group_size; ++i) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    o->groups[g] = (group){.mean = mean, .factor = 1 / sqrt(squares / (double)o->group_size + eps)};
  }
  return GRAFT_OK;
}

// Element |i| in row-major order.
static double normalised(const operands *o, int64_t i) {
  const group *g = &o->groups[i / o->group_size];
  const int64_t channel = i / o->channel_size % o->n_channels;
  const double weight = o->weight.data ? (double)o->weight.data[channel] : 1;
  return ((double)o->x.data[i] - g->mean) * g->factor * weight + (o->bias.data ? (double)o->bias.data[channel] : 0);
}

static graft_status normalise(const graft_reference_args *args, const operands *o) {
  const graft_view *y = &args->outputs[0];
  const int64_t n = graft_reference_row_length(&y->desc);
  const graft_tensor_desc rows = graft_reference_rows(&y->desc);
  int64_t index[GRAFT_MAX_RANK] = {0}, begin = 0;
  do {
    GRAFT_TRY(graft_reference_check(args));
    for (int64_t i = 0; i < n; ++i) o->row[i] = normalised(o, begin + i);
    graft_reference_store_row(y, index, o->row);
    begin += n;
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status load(const graft_reference_args *args, operands *o) {
  GRAFT_TRY(graft_reference_load(&args->inputs[X], args->error, &o->x));
  GRAFT_TRY(graft_reference_load(&args->inputs[WEIGHT], args->error, &o->weight));
  GRAFT_TRY(graft_reference_load(&args->inputs[BIAS], args->error, &o->bias));
  o->groups = graft_reference_allocate(o->n_all_groups, sizeof *o->groups, args->error);
  if (!o->groups) return GRAFT_E_NO_MEMORY;
  o->row = graft_reference_allocate(graft_reference_row_length(&args->inputs[X].desc), sizeof *o->row, args->error);
  return o->row ? GRAFT_OK : GRAFT_E_NO_MEMORY;
}

static graft_status reference(const graft_reference_args *args) {
  const graft_group_norm_attrs *attrs = args->attrs;
  const graft_tensor_desc *desc = &args->inputs[X].desc;
  const int64_t n = graft_tensor_desc_elements(desc);
  if (n == 0) return GRAFT_OK;
  operands o = {.n_channels = desc->shape[1],
                .channel_size = n / (desc->shape[0] * desc->shape[1]),
                .n_all_groups = desc->shape[0] * attrs->n_groups,
                .group_size = n / (desc->shape[0] * attrs->n_groups)};
  graft_status status = load(args, &o);
  if (status == GRAFT_OK) status = measure_groups(args, &o, attrs->eps);
  if (status == GRAFT_OK) status = normalise(args, &o);
  free(o.row);
  free(o.groups);
  graft_reference_floats_free(&o.bias);
  graft_reference_floats_free(&o.weight);
  graft_reference_floats_free(&o.x);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 8.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_group_norm(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias,
                               int64_t n_groups, double eps) {
  const graft_group_norm_attrs attrs = {.n_groups = n_groups, .eps = eps};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.group_norm.v1", &attrs, sizeof attrs, (graft_tensor *[]){x, weight, bias}, 3, &y);
  return y;
}

static const graft_attr_def schema[] = {GROUP_NORM_ATTRS};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.group_norm.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << WEIGHT | 1u << BIAS,
    .attrs = schema,
    .n_attrs = sizeof schema / sizeof schema[0],
    .attrs_bytes = sizeof(graft_group_norm_attrs),
    .infer = graft_infer_group_norm,
    .reference = reference,
    .flops = flops,
    .cases = graft_group_norm_cases,
    .n_cases = GRAFT_GROUP_NORM_N_CASES,
}};

extern const graft_extension graft_extension_group_norm;
const graft_extension graft_extension_group_norm = {
    .struct_size = sizeof graft_extension_group_norm,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.group_norm",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
