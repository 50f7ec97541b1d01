#include "ops/linear_i8/linear_i8.h"

#include <stdlib.h>
#include <string.h>

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/common/quantize.h"
#include "ops/common/reference.h"
#include "ops/linear_i8/linear_i8_attrs.h"
#include "ops/linear_i8/linear_i8_cases.h"
#include "ops/linear_i8/linear_i8_form.h"

enum { X = LINEAR_I8_X, X_SCALE, WEIGHT, WEIGHT_SCALE, BIAS };

static graft_status fail_shape(const graft_infer_args *args, const char *sentence) {
  return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%s", sentence);
}

static graft_status check_types(const graft_infer_args *args) {
  const graft_tensor_desc *const *in = args->inputs;
  if (in[WEIGHT]->rank != 2) return fail_shape(args, "the weight must have 2 dimensions");
  if (in[WEIGHT]->dtype != GRAFT_I8) {
    GRAFT_TRY(graft_infer_require_float(args, WEIGHT, "the weight, where it is not int8,", false));
    if (in[WEIGHT_SCALE]) return fail_shape(args, "a weight of a float type has no scale");
  }
  if (in[X]->dtype != GRAFT_I8) GRAFT_TRY(graft_infer_require_float(args, X, "x, where it is not int8,", false));
  if (in[X]->rank < 1) return fail_shape(args, "x must have at least 1 dimension");
  if (in[X_SCALE]) GRAFT_TRY(graft_infer_require_float(args, X_SCALE, "the scale of x", false));
  if (in[WEIGHT_SCALE]) GRAFT_TRY(graft_infer_require_float(args, WEIGHT_SCALE, "the weight's scale", false));
  if (in[BIAS]) GRAFT_TRY(graft_infer_require_float(args, BIAS, "the bias", true));
  const graft_dtype y = ((const graft_linear_i8_attrs *)args->attrs)->y_dtype;
  if (y && (!y->is_float || y->block_elements > 1)) return fail_shape(args, "the result must be of a plain float type");
  return GRAFT_OK;
}

static graft_status check_x(const graft_infer_args *args, linear_i8_form form) {
  const graft_linear_i8_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[X], *scale = args->inputs[X_SCALE];
  const int64_t k = args->inputs[WEIGHT]->shape[1], width = x->shape[x->rank - 1];
  if ((form == LINEAR_I8_SEPARATE) != (scale != NULL)) {
    return fail_shape(args, "a scale of x is given where x is int8 and not packed, and only there");
  }
  if (width != (form == LINEAR_I8_PACKED ? k + 4 : k)) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "rows of x have %lld elements, but the weight takes %lld%s",
                      (long long)width, (long long)k, form == LINEAR_I8_PACKED ? " and 4 for the scale" : "");
  }
  if (form == LINEAR_I8_FLOAT) {
    return attrs->packed_rows == 0 ? GRAFT_OK : fail_shape(args, "x of a float type is not packed");
  }
  if (form == LINEAR_I8_PACKED) {
    const bool is_right = x->rank == 2 && x->shape[0] % 4 == 0 && attrs->packed_rows <= x->shape[0];
    return is_right ? GRAFT_OK : fail_shape(args, "a packed x has 2 dimensions and a multiple of four rows");
  }
  if (attrs->packed_rows < 0) return fail_shape(args, "the number of packed rows is negative");
  const int64_t n_scales = graft_tensor_desc_elements(scale);
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < x->rank; ++d) rows *= x->shape[d];
  return n_scales == rows || n_scales == 1 ? GRAFT_OK : fail_shape(args, "x has neither 1 scale nor 1 for each row");
}

graft_status graft_infer_linear_i8(graft_infer_args *args) {
  GRAFT_TRY(check_types(args));
  const graft_linear_i8_attrs *attrs = args->attrs;
  const graft_tensor_desc *x = args->inputs[X], *scale = args->inputs[WEIGHT_SCALE], *bias = args->inputs[BIAS];
  const linear_i8_form form = linear_i8_form_of(attrs, x->dtype);
  GRAFT_TRY(check_x(args, form));
  if (form == LINEAR_I8_FLOAT || args->inputs[WEIGHT]->dtype->is_float) {
    GRAFT_TRY(graft_quantize_check_group(attrs->group, args->inputs[WEIGHT]->shape[1], args->error));
  }
  const int64_t n = args->inputs[WEIGHT]->shape[0];
  const int64_t n_scales = scale ? graft_tensor_desc_elements(scale) : 1;
  if (n_scales != 1 && (n_scales != n || scale->shape[0] != n)) {
    return fail_shape(args, "the weight has neither 1 scale nor 1 for each row");
  }
  if (bias && (bias->rank != 1 || bias->shape[0] != n)) {
    return fail_shape(args, "the bias must have one element for each row of the weight");
  }
  int64_t shape[GRAFT_MAX_RANK];
  memcpy(shape, x->shape, sizeof shape);
  if (form == LINEAR_I8_PACKED) shape[0] = attrs->packed_rows;
  shape[x->rank - 1] = n;
  const graft_dtype dtype = attrs->y_dtype ? attrs->y_dtype : form == LINEAR_I8_FLOAT ? x->dtype : GRAFT_F32;
  return graft_tensor_desc_init(dtype, x->rank, shape, args->error, &args->outputs[0]);
}

