#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"

enum { Y, X, N_OPERANDS };

typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  graft_dtype_code from, to;
} arguments;

static int64_t size_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_F32 ? 4 : 2;
}

static inline __attribute__((always_inline)) void cast_row(const char *x, graft_dtype_code from, char *y,
                                                           graft_dtype_code to, int64_t n) {
  const int64_t from_size = size_of(from), to_size = size_of(to);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store_typed(y + i * to_size, to, vec_load_typed(x + i * from_size, from));
  if (i < n) vec_store_typed_n(y + i * to_size, to, vec_load_typed_n(x + i * from_size, from, n - i), n - i);
}

// Elements that do not lie side by side are collected first.
static void cast_strided_row(const arguments *a, const char *x, char *y, int64_t n) {
  char gathered[4 * LANES];
  const int64_t from_size = size_of(a->from), step = a->loops.steps[X];
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t count = n - i < LANES ? n - i : LANES;
    for (int64_t k = 0; k < count; ++k) memcpy(gathered + k * from_size, x + (i + k) * step, (size_t)from_size);
    cast_row(gathered, a->from, y + i * size_of(a->to), a->to, count);
  }
}

static void cast_piece(const arguments *a, const char *x, char *y, int64_t n) {
  const bool is_dense = a->loops.steps[X] == size_of(a->from);
  if (!is_dense) {
    cast_strided_row(a, x, y, n);
  } else if (a->from == GRAFT_DTYPE_F32 && a->to == GRAFT_DTYPE_F16) {
    cast_row(x, GRAFT_DTYPE_F32, y, GRAFT_DTYPE_F16, n);
  } else if (a->from == GRAFT_DTYPE_F32) {
    cast_row(x, GRAFT_DTYPE_F32, y, GRAFT_DTYPE_BF16, n);
  } else if (a->from == GRAFT_DTYPE_F16 && a->to == GRAFT_DTYPE_F32) {
    cast_row(x, GRAFT_DTYPE_F16, y, GRAFT_DTYPE_F32, n);
  } else if (a->to == GRAFT_DTYPE_F32) {
    cast_row(x, GRAFT_DTYPE_BF16, y, GRAFT_DTYPE_F32, n);
  } else {
    cast_row(x, a->from, y, a->to, n);
  }
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, row, offsets);
    cast_piece(a, a->x + offsets[X] + part.begin * a->loops.steps[X],
               a->y + offsets[Y] + part.begin * a->loops.steps[Y], part.end - part.begin);
  }
}

static bool is_handled(graft_dtype dtype) {
  return dtype == GRAFT_F32 || dtype == GRAFT_F16 || dtype == GRAFT_BF16;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype from = node->inputs[0]->dtype, to = node->outputs[0]->dtype;
  if (is_handled(from) && is_handled(to) && from != to) return true;
  return graft_refuse(why, "%s to %s is not between two of f32, f16 and bf16", from->name, to->name);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_tensor_desc *const operands[N_OPERANDS] = {[Y] = args->node->outputs[0], [X] = args->node->inputs[0]};
  arguments a = {
      .x = args->inputs[0], .y = args->outputs[0], .from = operands[X]->dtype->code, .to = operands[Y]->dtype->code};
  graft_loops_init(&a.loops, operands, N_OPERANDS, GRAFT_LOOPS_LONGEST_ROWS);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof(graft_kernel_def),
                                            .priority = GRAFT_TARGET_PRIORITY,
                                            .name = GRAFT_TARGETED_NAME(cast_float_rows),
                                            .op = "graft.cast.v1",
                                            .backend = "cpu",
                                            .required_features = GRAFT_TARGET_REQUIRES,
                                            .supports = supports,
                                            .encode = encode}};

extern const graft_extension GRAFT_TARGETED(graft_extension_cast);
const graft_extension GRAFT_TARGETED(graft_extension_cast) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(cast),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
