#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/simd.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/affine/affine.h"

enum { Y, X, FACTOR, ADDEND, N_OPERANDS, BLOCK = 512 };

// The floats of one operand along a row: one for each element of the result, or one for all; NULL: there is none.
typedef struct operand {
  const float *values;
  bool is_repeated;
} operand;

typedef struct arguments {
  graft_loops loops;
  const char *data[N_OPERANDS];  // NULL: there is no such operand; [Y] is |y|
  char *y;
  graft_dtype_code types[N_OPERANDS];
  bool is_modulation;
  bool streams;  // float results past the caches
} arguments;

// |n| ≤ LANES elements from |i| on.
static inline __attribute__((always_inline)) vec take(operand o, int64_t i, int64_t n) {
  if (o.is_repeated) return vec_all(*o.values);
  return n == LANES ? vec_load(o.values + i) : vec_load_n(o.values + i, n);
}

// Product and sum are rounded one after the other, as apart.
static inline __attribute__((always_inline)) vec compute(const operand *in, bool is_modulation, int64_t i, int64_t n) {
  const vec factor = take(in[FACTOR], i, n), y = take(in[X], i, n) * (is_modulation ? factor + 1.0f : factor);
  return in[ADDEND].values != NULL ? y + take(in[ADDEND], i, n) : y;
}

static inline __attribute__((always_inline)) void make(const operand *in, bool is_modulation, bool streams, float *y,
                                                       int64_t n) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store_or_stream(y + i, compute(in, is_modulation, i, LANES), streams);
  if (i < n) vec_store_n(y + i, compute(in, is_modulation, i, n - i), n - i);
}

// What would be asked for every element is known in the loops of the most frequent kind.
static void make_row(const arguments *a, const operand *in, float *y, int64_t n) {
  if (in[X].is_repeated || in[FACTOR].is_repeated || in[ADDEND].is_repeated || in[ADDEND].values == NULL) {
    make(in, a->is_modulation, a->streams, y, n);
    return;
  }
  const operand dense[N_OPERANDS] = {
      [X] = {in[X].values, false}, [FACTOR] = {in[FACTOR].values, false}, [ADDEND] = {in[ADDEND].values, false}};
  if (a->is_modulation && a->streams) {
    make(dense, true, true, y, n);
  } else if (a->is_modulation) {
    make(dense, true, false, y, n);
  } else if (a->streams) {
    make(dense, false, true, y, n);
  } else {
    make(dense, false, false, y, n);
  }
}

// The floats of |n| elements at |p|: where they lie, or converted into |block|.
static operand load_operand(const char *p, graft_dtype_code type, bool is_repeated, float *block, int64_t n) {
  if (p == NULL) return (operand){.values = NULL};
  if (type == GRAFT_DTYPE_F32) return (operand){(const float *)(const void *)p, is_repeated};
  vec_load_typed_row(p, type, block, is_repeated ? 1 : n);
  return (operand){block, is_repeated};
}

static void run_piece(const arguments *a, const int64_t *offsets, int64_t begin, int64_t n) {
  float blocks[N_OPERANDS][BLOCK];
  const int64_t *steps = a->loops.steps;
  for (int64_t done = 0; done < n; done += BLOCK) {
    const int64_t count = n - done < BLOCK ? n - done : BLOCK;
    operand in[N_OPERANDS] = {{NULL, false}};
    for (int k = X; k < N_OPERANDS; ++k) {
      const char *p = a->data[k] != NULL ? a->data[k] + offsets[k] + (begin + done) * steps[k] : NULL;
      in[k] = load_operand(p, a->types[k], steps[k] == 0, blocks[k], count);
    }
    char *y = a->y + offsets[Y] + (begin + done) * steps[Y];
    if (a->types[Y] == GRAFT_DTYPE_F32) {
      make_row(a, in, (float *)(void *)y, count);
    } else {
      make_row(a, in, blocks[Y], count);
      vec_store_typed_row(y, a->types[Y], blocks[Y], count);
    }
  }
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS] = {0};
    graft_loops_find_row(&a->loops, row, offsets);
    run_piece(a, offsets, part.begin, part.end - part.begin);
  }
  if (a->streams) vec_stream_end();
}

// Fills the walk, and the operands' descriptions; returns how many there are.
static int32_t plan_walk(const graft_node_info *node, const graft_tensor_desc **operands, graft_loops *loops) {
  const int32_t n = node->inputs[ADDEND - 1] != NULL ? N_OPERANDS : ADDEND;
  operands[Y] = node->outputs[0];
  for (int32_t k = X; k < n; ++k) operands[k] = node->inputs[k - 1];
  graft_loops_init(loops, operands, n, GRAFT_LOOPS_LONGEST_ROWS);
  return n;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *operands[N_OPERANDS];
  graft_loops loops;
  const int32_t n = plan_walk(node, operands, &loops);
  for (int32_t k = 0; k < n; ++k) {
    const graft_dtype dtype = operands[k]->dtype;
    if (dtype != GRAFT_F32 && dtype != GRAFT_F16 && dtype != GRAFT_BF16)
      return graft_refuse(why, "an operand is %s, not f32, f16 or bf16", dtype->name);
    if (loops.steps[k] != dtype->block_bytes && (k == Y || loops.steps[k] != 0))
      return graft_refuse(why, "rows are neither contiguous nor one element repeated");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args, bool is_modulation) {
  const graft_tensor_desc *operands[N_OPERANDS];
  arguments a = {.y = args->outputs[0], .is_modulation = is_modulation};
  const int32_t n = plan_walk(args->node, operands, &a.loops);
  for (int32_t k = 0; k < n; ++k) {
    a.types[k] = operands[k]->dtype->code;
    a.data[k] = k == Y ? args->outputs[0] : args->inputs[k - 1];
  }
  const int64_t row_bytes = a.loops.n_rows > 1 ? a.loops.row_length * (int64_t)sizeof(float) : 0;
  a.streams = a.types[Y] == GRAFT_DTYPE_F32 && graft_stream_pays(args, row_bytes);
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode_affine(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, false);
}

static graft_status encode_modulate(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, true);
}

#define KERNEL(verb, inputs)                                                                     \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY,                    \
  .name = GRAFT_TARGETED_NAME(verb##_float_rows), .op = "graft." #verb ".v1", .backend = "cpu",  \
  .required_features = GRAFT_TARGET_REQUIRES, .supports = supports, .in_place_inputs = (inputs), \
  .encode = encode_##verb

// Every element is read before it is written, so the result may lie on whichever input looks like it.
static const graft_kernel_def kernels[] = {{KERNEL(affine, 7u)}, {KERNEL(modulate, 7u)}};

extern const graft_extension GRAFT_TARGETED(graft_extension_affine);
const graft_extension GRAFT_TARGETED(graft_extension_affine) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(affine),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
