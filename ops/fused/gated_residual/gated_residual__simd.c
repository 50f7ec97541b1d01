#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/rms.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"
#include "ops/fused/gated_residual/gated_residual.h"

enum { X, Y, WEIGHT, GATE };                     // of the node
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

// The factors as a tensor: the gate's shape, or one row.
static graft_tensor_desc describe_factors(const graft_node_info *node) {
  const graft_tensor_desc *y = node->inputs[Y], *gate = node->inputs[GATE];
  graft_tensor_desc factors = {.dtype = GRAFT_F32, .rank = 1, .shape = {y->shape[y->rank - 1]}, .strides = {4}};
  if (gate) factors = *gate;
  return factors;
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc factors = describe_factors(node);
  const graft_tensor_desc *const operands[N_OPERANDS] = {
      [TO] = node->outputs[0], [ADDEND] = node->inputs[X], [FROM] = node->inputs[Y], [FACTORS] = &factors};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *gate = node->inputs[GATE];
  if (x->dtype != GRAFT_F32 || (gate && gate->dtype != GRAFT_F32)) {
    return graft_refuse(why, "x or the gate is not f32");
  }
  if (gate && !graft_tensor_desc_is_contiguous(gate)) return graft_refuse(why, "the gate is not contiguous");
  if (!rms_takes_weight(node->inputs[WEIGHT])) {
    return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  }
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_tensor_desc factors = describe_factors(node);
  out_prepared->workspace_bytes = graft_tensor_desc_bytes(&factors);
  return GRAFT_OK;
}

static graft_status encode_factors(graft_encoder *encoder, const graft_encode_args *args, int64_t row_length) {
  const graft_tensor_desc *weight = args->node->inputs[WEIGHT], factors = describe_factors(args->node);
  const factor_arguments a = {.gate = args->inputs[GATE],
                              .weight = args->inputs[WEIGHT],
                              .weight_type = weight ? weight->dtype->code : GRAFT_DTYPE_F32,
                              .row_length = row_length,
                              .factors = args->workspace};
  const graft_cpu_task task = {.run = run_factors,
                               .args = &a,
                               .args_bytes = sizeof a,
                               .n_items = graft_tensor_desc_elements(&factors) / row_length};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_gated_residual_attrs *attrs = args->node->attrs;
  if (graft_tensor_desc_elements(args->node->outputs[0]) == 0) return GRAFT_OK;
  arguments a = {.x = args->inputs[X],
                 .y = args->inputs[Y],
                 .factors = args->workspace,
                 .sum = args->outputs[0],
                 .eps = attrs->eps};
  plan_walk(args->node, &a.loops);
  a.streams = graft_stream_pays(args, a.loops.row_length * (int64_t)sizeof(float));
  GRAFT_TRY(encode_factors(encoder, args, a.loops.row_length));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
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
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_gated_residual);
const graft_extension GRAFT_TARGETED(graft_extension_gated_residual) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(gated_residual),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
