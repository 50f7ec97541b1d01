#include "ops/linear_i8/linear_i8_rows.h"

#include "ops/common/constructor.h"
#include "ops/common/infer.h"
#include "ops/linear_i8/linear_i8_form.h"
#include "ops/view/view.h"

graft_status graft_infer_linear_i8_rows(const graft_infer_args *args, uint32_t weight, graft_tensor_desc *out_product) {
  const graft_linear_i8_rows_attrs *attrs = args->attrs;
  const int64_t rows = attrs->linear.packed_rows, batch = attrs->batch;
  const graft_tensor_desc *in[LINEAR_I8_N_INPUTS] = {
      [LINEAR_I8_X] = args->inputs[0],
      [LINEAR_I8_WEIGHT] = args->inputs[weight],
      [LINEAR_I8_WEIGHT_SCALE] = args->inputs[weight + 1],
  };
  graft_infer_args product = *args;
  product.inputs = in;
  product.n_inputs = LINEAR_I8_N_INPUTS;
  product.outputs = out_product;
  GRAFT_TRY(graft_infer_linear_i8(&product));
  if (rows < 1) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must be packed and have at least 1 row");
  if (batch < 1 || rows % batch != 0) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "%lld rows are no batch of %lld", (long long)rows, (long long)batch);
  }
  const int64_t shape[] = {batch, rows / batch, out_product->shape[1]};
  return graft_tensor_desc_init(out_product->dtype, 3, shape, args->error, out_product);
}

graft_tensor *graft_linear_i8_rows(graft_graph *graph, graft_tensor *const *inputs, uint32_t weight,
                                   const graft_linear_i8_rows_attrs *attrs) {
  const graft_linear_i8_inputs in = {.x = inputs[0],
                                     .x_scale = graft_graph_none(),
                                     .weight = inputs[weight],
                                     .weight_scale = inputs[weight + 1],
                                     .bias = graft_graph_none()};
  graft_tensor *y = graft_linear_i8(graph, &in, &attrs->linear);
  const graft_tensor_desc *desc = graft_constructor_describe(y);
  const int64_t batch = attrs->batch > 0 ? attrs->batch : 1;
  return graft_reshape(graph, y, 3,
                       (int64_t[]){batch, attrs->linear.packed_rows / batch, desc ? desc->shape[desc->rank - 1] : -1});
}

bool graft_linear_i8_rows_capture(const graft_fusion_match *match, graft_linear_i8_rows_attrs *attrs,
                                  graft_reason *why) {
  const graft_shape_attrs *shape = match->node_attrs[1];
  attrs->linear = *(const graft_linear_i8_attrs *)match->node_attrs[0];
  attrs->batch = shape->shape[0];
  if (attrs->linear.packed_rows < 1) return graft_refuse(why, "the product's x is not packed");
  return shape->rank == 3 || graft_refuse(why, "the product is not seen as rows of a batch");
}

double graft_linear_i8_rows_flops(const graft_linear_i8_rows_attrs *attrs, const graft_tensor_desc *weight) {
  return 2.0 * (double)attrs->linear.packed_rows * (double)weight->shape[0] * (double)weight->shape[1];
}
