#include "graft/extension.h"
#include "ops/common/cpu/gemm_i8.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/quantize.h"
#include "ops/common/cpu/weight_i8.h"
#include "ops/linear_i8/linear_i8_form.h"

enum { X = LINEAR_I8_X, X_SCALE, WEIGHT, WEIGHT_SCALE, BIAS };
// That are quantised as one item: about a microsecond, which is all that threads wait before the product begins.
enum { ITEM_ELEMENTS = 4096 };

typedef struct arguments {
  graft_gemm_i8 gemm;
  graft_gemm_i8_weight weight;  // not packed beforehand
  graft_gemm_matrix x;          // a float x
  const graft_quantize_core *quantize;
  int64_t group, rows_per_item;
  bool has_bf16_grid;
  int8_t *q;  // where a float x is quantised to
  float *q_scales;
  char *packed, *scratch;  // scratch: one part for each worker
  size_t scratch_bytes;
} arguments;

// Parts of the workspace, in bytes from its beginning.
typedef struct layout {
  size_t q, q_scales, packed, scratch, scratch_bytes, end;
} layout;

static size_t aligned(size_t bytes) {
  return (bytes + 63) & ~(size_t)63;
}

static bool is_packed(const graft_node_info *node) {
  return (node->constant_inputs & 1u << WEIGHT) != 0 && graft_tensor_desc_elements(node->inputs[WEIGHT]) > 0;
}

static int64_t step_of(const graft_tensor_desc *scales) {
  return scales && graft_tensor_desc_elements(scales) != 1;
}

static void describe_x(const graft_node_info *node, arguments *a) {
  const graft_linear_i8_attrs *attrs = node->attrs;
  const graft_tensor_desc *x = node->inputs[X];
  graft_gemm_i8 *g = &a->gemm;
  graft_gemm_matrix matrix = {0};
  graft_gemm_flatten(x, &g->m, &matrix);
  const linear_i8_form form = linear_i8_form_of(attrs, x->dtype);
  g->a_stride = form == LINEAR_I8_SEPARATE ? matrix.row_stride : g->k;
  g->scales.x_step = form == LINEAR_I8_SEPARATE ? step_of(node->inputs[X_SCALE]) : 1;
  if (form == LINEAR_I8_PACKED) g->m = attrs->packed_rows;
  if (form != LINEAR_I8_FLOAT) return;
  a->x = matrix;
  a->quantize = &GRAFT_TARGETED(graft_quantize_core);
  a->group = attrs->group;
  a->has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16;
  a->rows_per_item = g->k < ITEM_ELEMENTS ? ITEM_ELEMENTS / (g->k > 0 ? g->k : 1) : 1;
}

// Everything but addresses.
static arguments describe(const graft_node_info *node) {
  const graft_linear_i8_attrs *attrs = node->attrs;
  const graft_tensor_desc *weight = node->inputs[WEIGHT], *y = node->outputs[0];
  arguments a = {.gemm = {.n = weight->shape[0], .k = weight->shape[1]}};
  a.gemm.core = graft_gemm_i8_core_for(&GRAFT_TARGETED(graft_gemm_i8_core), graft_cpu_describe(node->device)->features);
  describe_x(node, &a);
  int64_t rows;
  graft_gemm_matrix out = {0};
  graft_gemm_flatten(y, &rows, &out);
  a.gemm.out.type = out.type;
  a.gemm.out.row_stride = out.row_stride;
  a.gemm.scales.w_step = weight->dtype->is_float || step_of(node->inputs[WEIGHT_SCALE]);
  a.gemm.scales.is_comfy = attrs->order == GRAFT_LINEAR_I8_COMFY;
  a.gemm.scales.rounding = out.type;
  const graft_gemm_matrix w = graft_gemm_matrix_of(weight, 0);
  a.weight = (graft_gemm_i8_weight){.n = a.gemm.n, .k = a.gemm.k, .row_stride = w.row_stride};
  return a;
}