typedef struct operands {
  graft_reference_floats x_scale, weight_scale, bias;
  float *weight;  // bytes as numbers
  int64_t n_x_scales, n_weight_scales;
  float *x;  // one row
  int8_t *q;
  double *y;  // one row
} operands;

// Byte |at| of a packed x.
static int8_t packed_byte(const graft_view *x, int64_t at) {
  const int64_t columns = x->desc.shape[1], index[GRAFT_MAX_RANK] = {at / columns, at % columns};
  return *(const int8_t *)graft_view_at(x, index);
}

static float load_packed(const graft_view *x, int64_t row, int64_t k, int8_t *q) {
  for (int64_t i = 0; i < k; ++i) q[i] = packed_byte(x, row * k + i);
  int8_t bytes[sizeof(float)];
  for (int64_t i = 0; i < 4; ++i) bytes[i] = packed_byte(x, x->desc.shape[0] * k + 4 * row + i);
  float scale;
  memcpy(&scale, bytes, sizeof scale);
  return scale;
}

// Fills o->q with row number |row| and returns its scale.
static float load_row(const graft_reference_args *args, const int64_t *index, int64_t row, int64_t k,
                      const operands *o) {
  const graft_linear_i8_attrs *attrs = args->attrs;
  const graft_view *x = &args->inputs[X];
  const linear_i8_form form = linear_i8_form_of(attrs, x->desc.dtype);
  if (form == LINEAR_I8_PACKED) return load_packed(x, row, k, o->q);
  graft_reference_load_row(x, index, o->x);
  if (form == LINEAR_I8_FLOAT) {
    return graft_quantize_reference_row(o->x, k, attrs->group, attrs->grid == GRAFT_QUANTIZE_BF16, o->q);
  }
  for (int64_t i = 0; i < k; ++i) o->q[i] = (int8_t)o->x[i];
  return o->x_scale.data[o->n_x_scales == 1 ? 0 : row];
}

static float rounded(graft_dtype dtype, float value) {
  float out;
  char bytes[8];
  dtype->from_f32(&value, bytes, 1);
  dtype->to_f32(bytes, &out, 1);
  return out;
}

static float to_number(double sum, float x_scale, int64_t j, const operands *o, graft_dtype comfy) {
  const float scale = o->weight_scale.data ? o->weight_scale.data[o->n_weight_scales == 1 ? 0 : j] : 1;
  const float bias = o->bias.data ? o->bias.data[j] : 0;
  if (comfy) {
    const float product = rounded(comfy, (float)sum * (x_scale * scale));
    return o->bias.data ? product + rounded(comfy, bias) : product;
  }
  const float product = (float)sum * x_scale * scale;
  return o->bias.data ? product + bias : product;
}

static void multiply_row(const operands *o, int64_t n, int64_t k, float x_scale, graft_dtype comfy) {
  for (int64_t j = 0; j < n; ++j) {
    const float *weight = o->weight + j * k;
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += (double)o->q[i] * (double)weight[i];
    o->y[j] = (double)to_number(sum, x_scale, j, o, comfy);
  }
}

