#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"
#include "ops/unary/unary.h"

enum { Y, X, N_OPERANDS, BLOCK = 512 };

typedef struct parameters {
  float scale, bias;
} parameters;

// Writes f(x) to y, which is x or apart from it.
typedef void (*row_function)(const float *x, float *y, int64_t n, const parameters *p);

typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  graft_dtype_code type;
  row_function apply;
  parameters parameters;
} arguments;

static inline __attribute__((always_inline)) void apply_row(vec (*f)(vec, const parameters *), const float *x, float *y,
                                                            int64_t n, const parameters *p) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store(y + i, f(vec_load(x + i), p));
  if (i < n) vec_store_n(y + i, f(vec_load_n(x + i, n - i), p), n - i);
}

static inline vec silu(vec x, const parameters *p) {
  (void)p;
  return vec_silu(x);
}

static inline vec gelu(vec x, const parameters *p) {
  (void)p;
  return x * vec_normal_share(x);
}

// (1 + tanh(u))/2 is sigmoid(2u); here 2u = x·(2√(2/π) + 2√(2/π)·0.044715·x²), in double because a small result is as
// wrong in its last digits as a large exponent is.
static inline vec gelu_tanh(vec x, const parameters *p) {
  (void)p;
  const vec_f64 wide = __builtin_convertvector(x, vec_f64);
  const vec_f64 doubled = wide * (1.5957691216057308 + 0.0713548162726009 * (wide * wide));
  vec rest;
  const vec exponent = vec_split(&doubled, &rest);
  return x * vec_sigmoid_with(exponent, &rest);
}

static inline vec hyperbolic_tangent(vec x, const parameters *p) {
  (void)p;
  return vec_tanh(x);
}

static inline vec sigmoid(vec x, const parameters *p) {
  (void)p;
  return vec_sigmoid(x);
}

static inline vec scale(vec x, const parameters *p) {
  return vec_madd(x, vec_all(p->scale), vec_all(p->bias));
}

static void silu_row(const float *x, float *y, int64_t n, const parameters *p) {
  apply_row(silu, x, y, n, p);
}
static void gelu_row(const float *x, float *y, int64_t n, const parameters *p) {
  apply_row(gelu, x, y, n, p);
}
static void gelu_tanh_row(const float *x, float *y, int64_t n, const parameters *p) {
  apply_row(gelu_tanh, x, y, n, p);
}
static void tanh_row(const float *x, float *y, int64_t n, const parameters *p) {
  apply_row(hyperbolic_tangent, x, y, n, p);
}
static void sigmoid_row(const float *x, float *y, int64_t n, const parameters *p) {
  apply_row(sigmoid, x, y, n, p);
}
static void scale_row(const float *x, float *y, int64_t n, const parameters *p) {
  apply_row(scale, x, y, n, p);
}

// Through floats in blocks that stay in the nearest cache.
static void apply_to_halves(const arguments *a, const char *x, char *y, int64_t n) {
  float block[BLOCK];
  for (int64_t done = 0; done < n; done += BLOCK) {
    const int64_t count = n - done < BLOCK ? n - done : BLOCK;
    vec_load_typed_row(x + 2 * done, a->type, block, count);
    a->apply(block, block, count, &a->parameters);
    vec_store_typed_row(y + 2 * done, a->type, block, count);
  }
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, row, offsets);
    const char *x = a->x + offsets[X] + part.begin * a->loops.steps[X];
    char *y = a->y + offsets[Y] + part.begin * a->loops.steps[Y];
    if (a->type == GRAFT_DTYPE_F32) {
      a->apply((const float *)(const void *)x, (float *)(void *)y, part.end - part.begin, &a->parameters);
    } else {
      apply_to_halves(a, x, y, part.end - part.begin);
    }
  }
}

static void plan_walk(const graft_node_info *node, graft_loops *loops) {
  const graft_tensor_desc *const operands[N_OPERANDS] = {[Y] = node->outputs[0], [X] = node->inputs[0]};
  graft_loops_init(loops, operands, N_OPERANDS, GRAFT_LOOPS_LONGEST_ROWS);
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype dtype = node->inputs[0]->dtype;
  if (dtype != GRAFT_F32 && dtype != GRAFT_F16 && dtype != GRAFT_BF16) {
    return graft_refuse(why, "x is %s, not f32, f16 or bf16", dtype->name);
  }
  graft_loops loops;
  plan_walk(node, &loops);
  if (loops.steps[X] != dtype->block_bytes || loops.steps[Y] != dtype->block_bytes) {
    return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args, row_function apply) {
  arguments a = {.x = args->inputs[0], .y = args->outputs[0], .type = args->node->inputs[0]->dtype->code};
  plan_walk(args->node, &a.loops);
  a.apply = apply;
  if (apply == scale_row) {
    const graft_scale_attrs *attrs = args->node->attrs;
    a.parameters = (parameters){.scale = (float)attrs->scale, .bias = (float)attrs->bias};
  }
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode_silu(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, silu_row);
}

static graft_status encode_gelu(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_gelu_attrs *attrs = args->node->attrs;
  return encode(encoder, args, attrs->tanh_approximation ? gelu_tanh_row : gelu_row);
}

static graft_status encode_tanh(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, tanh_row);
}

static graft_status encode_sigmoid(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, sigmoid_row);
}

static graft_status encode_scale(graft_encoder *encoder, const graft_encode_args *args) {
  return encode(encoder, args, scale_row);
}

#define KERNEL(verb)                                                                              \
  {                                                                                               \
    .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY,                   \
    .name = GRAFT_TARGETED_NAME(verb##_float_rows), .op = "graft." #verb ".v1", .backend = "cpu", \
    .required_features = GRAFT_TARGET_REQUIRES, .supports = supports, .in_place_inputs = 1u << 0, \
    .encode = encode_##verb                                                                       \
  }

static const graft_kernel_def kernels[] = {KERNEL(silu), KERNEL(gelu), KERNEL(tanh), KERNEL(sigmoid), KERNEL(scale)};

extern const graft_extension GRAFT_TARGETED(graft_extension_unary);
const graft_extension GRAFT_TARGETED(graft_extension_unary) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(unary),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
