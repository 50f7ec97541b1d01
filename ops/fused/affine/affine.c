#include "ops/fused/affine/affine.h"

#include "graft/extension.h"
#include "ops/binary/binary.h"
#include "ops/common/infer.h"
#include "ops/common/maker.h"
#include "ops/common/reference.h"
#include "ops/fused/affine/affine_cases.h"
#include "ops/unary/unary.h"

enum { X, FACTOR, ADDEND, N_INPUTS };

static graft_status infer(graft_infer_args *args, const char *factor, const char *addend) {
  const graft_tensor_desc *x = args->inputs[X];
  GRAFT_TRY(graft_infer_require_float(args, X, "x", false));
  GRAFT_TRY(graft_infer_require_float(args, FACTOR, factor, false));
  if (args->inputs[ADDEND] != NULL) GRAFT_TRY(graft_infer_require_float(args, ADDEND, addend, false));
  GRAFT_TRY(graft_tensor_desc_init(x->dtype, x->rank, x->shape, args->error, &args->outputs[0]));
  GRAFT_TRY(graft_infer_fits_output(args, FACTOR, factor));
  return graft_infer_fits_output(args, ADDEND, addend);
}

static graft_status infer_affine(graft_infer_args *args) {
  return infer(args, "the gate", "the residual");
}

static graft_status infer_modulate(graft_infer_args *args) {
  return infer(args, "the scale", "the shift");
}

static void decompose_affine(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                             graft_tensor **out_tensors) {
  (void)attrs, (void)n_inputs;
  out_tensors[0] = graft_add(graph, graft_mul(graph, inputs[X], inputs[FACTOR]), inputs[ADDEND]);
}

static void decompose_modulate(graft_graph *graph, const void *attrs, graft_tensor *const *inputs, uint32_t n_inputs,
                               graft_tensor **out_tensors) {
  (void)attrs, (void)n_inputs;
  graft_tensor *y = graft_mul(graph, inputs[X], graft_scale(graph, inputs[FACTOR], 1, 1));
  out_tensors[0] = inputs[ADDEND] != graft_graph_none() ? graft_add(graph, y, inputs[ADDEND]) : y;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return (inputs[ADDEND] != NULL ? 2.0 : 1.0) * (double)graft_tensor_desc_elements(&outputs[0]);
}

static int64_t n_elements(const graft_tensor *tensor) {
  return graft_tensor_desc_elements(graft_tensor_describe(tensor));
}

// A product of two whole values may be the end of another group, such as an activation times a value.
static bool propose_affine(graft_tensor *result, graft_fusion_proposal *proposal, graft_reason *why) {
  (void)why;
  graft_fusion_node sum, product;
  if (!graft_maker_is(result, "graft.add.v1", &sum)) return false;
  for (uint32_t i = 0; i < 2; ++i) {
    if (!graft_maker_is(sum.inputs[i], "graft.mul.v1", &product)) continue;
    const bool is_swapped = n_elements(product.inputs[0]) < n_elements(product.inputs[1]);
    graft_tensor *x = product.inputs[is_swapped], *gate = product.inputs[!is_swapped];
    if (product.n_readers != 1 || n_elements(gate) >= n_elements(x) || n_elements(x) != n_elements(result)) continue;
    proposal->n_inputs = N_INPUTS;
    proposal->inputs[X] = x;
    proposal->inputs[FACTOR] = gate;
    proposal->inputs[ADDEND] = sum.inputs[1 - i];
    return true;
  }
  return false;
}

graft_tensor *graft_affine(graft_graph *graph, graft_tensor *x, graft_tensor *gate, graft_tensor *residual) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.affine.v1", NULL, 0, (graft_tensor *[]){x, gate, residual}, N_INPUTS, &y);
  return y;
}

graft_tensor *graft_modulate(graft_graph *graph, graft_tensor *x, graft_tensor *scale, graft_tensor *shift) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.modulate.v1", NULL, 0, (graft_tensor *[]){x, scale, shift}, N_INPUTS, &y);
  return y;
}

static const graft_op_def ops[] = {
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
     .name = "graft.affine.v1",
     .min_inputs = N_INPUTS,
     .max_inputs = N_INPUTS,
     .n_outputs = 1,
     .infer = infer_affine,
     .decompose = decompose_affine,
     .flops = flops,
     .cases = graft_affine_cases,
     .n_cases = GRAFT_AFFINE_N_CASES},
    {.struct_size = sizeof ops[0],
     .traits = GRAFT_OP_PURE | GRAFT_OP_ELEMENTWISE,
     .name = "graft.modulate.v1",
     .min_inputs = N_INPUTS,
     .max_inputs = N_INPUTS,
     .n_outputs = 1,
     .optional_inputs = 1u << ADDEND,
     .infer = infer_modulate,
     .decompose = decompose_modulate,
     .flops = flops,
     .cases = graft_modulate_cases,
     .n_cases = GRAFT_MODULATE_N_CASES},
};

// Behind all others: a norm or a product that goes on so is better off with its own rule.
static const graft_fusion_def fusions[] = {
    {.struct_size = sizeof fusions[0],
     .priority = -1,
     .name = "affine",
     .op = "graft.affine.v1",
     .propose = propose_affine},
    {.struct_size = sizeof fusions[0],
     .priority = -1,
     .name = "modulate",
     .op = "graft.modulate.v1",
     .forms = graft_modulate_cases,
     .n_forms = GRAFT_MODULATE_N_FORMS},
};

extern const graft_extension graft_extension_affine;
const graft_extension graft_extension_affine = {
    .struct_size = sizeof graft_extension_affine,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.affine",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
    .fusions = fusions,
    .n_fusions = sizeof fusions / sizeof fusions[0],
};
