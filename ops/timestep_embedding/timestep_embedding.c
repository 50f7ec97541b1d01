#include "ops/timestep_embedding/timestep_embedding.h"

#include <math.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/reference.h"
#include "ops/timestep_embedding/timestep_embedding_cases.h"

static graft_status infer(graft_infer_args *args) {
  const graft_timestep_attrs *attrs = args->attrs;
  const graft_tensor_desc *t = args->inputs[0];
  if (t->dtype != GRAFT_F32 || t->rank != 1) {
    char text[160];
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "time steps must be f32 of 1 dimension, but are %s",
                      graft_tensor_desc_format(t, text, sizeof text));
  }
  if (attrs->dim < 1 || !(attrs->max_period > 0) || !isfinite(attrs->max_period) || !isfinite(attrs->scale)) {
    return GRAFT_FAIL(args->error, GRAFT_E_INVALID,
                      "dim %lld, max_period %g or scale %g is out of range: dim ≥ 1, max_period > 0, all finite",
                      (long long)attrs->dim, attrs->max_period, attrs->scale);
  }
  const int64_t shape[2] = {t->shape[0], attrs->dim};
  return graft_tensor_desc_init(GRAFT_F32, 2, shape, args->error, &args->outputs[0]);
}

static graft_status reference(const graft_reference_args *args) {
  const graft_timestep_attrs *attrs = args->attrs;
  const int64_t half = attrs->dim / 2;
  double *row = graft_reference_allocate(attrs->dim, sizeof *row, args->error);
  if (!row) return GRAFT_E_NO_MEMORY;
  graft_status status = GRAFT_OK;
  for (int64_t i = 0; i < args->inputs[0].desc.shape[0] && status == GRAFT_OK; ++i) {
    const double t = graft_dtype_load(GRAFT_F32, graft_view_at(&args->inputs[0], &i)) * attrs->scale;
    for (int64_t j = 0; j < half; ++j) {
      const double angle = t * exp(-log(attrs->max_period) * (double)j / (double)half);
      row[j] = cos(angle);
      row[half + j] = sin(angle);
    }
    graft_reference_store_row(&args->outputs[0], (int64_t[]){i, 0}, row);
    status = graft_reference_check(args);
  }
  free(row);
  return status;
}

static double flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                    const graft_tensor_desc *outputs) {
  (void)attrs, (void)inputs, (void)n_inputs;
  return 40.0 * (double)graft_tensor_desc_elements(outputs);  // a sine and half an exponential each
}

graft_tensor *graft_timestep_embedding(graft_graph *graph, graft_tensor *t, int64_t dim, double max_period,
                                       double scale) {
  const graft_timestep_attrs attrs = {dim, max_period, scale};
  graft_tensor *y = NULL;
  graft_graph_apply(graph, "graft.timestep_embedding.v1", &attrs, sizeof attrs, &t, 1, &y);
  return y;
}

static const graft_attr_def attr_defs[] = {
    {.name = "dim", .offset = offsetof(graft_timestep_attrs, dim), .default_i64 = 256},
    {.name = "max_period",
     .type = GRAFT_ATTR_F64,
     .offset = offsetof(graft_timestep_attrs, max_period),
     .default_f64 = 10000},
    {.name = "scale", .type = GRAFT_ATTR_F64, .offset = offsetof(graft_timestep_attrs, scale), .default_f64 = 1},
};

static const graft_op_def ops[] = {{
    .struct_size = sizeof ops[0],
    .traits = GRAFT_OP_PURE,
    .name = "graft.timestep_embedding.v1",
    .min_inputs = 1,
    .max_inputs = 1,
    .n_outputs = 1,
    .attrs = attr_defs,
    .n_attrs = sizeof attr_defs / sizeof attr_defs[0],
    .attrs_bytes = sizeof(graft_timestep_attrs),
    .infer = infer,
    .reference = reference,
    .flops = flops,
    .cases = graft_timestep_embedding_cases,
    .n_cases = GRAFT_TIMESTEP_EMBEDDING_N_CASES,
}};

extern const graft_extension graft_extension_timestep_embedding;
const graft_extension graft_extension_timestep_embedding = {
    .struct_size = sizeof graft_extension_timestep_embedding,
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft.timestep_embedding",
    .vendor = "graft",
    .ops = ops,
    .n_ops = sizeof ops / sizeof ops[0],
};
