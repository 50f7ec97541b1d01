#include "ops/fused/swiglu/swiglu.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/common/reference.h"
#include "ops/fused/swiglu/swiglu_cases.h"
#include "ops/unary/unary.h"

enum { GATE, X };

graft_status graft_infer_swiglu(graft_infer_args *args) {
  const graft_tensor_desc *gate = args->inputs[GATE], *x = args->inputs[X];
  GRAFT_TRY(graft_infer_require_float(args, GATE, "the gate", false));
  if (x->dtype != gate->dtype || !graft_tensor_desc_has_shape(x, gate->rank, gate->shape)) {
    char a[96], b[96];
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "the gate %s and x %s must have one shape and dtype",
                      graft_tensor_desc_format(gate, a, sizeof a), graft_tensor_desc_format(x, b, sizeof b));
  }
  return graft_tensor_desc_init(gate->dtype, gate->rank, gate->shape, args->error, &args->outputs[0]);
}

static void decompose(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                      graft_tensor **out_tensors) {
  (void)attrs, (void)n_inputs;
  out_tensors[0] = graft_mul(graph, graft_silu(graph, inputs[GATE]), inputs[X]);
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 2.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_swiglu(graft_graph *graph, graft_tensor *gate, graft_tensor *x) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.swiglu.v1", NULL, 0, (graft_tensor *[]){gate, x}, 2, &y);
  return y;
}

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
    .name = "graft.swiglu.v1",
    .min_inputs = 2,
    .max_inputs = 2,
    .n_outputs = 1,
    .infer = graft_infer_swiglu,
    .decompose = decompose,
    .flops = flops,
    .cases = graft_swiglu_cases,
    .n_cases = GRAFT_SWIGLU_N_CASES,
}};

static const graft_fusion_def fusions[] = {{
    .struct_size = sizeof fusions[0],
    .name = "swiglu",
    .op = "graft.swiglu.v1",
    .forms = graft_swiglu_cases,
    .n_forms = GRAFT_SWIGLU_N_FORMS,
}};

extern const graft_extension graft_extension_swiglu;
const graft_extension graft_extension_swiglu = {
    .struct_size = sizeof graft_extension_swiglu,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.swiglu",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
