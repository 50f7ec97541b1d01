#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/quantize_target.h"
#include "ops/fused/swiglu/swiglu_row.h"
#include "ops/quantize_convrot_i8/quantize_convrot_i8.h"

enum { GATE, X, N_OPERANDS };

enum { PIECE_LENGTH = 256 };  // elements: a power of four, so that smaller groups are whole

typedef struct arguments {
  quantize_target to;
  graft_loops loops;
  const char *gate, *x;
} arguments;

// Makes a row piece by piece, each rotated while it is in the nearest cache. Pieces are short, so that memory, which is
// only read while a piece is made, is hardly ever idle.
static void quantize(const arguments *a, int64_t i, float *y) {
  const graft_quantize_core *core = &GRAFT_TARGETED(graft_quantize_core);
  const graft_quantize_row row = quantize_target_row(&a->to, i, y, GRAFT_DTYPE_F32, y);
  int64_t offsets[N_OPERANDS], piece_length = row.group > PIECE_LENGTH ? row.group : PIECE_LENGTH;
  int32_t most = 0;
  graft_loops_find_row(&a->loops, i, offsets);
  for (int64_t first = 0; first < row.n; first += piece_length) {
    graft_quantize_row piece = row;
    const int64_t bytes = first * (int64_t)sizeof(float);
    piece.n = row.n - first < piece_length ? row.n - first : piece_length;
    piece.scratch = y + first;
    piece.x = piece.scratch;
    swiglu_row(a->gate + offsets[GATE] + bytes, a->x + offsets[X] + bytes, (char *)piece.scratch, GRAFT_DTYPE_F32,
               piece.n, false);
    const int32_t found = core->rotate(&piece);
    most = found > most ? found : most;
  }
  core->round(&row, most);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  float *y = quantize_target_scratch(&a->to, worker);
  const int64_t end = quantize_target_given(&a->to, item);
  for (int64_t row = item * a->to.rows_per_item; row < end; ++row) quantize(a, row, y);
  quantize_target_finish(&a->to, item);
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *const operands[N_OPERANDS] = {[GATE] = node->inputs[GATE], [X] = node->inputs[X]};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype dtype = node->inputs[GATE]->dtype;
  if (dtype != GRAFT_F32) return graft_refuse(why, "the gate is %s, not f32", dtype->name);
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "the result is not contiguous");
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (loops.steps[k] != (int64_t)sizeof(float)) return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_quantize_convrot_i8_attrs *attrs = args->node->attrs;
  arguments a = {.to = {.group = attrs->group, .has_bf16_grid = attrs->grid == GRAFT_QUANTIZE_BF16},
                 .gate = args->inputs[GATE],
                 .x = args->inputs[X]};
  plan_walk(args->node, &a.loops);
  a.to.m = a.loops.n_rows;
  a.to.k = a.loops.row_length;
  quantize_target_place(&a.to, args, GRAFT_DTYPE_F32);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.to.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(swiglu_convrot_i8_f32_rows),
    .op = "graft.swiglu_convrot_i8.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .prepare = quantize_prepare,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_swiglu_convrot_i8);
const graft_extension GRAFT_TARGETED(graft_extension_swiglu_convrot_i8) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(swiglu_convrot_i8),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
