#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/swiglu/swiglu_row.h"

enum { GATE, X };              // of the node
enum { Y, G, V, N_OPERANDS };  // of the walk

typedef struct arguments {
  graft_loops loops;
  const char *gate, *x;
  char *y;
  graft_dtype_code type;
  bool streams;  // float results past the caches
} arguments;

static void run(const void *task_args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = task_args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, row, offsets);
    const int64_t start = part.begin * a->loops.steps[Y], n = part.end - part.begin;
    const char *gate = a->gate + offsets[G] + start, *x = a->x + offsets[V] + start;
    char *y = a->y + offsets[Y] + start;
    if (a->streams) {
      swiglu_row(gate, x, y, GRAFT_DTYPE_F32, n, true);
    } else if (a->type == GRAFT_DTYPE_F32) {
      swiglu_row(gate, x, y, GRAFT_DTYPE_F32, n, false);
    } else if (a->type == GRAFT_DTYPE_BF16) {
      swiglu_row(gate, x, y, GRAFT_DTYPE_BF16, n, false);
    } else {
      swiglu_row(gate, x, y, GRAFT_DTYPE_F16, n, false);
    }
  }
  if (a->streams) vec_stream_end();
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *const operands[N_OPERANDS] = {
      [Y] = node->outputs[0], [G] = node->inputs[GATE], [V] = node->inputs[X]};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LONGEST_ROWS);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype dtype = node->inputs[GATE]->dtype;
  if (dtype != GRAFT_F32 && dtype != GRAFT_F16 && dtype != GRAFT_BF16) {
    return graft_refuse(why, "the gate is %s, not f32, f16 or bf16", dtype->name);
  }
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != dtype->block_bytes) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.gate = args->inputs[GATE],
                 .x = args->inputs[X],
                 .y = args->outputs[0],
                 .type = args->node->outputs[0]->dtype->code};
  plan_walk(args->node, &a.loops);
  const int64_t row_bytes = a.loops.n_rows > 1 ? a.loops.row_length * (int64_t)sizeof(float) : 0;
  a.streams = a.type == GRAFT_DTYPE_F32 && graft_stream_pays(args, row_bytes);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(swiglu_float_rows),
    .op = "graft.swiglu.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .in_place_inputs = 1u << GATE | 1u << X,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_swiglu);
const graft_extension GRAFT_TARGETED(graft_extension_swiglu) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(swiglu),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
