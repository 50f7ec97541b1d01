#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/rms.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"
#include "ops/fused/gated_residual/gated_residual.h"
#include "ops/fused/linear_i8_gated_residual/linear_i8_gated_residual.h"
#include "ops/linear_i8/linear_i8_rows_target.h"

enum { X, Y, WEIGHT, GATE };                                        // of the node
enum { PRODUCT_WEIGHT = 1, RESIDUAL = 3, NORM_WEIGHT, NORM_GATE };  // of graft.linear_i8_gated_residual.v1
enum { TO, ADDEND, FROM, FACTORS, N_OPERANDS };  // of the walk; factors are weight · tanh(gate), in the workspace

typedef struct arguments {
  graft_loops loops;
  const char *x, *y, *factors;
  char *sum;
  double eps;
  bool streams;
} arguments;

// How the factors are made: one row for each of the gate's, or one in all.
typedef struct factor_arguments {
  const char *gate;    // NULL: 1
  const char *weight;  // NULL: 1
  graft_dtype_code weight_type;
  int64_t row_length;
  float *factors;
} factor_arguments;

static inline vec factor_at(const factor_arguments *a, const float *gate, int64_t i, int64_t n) {
  vec v = vec_all(1);
  if (gate) v = vec_tanh(n < LANES ? vec_load_n(gate + i, n) : vec_load(gate + i));
  if (!a->weight) return v;
  const char *weight = a->weight + i * (a->weight_type == GRAFT_DTYPE_F32 ? 4 : 2);
  return v * (n < LANES ? vec_load_typed_n(weight, a->weight_type, n) : vec_load_typed(weight, a->weight_type));
}

static void run_factors(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const factor_arguments *a = args;
  const int64_t n = a->row_length;
  const float *gate = a->gate ? (const float *)(const void *)a->gate + item * n : NULL;
  float *factors = a->factors + item * n;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(factors + i, factor_at(a, gate, i, LANES));
  if (i < n) vec_store_n(factors + i, factor_at(a, gate, i, n - i), n - i);
}

typedef struct row {
  const float *x, *y, *factors;
  float *sum;
} row;

static void add_row(const arguments *a, row r) {
  const int64_t n = a->loops.row_length;
  const vec scale = vec_all(rms_factor(r.y, n, a->eps));
  const bool streams = a->streams;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const vec sum = vec_madd(vec_load(r.y + i) * scale, vec_load(r.factors + i), vec_load(r.x + i));
    vec_store_or_stream(r.sum + i, sum, streams);
    vec_fetch_next_row(r.y + i, n);
    vec_fetch_next_row(r.x + i, n);
  }
  if (i == n) return;
  const vec v = vec_load_n(r.y + i, n - i) * scale;
  vec_store_n(r.sum + i, vec_madd(v, vec_load_n(r.factors + i, n - i), vec_load_n(r.x + i, n - i)), n - i);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t i = part.first_row; i < part.end_row; ++i) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, i, offsets);
    add_row(a, (row){.x = (const float *)(const void *)(a->x + offsets[ADDEND]),
                     .y = (const float *)(const void *)(a->y + offsets[FROM]),
                     .factors = (const float *)(const void *)(a->factors + offsets[FACTORS]),
                     .sum = (float *)(void *)(a->sum + offsets[TO])});
  }
  if (a->streams) vec_stream_end();
}

// What both operators have. The product that is y for one of them lies like its result.
typedef struct operands {
  const graft_tensor_desc *x, *y, *weight, *gate;
} operands;

static operands operands_of(const graft_node_info *node) {
  const graft_tensor_desc *const *in = node->inputs;
  return (operands){.x = in[X], .y = in[Y], .weight = in[WEIGHT], .gate = in[GATE]};
}

static operands operands_of_product(const graft_node_info *node) {
  const graft_tensor_desc *const *in = node->inputs;
  return (operands){.x = in[RESIDUAL], .y = node->outputs[0], .weight = in[NORM_WEIGHT], .gate = in[NORM_GATE]};
}

