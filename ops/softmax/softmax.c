#include "ops/softmax/softmax.h"

#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/reference.h"
#include "ops/softmax/softmax_cases.h"

static graft_status infer(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[0];
  GRAFT_TRY(graft_infer_require_float(args, 0, "x", false));
  if (x->rank < 1) return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "x must have at least 1 dimension, not 0");
  return graft_tensor_desc_init(x->dtype, x->rank, x->shape, args->error, &args->outputs[0]);
}

static void share(const float *x, double *y, int64_t n) {
  float max = x[0];
  for (int64_t i = 1; i < n; ++i) max = x[i] > max ? x[i] : max;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = exp((double)x[i] - (double)max);
  for (int64_t i = 0; i < n; ++i) y[i] /= sum;
}

static graft_status share_rows(const graft_reference_args *args, float *x, double *y) {
  const graft_tensor_desc rows = graft_reference_rows(&args->inputs[0].desc);
  const int64_t n = graft_reference_row_length(&args->inputs[0].desc);
  int64_t index[GRAFT_MAX_RANK] = {0};
  do {
    GRAFT_TRY(graft_reference_check(args));
    graft_reference_load_row(&args->inputs[0], index, x);
    share(x, y, n);
    graft_reference_store_row(&args->outputs[0], index, y);
  } while (graft_index_next(&rows, index));
  return GRAFT_OK;
}

static graft_status reference(const graft_reference_args *args) {
  const graft_tensor_desc *desc = &args->inputs[0].desc;
  if (graft_tensor_desc_elements(desc) == 0) return GRAFT_OK;
  const int64_t n = graft_reference_row_length(desc);
  graft_status status = GRAFT_E_NO_MEMORY;
  float *x = graft_reference_allocate(n, sizeof *x, args->error);
  double *y = x ? graft_reference_allocate(n, sizeof *y, args->error) : NULL;
  if (y) status = share_rows(args, x, y);
  free(y);
  free(x);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 5.0 * (double)graft_tensor_desc_elements(&outputs[0]);
}

graft_tensor *graft_softmax(graft_graph *graph, graft_tensor *x) {
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.softmax.v1", NULL, 0, &x, 1, &y);
  return y;
}

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.softmax.v1",
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 1,
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .cases = graft_softmax_cases,
    .n_cases = GRAFT_SOFTMAX_N_CASES,
}};

extern const graft_extension graft_extension_softmax;
const graft_extension graft_extension_softmax = {
    .struct_size = sizeof graft_extension_softmax,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.softmax",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
