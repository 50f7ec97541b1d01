#include "ops/fused/upsample_conv2d/upsample_conv2d.h"

#include "graft/extension.h"
#include "ops/common/infer.h"
#include "ops/conv2d/conv2d.h"
#include "ops/fused/upsample_conv2d/upsample_conv2d_cases.h"
#include "ops/upsample_nearest/upsample_nearest.h"

enum { X, WEIGHT, BIAS };

static const graft_conv2d_attrs same = {.stride = {1, 1}, .padding = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1};

static graft_status infer(graft_infer_args *args) {
  const graft_tensor_desc *weight = args->inputs[WEIGHT];
  graft_tensor_desc enlarged;
  graft_infer_args upsample = *args, conv = *args;
  upsample.attrs = &(graft_upsample_attrs){2, 2};
  upsample.n_inputs = 1;
  upsample.outputs = &enlarged;
  GRAFT_TRY(graft_infer_upsample_nearest(&upsample));
  if (weight->rank != 4 || weight->shape[2] != 3 || weight->shape[3] != 3) {
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the weight must be [filters, channels, 3, 3]");
  }
  conv.attrs = &same;
  conv.inputs = (const graft_tensor_desc *[]){&enlarged, weight, args->inputs[BIAS]};
  return graft_infer_conv2d(&conv);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)attrs, (void)n_inputs;
  graft_tensor *x = graft_upsample_nearest(graph, inputs[X], 2, 2);
  out_tensors[0] = graft_conv2d(graph, x, inputs[WEIGHT], inputs[BIAS], &same);
}

// Pixels that are equal are multiplied once: two and a quarter times for each result and channel instead of nine times.
static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return 2.0 * 2.25 * (double)inputs[WEIGHT]->shape[1] * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_upsample_conv2d(graft_graph *graph, graft_tensor *x, graft_tensor *weight, graft_tensor *bias) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.upsample_conv2d.v1", NULL, 0, (graft_tensor *[]){x, weight, bias}, 3, &y);
  return y;
}

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.upsample_conv2d.v1",
    .min_inputs = 3,
    .max_inputs = 3,
    .n_outputs = 1,
    .optional_inputs = 1u << BIAS,
    .infer = infer,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_upsample_conv2d_cases,
    .n_cases = GRAFT_UPSAMPLE_CONV2D_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "upsample_conv2d",
    .op = "graft.upsample_conv2d.v1",
    .forms = graft_upsample_conv2d_cases,
    .n_forms = GRAFT_UPSAMPLE_CONV2D_N_FORMS,
}};

extern const graft_extension graft_extension_upsample_conv2d;
const graft_extension graft_extension_upsample_conv2d = {
    .struct_size = sizeof graft_extension_upsample_conv2d,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.upsample_conv2d",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