// The factors as a tensor: the gate's shape, or one row.
static graft_tensor_desc describe_factors(const operands *o) {
  graft_tensor_desc factors = {.dtype = GRAFT_F32, .rank = 1, .shape = {o->y->shape[o->y->rank - 1]}, .strides = {4}};
  if (o->gate) factors = *o->gate;
  return factors;
}

static void plan_walk(const graft_node_info *node, const operands *o, graft_loops *loops) {
  const graft_tensor_desc factors = describe_factors(o);
  const graft_tensor_desc *const walked[N_OPERANDS] = {
      [TO] = node->outputs[0], [ADDEND] = o->x, [FROM] = o->y, [FACTORS] = &factors};
  graft_loops_init(loops, walked, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool takes(const graft_node_info *node, const operands *o, graft_reason *why) {
  if (o->x->dtype != GRAFT_F32 || (o->gate && o->gate->dtype != GRAFT_F32)) {
    return graft_refuse(why, "x or the gate is not f32");
  }
  if (o->gate && !graft_tensor_desc_is_contiguous(o->gate)) return graft_refuse(why, "the gate is not contiguous");
  if (!rms_takes_weight(o->weight)) return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  graft_loops loops;
  plan_walk(node, o, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const operands o = operands_of(node);
  return takes(node, &o, why);
}

static size_t factors_bytes(const operands *o) {
  const graft_tensor_desc factors = describe_factors(o);
  return (graft_tensor_desc_bytes(&factors) + 63) & ~(size_t)63;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const operands o = operands_of(node);
  out_prepared->workspace_bytes = factors_bytes(&o);
  return GRAFT_OK;
}

static graft_status encode_factors(graft_encoder *encoder, const graft_encode_args *args, const operands *o,
                                   factor_arguments a) {
  const graft_tensor_desc factors = describe_factors(o);
  a.weight_type = o->weight ? o->weight->dtype->code : GRAFT_DTYPE_F32;
  a.row_length = o->y->shape[o->y->rank - 1];
  a.factors = args->workspace;
  const graft_cpu_task task = {.run = run_factors,
                               .args = &a,
                               .args_bytes = sizeof a,
                               .n_items = graft_tensor_desc_elements(&factors) / a.row_length};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_gated_residual_attrs *attrs = args->node->attrs;
  const operands o = operands_of(args->node);
  if (graft_tensor_desc_elements(args->node->outputs[0]) == 0) return GRAFT_OK;
  arguments a = {.x = args->inputs[X],
                 .y = args->inputs[Y],
                 .factors = args->workspace,
                 .sum = args->outputs[0],
                 .eps = attrs->eps};
  plan_walk(args->node, &o, &a.loops);
  a.streams = graft_stream_pays(args, a.loops.row_length * (int64_t)sizeof(float));
  const factor_arguments factors = {.gate = args->inputs[GATE], .weight = args->inputs[WEIGHT]};
  GRAFT_TRY(encode_factors(encoder, args, &o, factors));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

// y is made row by row, by a product.
typedef struct product_arguments {
  arguments sum;
  graft_gemm_i8 product;
  char *scratch;  // one part for each worker: rows of the product, then the product's own
  size_t rows_bytes, scratch_bytes;
} product_arguments;

// Asks for rows of x, which are wanted once the product is there.
static void fetch_rows(const arguments *a, int64_t first, int64_t rows) {
  for (int64_t i = first; i < first + rows; ++i) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, i, offsets);
    const char *x = a->x + offsets[ADDEND];
    for (int64_t byte = 0; byte < a->loops.row_length * (int64_t)sizeof(float); byte += 64) {
      __builtin_prefetch(x + byte, 0, 2);
    }
  }
}

static void run_product(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const product_arguments *a = args;
  const graft_gemm_i8 *g = &a->product;
  const int64_t few = graft_gemm_i8_few_rows(g->core), first = item * few;
  const int64_t rows = g->m - first < few ? g->m - first : few;
  char *scratch = a->scratch + (size_t)worker->index * a->scratch_bytes;
  float *y = (float *)(void *)scratch;
  const linear_i8_rows_part part = {.first = first, .n = rows, .end = g->n, .out = y, .row_stride = g->n};
  fetch_rows(&a->sum, first, rows);
  linear_i8_rows_run(g, &part, scratch + a->rows_bytes);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->sum.loops, first + i, offsets);
    add_row(&a->sum, (row){.x = (const float *)(const void *)(a->sum.x + offsets[ADDEND]),
                           .y = y + i * g->n,
                           .factors = (const float *)(const void *)(a->sum.factors + offsets[FACTORS]),
                           .sum = (float *)(void *)(a->sum.sum + offsets[TO])});
  }
}

