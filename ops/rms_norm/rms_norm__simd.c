#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rms_norm/rms_norm_row.h"

enum { X, WEIGHT, N_INPUTS };   // of the node
enum { TO, FROM, N_OPERANDS };  // of the walk

typedef struct arguments {
  graft_loops loops;
  const char *x;
  const char *weight;  // NULL: none
  char *y;
  graft_dtype_code weight_type;
  double eps;
  bool streams;
} arguments;

// A root and two divisions take as long as a short row, and what comes next waits for them. So they are done for
// several rows together, as many as stay in the nearest cache.
enum { MOST_ROWS = 16, TOGETHER = 2048 };

static void normalise(const arguments *a, int64_t first, int64_t n_rows) {
  rms_norm_row rows[MOST_ROWS];
  float sums[MOST_ROWS];
  for (int64_t i = 0; i < n_rows; ++i) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, first + i, offsets);
    rows[i] = (rms_norm_row){.x = (const float *)(const void *)(a->x + offsets[FROM]),
                             .y = (float *)(void *)(a->y + offsets[TO]),
                             .n = a->loops.row_length,
                             .eps = a->eps,
                             .weight = a->weight,
                             .weight_type = a->weight_type,
                             .streams = a->streams};
    sums[i] = rms_sum_of_squares(rows[i].x, rows[i].n);
  }
  for (int64_t i = 0; i < n_rows; ++i) sums[i] = rms_factor_of_sum(sums[i], a->loops.row_length, a->eps);
  for (int64_t i = 0; i < n_rows; ++i) rms_norm_scale(&rows[i], sums[i]);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  int64_t n_rows = TOGETHER / a->loops.row_length;
  n_rows = n_rows < 1 ? 1 : n_rows > MOST_ROWS ? MOST_ROWS : n_rows;
  for (int64_t row = part.first_row; row < part.end_row; row += n_rows) {
    normalise(a, row, part.end_row - row < n_rows ? part.end_row - row : n_rows);
  }
  if (a->streams) vec_stream_end();
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *y = node->outputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!graft_tensor_desc_is_dense_from(x, x->rank - 1) || !graft_tensor_desc_is_dense_from(y, y->rank - 1)) {
    return graft_refuse(why, "rows are not contiguous");
  }
  if (!rms_takes_weight(node->inputs[WEIGHT]))
    return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  const graft_rms_norm_attrs *attrs = node->attrs;
  arguments a = {.x = args->inputs[X], .weight = args->inputs[WEIGHT], .y = args->outputs[0], .eps = attrs->eps};
  if (node->inputs[WEIGHT]) a.weight_type = node->inputs[WEIGHT]->dtype->code;
  const graft_tensor_desc *const operands[N_OPERANDS] = {[TO] = node->outputs[0], [FROM] = node->inputs[X]};
  graft_loops_init(&a.loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
  a.streams = graft_stream_pays(args, a.loops.row_length * (int64_t)sizeof(float));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(rms_norm_f32_rows),
    .op = "graft.rms_norm.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .in_place_inputs = 1u << X,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_rms_norm);
const graft_extension GRAFT_TARGETED(graft_extension_rms_norm) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(rms_norm),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