static graft_status multiply(const graft_reference_args *args, const operands *o) {
  const graft_linear_i8_attrs *attrs = args->attrs;
  const graft_view *y = &args->outputs[0];
  const graft_dtype comfy = attrs->order == GRAFT_LINEAR_I8_COMFY ? y->desc.dtype : NULL;
  const int64_t n = args->inputs[WEIGHT].desc.shape[0], k = args->inputs[WEIGHT].desc.shape[1];
  const graft_tensor_desc rows = graft_reference_rows(&y->desc);
  int64_t index[GRAFT_MAX_RANK] = {0}, row = 0;
  do {
    GRAFT_TRY(graft_reference_check(args));
    multiply_row(o, n, k, load_row(args, index, row++, k, o), comfy);
    graft_reference_store_row(y, index, o->y);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status load_weight(const graft_reference_args *args, operands *o) {
  const graft_linear_i8_attrs *attrs = args->attrs;
  const graft_view *weight = &args->inputs[WEIGHT];
  const int64_t n = weight->desc.shape[0], k = weight->desc.shape[1];
  o->weight = graft_reference_allocate(n * k, sizeof(float), args->error);
  if (!o->weight) return GRAFT_E_NO_MEMORY;
  for (int64_t j = 0; j < n; ++j) graft_reference_load_row(weight, (int64_t[GRAFT_MAX_RANK]){j}, o->weight + j * k);
  if (!weight->desc.dtype->is_float) return GRAFT_OK;
  float *scales = graft_reference_allocate(n, sizeof(float), args->error);
  if (!scales) return GRAFT_E_NO_MEMORY;
  o->weight_scale = (graft_reference_floats){.data = scales, .owned = scales};
  o->n_weight_scales = n;
  for (int64_t j = 0; j < n; ++j) {
    float *row = o->weight + j * k;
    scales[j] = graft_quantize_reference_row(row, k, attrs->group, attrs->grid == GRAFT_QUANTIZE_BF16, o->q);
    for (int64_t i = 0; i < k; ++i) row[i] = o->q[i];
  }
  return GRAFT_OK;
}

static graft_status load(const graft_reference_args *args, operands *o) {
  const graft_view *in = args->inputs;
  GRAFT_TRY(graft_reference_load(&in[X_SCALE], args->error, &o->x_scale));
  GRAFT_TRY(graft_reference_load(&in[WEIGHT_SCALE], args->error, &o->weight_scale));
  GRAFT_TRY(graft_reference_load(&in[BIAS], args->error, &o->bias));
  o->n_x_scales = in[X_SCALE].data ? graft_tensor_desc_elements(&in[X_SCALE].desc) : 0;
  o->n_weight_scales = in[WEIGHT_SCALE].data ? graft_tensor_desc_elements(&in[WEIGHT_SCALE].desc) : 0;
  const int64_t n = in[WEIGHT].desc.shape[0], k = in[WEIGHT].desc.shape[1];
  o->x = graft_reference_allocate(k, sizeof(float), args->error);
  o->q = o->x ? graft_reference_allocate(k, 1, args->error) : NULL;
  o->y = o->q ? graft_reference_allocate(n, sizeof(double), args->error) : NULL;
  return o->y ? load_weight(args, o) : GRAFT_E_NO_MEMORY;
}

static graft_status reference(const graft_reference_args *args) {
  if (graft_tensor_desc_elements(&args->outputs[0].desc) == 0) return GRAFT_OK;
  operands o = {0};
  graft_status status = load(args, &o);
  if (status == GRAFT_OK) status = multiply(args, &o);
  free(o.y);
  free(o.q);
  free(o.x);
  graft_reference_floats_free(&o.bias);
  graft_reference_floats_free(&o.weight_scale);
  free(o.weight);
  graft_reference_floats_free(&o.x_scale);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return 2.0 * (double)inputs[WEIGHT]->shape[1] * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_linear_i8(graft_graph *graph, const graft_linear_i8_inputs *inputs,
                              const graft_linear_i8_attrs *attrs) {
  graft_tensor *const in[] = {inputs->x, inputs->x_scale, inputs->weight, inputs->weight_scale, inputs->bias};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.linear_i8.v1", attrs, sizeof *attrs, in, LINEAR_I8_N_INPUTS, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {LINEAR_I8_ATTRS};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.linear_i8.v1",
    .min_inputs = LINEAR_I8_N_INPUTS,
    .max_inputs = LINEAR_I8_N_INPUTS,
    .n_outputs = 1,
    .optional_inputs = 1u << X_SCALE | 1u << WEIGHT_SCALE | 1u << BIAS,
    .attrs = attr_defs,
    .n_attrs = sizeof attr_defs / sizeof attr_defs[0],
    .attrs_bytes = sizeof(graft_linear_i8_attrs),
    .infer = graft_infer_linear_i8,
    .reference = reference,
    .flops = flops,
    .cases = graft_linear_i8_cases,
    .n_cases = GRAFT_LINEAR_I8_N_CASES,
}};

extern const graft_extension graft_extension_linear_i8;
const graft_extension graft_extension_linear_i8 = {
    .struct_size = sizeof graft_extension_linear_i8,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.linear_i8",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