static void place_scratch(const graft_gemm_i8 *g, product_arguments *a) {
  a->rows_bytes = (size_t)(graft_gemm_i8_few_rows(g->core) * g->n) * sizeof(float);
  a->rows_bytes = (a->rows_bytes + 63) & ~(size_t)63;
  a->scratch_bytes = a->rows_bytes + graft_gemm_i8_few_scratch_bytes(g->core, g->k);
}

static bool supports_product(const graft_node_info *node, graft_reason *why) {
  const operands o = operands_of_product(node);
  return linear_i8_rows_supports(node, PRODUCT_WEIGHT, why) && takes(node, &o, why);
}

static bool prefers_product(const graft_node_info *node, graft_reason *why) {
  return linear_i8_rows_stay_near(node, PRODUCT_WEIGHT, why);
}

static graft_status prepare_product(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const operands o = operands_of_product(node);
  const graft_gemm_i8 g = linear_i8_rows_describe(node, PRODUCT_WEIGHT);
  product_arguments a;
  place_scratch(&g, &a);
  linear_i8_rows_prepare(node, PRODUCT_WEIGHT, out_prepared);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = factors_bytes(&o) + n_workers * a.scratch_bytes;
  return GRAFT_OK;
}

static graft_status encode_product(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_linear_i8_gated_residual_attrs *attrs = args->node->attrs;
  const operands o = operands_of_product(args->node);
  product_arguments a = {
      .sum = {.x = args->inputs[RESIDUAL], .factors = args->workspace, .sum = args->outputs[0], .eps = attrs->eps},
      .product = linear_i8_rows_place(args, PRODUCT_WEIGHT),
      .scratch = (char *)args->workspace + factors_bytes(&o)};
  place_scratch(&a.product, &a);
  plan_walk(args->node, &o, &a.sum.loops);
  const factor_arguments factors = {.gate = args->inputs[NORM_GATE], .weight = args->inputs[NORM_WEIGHT]};
  GRAFT_TRY(encode_factors(encoder, args, &o, factors));
  const graft_cpu_task task = {
      .run = run_product, .args = &a, .args_bytes = sizeof a, .n_items = linear_i8_rows_items(&a.product)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(gated_residual_f32_rows),
        .op = "graft.gated_residual.v1",
        .backend = "cpu",
        .required_features = GRAFT_TARGET_REQUIRES,
        .supports = supports,
        .in_place_inputs = 1u << X | 1u << Y,
        .prepare = prepare,
        .encode = encode,
    },
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(linear_i8_gated_residual_rows),
        .op = "graft.linear_i8_gated_residual.v1",
        .backend = "cpu",
        .required_features = LINEAR_I8_ROWS_REQUIRES,
        .supports = supports_product,
        .preferred = prefers_product,
        .in_place_inputs = 1u << RESIDUAL,
        .prepare = prepare_product,
        .pack = linear_i8_rows_pack,
        .encode = encode_product,
    },
};

extern const graft_extension GRAFT_TARGETED(graft_extension_gated_residual);
const graft_extension GRAFT_TARGETED(graft_extension_gated_residual) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(gated_residual),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
