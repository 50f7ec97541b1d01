#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/moments.h"
#include "ops/common/cpu/target.h"
#include "ops/layer_norm/layer_norm.h"

enum { X, WEIGHT, BIAS };       // of the node
enum { TO, FROM, N_OPERANDS };  // of the walk

// A weight or bias: one element for each of a row's, or none.
typedef struct per_channel {
  const char *data;  // NULL: none
  graft_dtype_code type;
  int64_t step;  // bytes between elements
} per_channel;

typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  per_channel weight, bias;
  double eps;
} arguments;

static inline vec transform(vec x, moments_scaling s) {
  return moments_distance(x, s) * vec_all(s.factor);
}

static inline vec load_channels(const per_channel *p, int64_t i, int64_t n) {
  const char *address = p->data + i * p->step;
  return n < LANES ? vec_load_typed_n(address, p->type, n) : vec_load_typed(address, p->type);
}

static inline vec apply_channels(const arguments *a, vec v, int64_t i, int64_t n) {
  if (a->weight.data) v *= load_channels(&a->weight, i, n);
  if (a->bias.data) v += load_channels(&a->bias, i, n);
  return v;
}

static void normalise(const arguments *a, const float *x, float *y) {
  const int64_t n = a->loops.row_length;
  const moments_scaling scaling = moments_normalise(moments_measure(x, n), a->eps);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec_store(y + i, apply_channels(a, transform(vec_load(x + i), scaling), i, LANES));
  }
  if (i == n) return;
  const vec rest = transform(vec_load_n(x + i, n - i), scaling);
  vec_store_n(y + i, apply_channels(a, rest, i, n - i), n - i);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, row, offsets);
    normalise(a, (const float *)(const void *)(a->x + offsets[FROM]), (float *)(void *)(a->y + offsets[TO]));
  }
}

static bool is_plain(const graft_tensor_desc *desc) {
  if (!desc) return true;
  if (desc->dtype != GRAFT_F32 && desc->dtype != GRAFT_F16 && desc->dtype != GRAFT_BF16) return false;
  return graft_tensor_desc_is_contiguous(desc);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *y = node->outputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!graft_tensor_desc_is_dense_from(x, x->rank - 1) || !graft_tensor_desc_is_dense_from(y, y->rank - 1)) {
    return graft_refuse(why, "rows are not contiguous");
  }
  if (!is_plain(node->inputs[WEIGHT]) || !is_plain(node->inputs[BIAS])) {
    return graft_refuse(why, "weight or bias is not contiguous f32, f16 or bf16");
  }
  return true;
}

static per_channel find_channels(const graft_encode_args *args, uint32_t input) {
  const graft_tensor_desc *desc = args->node->inputs[input];
  if (!desc) return (per_channel){0};
  return (per_channel){.data = args->inputs[input], .type = desc->dtype->code, .step = desc->dtype->block_bytes};
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_layer_norm_attrs *attrs = node->attrs;
  arguments a = {.x = args->inputs[X],
                 .y = args->outputs[0],
                 .weight = find_channels(args, WEIGHT),
                 .bias = find_channels(args, BIAS),
                 .eps = attrs->eps};
  const graft_tensor_desc *const operands[N_OPERANDS] = {[TO] = node->outputs[0], [FROM] = node->inputs[X]};
  graft_loops_init(&a.loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(layer_norm_f32_rows),
    .op = "graft.layer_norm.v1",
    .backend = "cpu",
    .requires = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .in_place_inputs = 1u << X,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_layer_norm);
const graft_extension GRAFT_TARGETED(graft_extension_layer_norm) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(layer_norm),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
