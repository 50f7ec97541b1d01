// "acme.hardswish.v1" with its reference, and "acme.hardswish_mul.v1", which is hardswish(gate) · x: its decomposition
// says what it computes and, for the fusion rule, what to look for in graphs.
#include "acme.h"

#include <graft/ops.h>

static graft_status infer_hardswish(graft_infer_args *args) {
  if (!args->inputs[0]->dtype->is_float)
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID, "hardswish takes floating-point numbers, not %s",
                      args->inputs[0]->dtype->name);
  return graft_infer_elementwise(args);
}

static double hardswish(double x) {
  if (x <= -3) return 0;
  return x >= 3 ? x : x * (x + 3) / 6;
}

// Any strides, any plain dtype: nothing but the definition.
static graft_status reference(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  int64_t index[GRAFT_MAX_RANK] = {0};
  if (graft_tensor_desc_elements(&x->desc) == 0) return GRAFT_OK;
  do {
    double value = graft_dtype_load(x->desc.dtype, graft_view_at(x, index));
    graft_dtype_store(y->desc.dtype, graft_view_at(y, index), hardswish(value));
  } while (graft_index_next(&x->desc, index));
  return GRAFT_OK;
}

graft_tensor *acme_hardswish(graft_graph *graph, graft_tensor *x) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "acme.hardswish.v1", NULL, 0, &x, 1, &y);
  return y;
}

static graft_status infer_product(graft_infer_args *args) {
  const graft_tensor_desc *gate = args->inputs[0], *x = args->inputs[1];
  if (gate->dtype != x->dtype || !graft_tensor_desc_same_shape(gate, x))
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "gate and x must have one shape and dtype");
  return infer_hardswish(args);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)attrs, (void)n_inputs;
  out_tensors[0] = graft_mul(graph, acme_hardswish(graph, inputs[0]), inputs[1]);
}

// Tests and benchmarks are made of these.
#define INPUT(...)                                                                                           \
  {                                                                                                          \
    .dtype = GRAFT_F32, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .shape = { __VA_ARGS__ } \
  }

static const graft_op_case hardswish_cases[] = {
    {.name = "small", .n_inputs = 1, .inputs = {INPUT(2, 3, 5)}},
    {.name = "several items", .n_inputs = 1, .inputs = {INPUT(40000)}},
    {.name = "hidden layer", .n_inputs = 1, .inputs = {INPUT(288, 1536)}, .flags = GRAFT_CASE_BENCH},
};
static const graft_op_case product_cases[] = {
    {.name = "small", .n_inputs = 2, .inputs = {INPUT(3, 7), INPUT(3, 7)}},
    {.name = "hidden layer", .n_inputs = 2, .inputs = {INPUT(288, 1536), INPUT(288, 1536)}, .flags = GRAFT_CASE_BENCH},
};

const graft_op_def acme_ops[] = {
    {.struct_size = sizeof acme_ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
     .name = "acme.hardswish.v1",
     .min_inputs = 1,
     .max_inputs = 1,
     .n_outputs = 1,
     .infer = infer_hardswish,
     .reference = reference,
     .cases = hardswish_cases,
     .n_cases = 3},
    {.struct_size = sizeof acme_ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
     .name = "acme.hardswish_mul.v1",
     .min_inputs = 2,
     .max_inputs = 2,
     .n_outputs = 1,
     .infer = infer_product,
     .decompose = decompose,
     .cases = product_cases,
     .n_cases = 2},
};

const graft_fusion_def acme_fusions[] = {{.struct_size = sizeof acme_fusions[0],
                                          .name = "acme_hardswish_mul",
                                          .op = "acme.hardswish_mul.v1",
                                          .forms = product_cases,
                                          .n_forms = 1}};