static layout lay_out(const graft_node_info *node, const arguments *a) {
  const graft_gemm_i8 *g = &a->gemm;
  layout l = {.scratch_bytes = graft_gemm_i8_scratch_bytes(g)};
  size_t end = 0;
  if (a->quantize) {
    l.q_scales = aligned((size_t)g->m * (size_t)g->k);
    end = l.q_scales + aligned((size_t)g->m * sizeof(float));
    const size_t row_bytes = (size_t)graft_quantize_scratch_floats(g->k) * sizeof(float);
    if (row_bytes > l.scratch_bytes) l.scratch_bytes = row_bytes;
  }
  l.packed = end;
  if (!is_packed(node)) end += aligned(graft_gemm_i8_packed_bytes(g->core, g->n, g->k));
  l.scratch = end;
  l.end = end + (size_t)graft_cpu_describe(node->device)->n_threads * l.scratch_bytes;
  return l;
}

static bool is_f32_row(const graft_tensor_desc *scales) {
  return !scales || (scales->dtype == GRAFT_F32 && graft_tensor_desc_is_contiguous(scales));
}

static graft_weight_i8 describe_weight(const graft_node_info *node, const graft_gemm_i8 *g) {
  const graft_linear_i8_attrs *attrs = node->attrs;
  return (graft_weight_i8){.core = g->core,
                           .quantize = &GRAFT_TARGETED(graft_quantize_core),
                           .desc = node->inputs[WEIGHT],
                           .group = attrs->group,
                           .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16};
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *bias = node->inputs[BIAS], *y = node->outputs[0];
  const graft_linear_i8_attrs *attrs = node->attrs;
  const linear_i8_form form = linear_i8_form_of(attrs, x->dtype);
  int64_t rows;
  graft_gemm_matrix matrix = {0};
  if (form == LINEAR_I8_FLOAT && !graft_gemm_takes(x->dtype)) {
    return graft_refuse(why, "x is %s, not f32, f16, bf16 or i8", x->dtype->name);
  }
  if (!graft_gemm_takes(y->dtype)) return graft_refuse(why, "y is %s, not f32, f16 or bf16", y->dtype->name);
  if (bias && !graft_gemm_takes(bias->dtype)) return graft_refuse(why, "the bias is %s", bias->dtype->name);
  if (node->inputs[WEIGHT]->dtype->is_float && (!is_packed(node) || !graft_gemm_takes(node->inputs[WEIGHT]->dtype))) {
    return graft_refuse(why, "the weight is neither i8 nor a constant of f32, f16 or bf16");
  }
  if (!is_f32_row(node->inputs[X_SCALE]) || !is_f32_row(node->inputs[WEIGHT_SCALE])) {
    return graft_refuse(why, "scales are not contiguous f32");
  }
  if (form == LINEAR_I8_PACKED && !graft_tensor_desc_is_contiguous(x)) {
    return graft_refuse(why, "the packed x is not contiguous");
  }
  if (!graft_gemm_flatten(x, &rows, &matrix) || !graft_gemm_flatten(y, &rows, &matrix)) {
    return graft_refuse(why, "rows of x or y are not equally far apart");
  }
  const graft_tensor_desc *const dense[] = {x, y, node->inputs[WEIGHT], bias};
  for (size_t i = 0; i < sizeof dense / sizeof dense[0]; ++i) {
    if (dense[i] && !graft_gemm_has_dense_rows(dense[i])) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const arguments a = describe(node);
  out_prepared->workspace_bytes = lay_out(node, &a).end;
  if (!is_packed(node)) return GRAFT_OK;
  const graft_weight_i8 weight = describe_weight(node, &a.gemm);
  graft_weight_i8_prepare(&weight, WEIGHT, &out_prepared->packed[out_prepared->n_packed++]);
  return GRAFT_OK;
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state, (void)input;
  const arguments a = describe(node);
  const graft_weight_i8 weight = describe_weight(node, &a.gemm);
  return graft_weight_i8_pack(&weight, source, packed);
}

static void run_quantize(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  const int64_t k = a->gemm.k, first = item * a->rows_per_item, left = a->gemm.m - first;
  for (int64_t i = first; i < first + (left < a->rows_per_item ? left : a->rows_per_item); ++i) {
    const graft_quantize_row row = {
        .x = graft_gemm_matrix_at(a->x, i, 0).data,
        .type = a->x.type,
        .n = k,
        .group = a->group,
        .has_bf16_grid = a->has_bf16_grid,
        .q = a->q + i * k,
        .scale = a->q_scales + i,
        .scratch = (float *)(void *)(a->scratch + (size_t)worker->index * a->scratch_bytes)};
    a->quantize->row(&row);
  }
}

static void run_pack(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  graft_gemm_i8_pack_panel(a->gemm.core, &a->weight, item, a->packed);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_gemm_i8_run(&a->gemm, item, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

// Points the product at its operands.
static void place(const graft_encode_args *args, arguments *a) {
  const graft_node_info *node = args->node;
  const layout l = lay_out(node, a);
  char *workspace = args->workspace;
  graft_gemm_i8 *g = &a->gemm;
  a->scratch = workspace + l.scratch;
  a->scratch_bytes = l.scratch_bytes;
  a->packed = workspace + l.packed;
  a->weight.data = args->inputs[WEIGHT];
  g->b = is_packed(node) ? args->inputs[WEIGHT] : a->packed;
  g->a = args->inputs[X];
  g->scales.x = args->inputs[X_SCALE];
  g->scales.w = args->inputs[WEIGHT_SCALE];
  if (node->inputs[WEIGHT]->dtype->is_float) {
    const graft_weight_i8 weight = describe_weight(node, g);
    g->scales.w = graft_weight_i8_scales(&weight, g->b);
  }
  g->out.data = args->outputs[0];
  if (a->quantize) {
    a->x.data = args->inputs[X];
    g->a = a->q = (int8_t *)(workspace + l.q);
    g->scales.x = a->q_scales = (float *)(void *)(workspace + l.q_scales);
  } else if (!g->scales.x) {
    g->scales.x = (const float *)(const void *)(g->a + node->inputs[X]->shape[0] * g->k);
  }
  if (!node->inputs[BIAS]) return;
  *(g->scales.is_comfy ? &g->scales.bias : &g->out.bias) = graft_gemm_row_of(node->inputs[BIAS], args->inputs[BIAS]);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = describe(args->node);
  place(args, &a);
  graft_cpu_task task = {.args = &a, .args_bytes = sizeof a};
  if (!is_packed(args->node)) {
    task.run = run_pack;
    task.n_items = graft_gemm_i8_panels(a.gemm.core, a.gemm.n);
    GRAFT_TRY(graft_cpu_encode(encoder, &task, args->error));
  }
  if (a.quantize) {
    task.run = run_quantize;
    task.n_items = (a.gemm.m + a.rows_per_item - 1) / a.rows_per_item;
    GRAFT_TRY(graft_cpu_encode(encoder, &task, args->error));
  }
  task.run = run;
  task.n_items = graft_gemm_i8_items(&a.gemm);
  return graft_cpu_encode(encoder, &task, args->error);
}

#if defined(__AVX512F__)
enum { REQUIRES = GRAFT_TARGET_REQUIRES | GRAFT_CPU_AVX512_VNNI };
#else
enum { REQUIRES = GRAFT_TARGET_REQUIRES };
#endif

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(linear_i8_panels),
    .op = "graft.linear_i8.v1",
    .backend = "cpu",
    .required_features = REQUIRES,
    .supports = supports,
    .prepare = prepare,
    .pack = pack,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_linear_i8);
const graft_extension GRAFT_TARGETED(graft_extension_linear_i8) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(linear_i8),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
