#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/target.h"

enum { Y, A, B, N_OPERANDS, BLOCK = 512 };

// Floats of one operand along a row: one for each element of the result, or one for all.
typedef struct operand {
  const float *values;
  bool is_repeated;
} operand;

// Writes f(a, b) to y, which may be the values of either or apart from both.
typedef void (*row_function)(operand a, operand b, float *y, int64_t n);

typedef struct arguments {
  graft_loops loops;
  const char *a, *b;
  char *y;
  graft_dtype_code types[N_OPERANDS];
  row_function combine;
} arguments;

// |a_all| and |b_all| are known where this is inlined, so that each form of row gets a loop of its own.
static inline __attribute__((always_inline)) void combine_as(vec (*f)(vec, vec), const float *a, bool a_all,
                                                             const float *b, bool b_all, float *y, int64_t n) {
  const vec a_value = a_all ? vec_all(*a) : (vec){0}, b_value = b_all ? vec_all(*b) : (vec){0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec_store(y + i, f(a_all ? a_value : vec_load(a + i), b_all ? b_value : vec_load(b + i)));
  }
  if (i == n) return;
  const vec a_rest = a_all ? a_value : vec_load_n(a + i, n - i), b_rest = b_all ? b_value : vec_load_n(b + i, n - i);
  vec_store_n(y + i, f(a_rest, b_rest), n - i);
}

static inline __attribute__((always_inline)) void combine(vec (*f)(vec, vec), operand a, operand b, float *y,
                                                          int64_t n) {
  if (a.is_repeated && b.is_repeated) {
    combine_as(f, a.values, true, b.values, true, y, n);
  } else if (a.is_repeated) {
    combine_as(f, a.values, true, b.values, false, y, n);
  } else if (b.is_repeated) {
    combine_as(f, a.values, false, b.values, true, y, n);
  } else {
    combine_as(f, a.values, false, b.values, false, y, n);
  }
}

static inline vec sum(vec a, vec b) {
  return a + b;
}
static inline vec difference(vec a, vec b) {
  return a - b;
}
static inline vec product(vec a, vec b) {
  return a * b;
}
static inline vec quotient(vec a, vec b) {
  return a / b;
}

static void add_row(operand a, operand b, float *y, int64_t n) {
  combine(sum, a, b, y, n);
}
static void sub_row(operand a, operand b, float *y, int64_t n) {
  combine(difference, a, b, y, n);
}
static void mul_row(operand a, operand b, float *y, int64_t n) {
  combine(product, a, b, y, n);
}
static void div_row(operand a, operand b, float *y, int64_t n) {
  combine(quotient, a, b, y, n);
}

// The floats of |n| elements at |p|: where they lie, or converted into |block|.
static operand load_operand(const char *p, graft_dtype_code type, bool is_repeated, float *block, int64_t n) {
  if (type == GRAFT_DTYPE_F32 && !is_repeated) {
    return (operand){.values = (const float *)(const void *)p};
  }
  vec_load_typed_row(p, type, block, is_repeated ? 1 : n);
  return (operand){.values = block, .is_repeated = is_repeated};
}

static void combine_row(const arguments *args, const char *a, const char *b, char *y, int64_t n) {
  float a_block[BLOCK], b_block[BLOCK], y_block[BLOCK];
  const graft_dtype_code *types = args->types;
  const int64_t *steps = args->loops.steps;
  const bool is_f32 = types[Y] == GRAFT_DTYPE_F32 && types[A] == GRAFT_DTYPE_F32 && types[B] == GRAFT_DTYPE_F32;
  const int64_t block = is_f32 ? n : BLOCK;
  for (int64_t done = 0; done < n; done += block) {
    const int64_t count = n - done < block ? n - done : block;
    const operand a_part = load_operand(a + done * steps[A], types[A], steps[A] == 0, a_block, count);
    const operand b_part = load_operand(b + done * steps[B], types[B], steps[B] == 0, b_block, count);
    char *y_part = y + done * steps[Y];
    if (types[Y] == GRAFT_DTYPE_F32) {
      args->combine(a_part, b_part, (float *)(void *)y_part, count);
    } else {
      args->combine(a_part, b_part, y_block, count);
      vec_store_typed_row(y_part, types[Y], y_block, count);
    }
  }
}

static void run(const void *task_args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *args = task_args;
  const graft_loops *loops = &args->loops;
  const graft_loops_item part = graft_loops_find_item(loops, item);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(loops, row, offsets);
    const char *a = args->a + offsets[A] + part.begin * loops->steps[A];
    const char *b = args->b + offsets[B] + part.begin * loops->steps[B];
    combine_row(args, a, b, args->y + offsets[Y] + part.begin * loops->steps[Y], part.end - part.begin);
  }
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *const operands[N_OPERANDS] = {
      [Y] = node->outputs[0], [A] = node->inputs[0], [B] = node->inputs[1]};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LONGEST_ROWS);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype dtypes[N_OPERANDS] = {
      [Y] = node->outputs[0]->dtype, [A] = node->inputs[0]->dtype, [B] = node->inputs[1]->dtype};
  graft_loops loops;
  plan_walk(node, &loops);
  for (int32_t k = 0; k < N_OPERANDS; ++k) {
    if (dtypes[k] != GRAFT_F32 && dtypes[k] != GRAFT_F16 && dtypes[k] != GRAFT_BF16) {
      return graft_refuse(why, "an operand is %s, not f32, f16 or bf16", dtypes[k]->name);
    }
    if (loops.steps[k] != dtypes[k]->block_bytes && (k == Y || loops.steps[k] != 0)) {
      return graft_refuse(why, "rows are neither contiguous nor one element repeated");
    }
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args, row_function row) {
  const graft_node_info *node = args->node;
  arguments a = {
      .a = args->inputs[0],
      .b = args->inputs[1],
      .y = args->outputs[0],
      .types =
          {[Y] = node->outputs[0]->dtype->code, [A] = node->inputs[0]->dtype->code, [B] = node->inputs[1]->dtype->code},
      .combine = row,
  };
  plan_walk(node, &a.loops);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode_add(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, add_row);
}

static graft_status encode_sub(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, sub_row);
}

static graft_status encode_mul(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, mul_row);
}

static graft_status encode_div(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, div_row);
}

#define KERNEL(verb)                                                                                        \
  {                                                                                                         \
    .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY,                             \
    .name = GRAFT_TARGETED_NAME(verb##_float_rows), .op = "graft." #verb ".v1", .backend = "cpu",           \
    .required_features = GRAFT_TARGET_REQUIRES, .supports = supports, .in_place_inputs = 1u << 0 | 1u << 1, \
    .encode = encode_##verb                                                                                 \
  }

static const graft_kernel_def kernels[] = {KERNEL(add), KERNEL(sub), KERNEL(mul), KERNEL(div)};

extern const graft_extension GRAFT_TARGETED(graft_extension_binary);
const graft_extension GRAFT_TARGETED(graft_extension_binary) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(binary),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
