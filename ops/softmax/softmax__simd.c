#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"
#include "ops/softmax/softmax.h"

enum { TO, FROM, N_OPERANDS };
enum { STREAMED_MOST = 8192 };  // elements of a row that is kept in the cache until it is finished

typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  bool streams;
} arguments;

// A NaN may be passed over here: its exponential makes the whole row NaN.
static float largest(const float *x, int64_t n) {
  float max = vec_load_one(x);
  int64_t i = 0;
  if (n >= 2 * LANES) {
    vec even = vec_load(x), odd = vec_load(x + LANES);
    for (i = 2 * LANES; i + 2 * LANES <= n; i += 2 * LANES) {
      even = vec_max(even, vec_load(x + i));
      odd = vec_max(odd, vec_load(x + i + LANES));
    }
    max = vec_reduce_max(vec_max(even, odd));
  }
  for (; i < n; ++i) {
    const float value = vec_load_one(x + i);
    max = value > max ? value : max;
  }
  return max;
}

// Writes e^(x - max) and returns the sum.
static float exponentials(const float *x, float *y, int64_t n, float max) {
  const vec shift = vec_all(max);
  vec even = {0}, odd = {0};
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const vec first = vec_exp(vec_load(x + i) - shift), second = vec_exp(vec_load(x + i + LANES) - shift);
    vec_store(y + i, first);
    vec_store(y + i + LANES, second);
    even += first;
    odd += second;
    vec_fetch_next_row(x + i, n);
    vec_fetch_next_row(x + i + LANES, n);
  }
  for (; i < n; i += LANES) {
    const int64_t count = n - i < LANES ? n - i : LANES;
    vec_store_n(y + i, vec_exp(vec_load_n(x + i, count) - shift), count);
    even += vec_load_n(y + i, count);
  }
  return vec_reduce_sum(even + odd);
}

// |weights| is |y| itself, or memory of its own if results are streamed.
static void share(const float *x, float *weights, float *y, int64_t n) {
  const vec factor = vec_all(1 / exponentials(x, weights, n, largest(x, n)));
  const bool streams = weights != y;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    vec_store_or_stream(y + i, vec_load(weights + i) * factor, streams);
  }
  if (i < n) vec_store_n(y + i, vec_load_n(weights + i, n - i) * factor, n - i);
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  float weights[STREAMED_MOST];
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, row, offsets);
    const float *x = (const float *)(const void *)(a->x + offsets[FROM]);
    float *y = (float *)(void *)(a->y + offsets[TO]);
    share(x, a->streams ? weights : y, y, a->loops.row_length);
  }
  if (a->streams) vec_stream_end();
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[0], *y = node->outputs[0];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!graft_tensor_desc_is_dense_from(x, x->rank - 1) || !graft_tensor_desc_is_dense_from(y, y->rank - 1)) {
    return graft_refuse(why, "rows are not contiguous");
  }
  return true;
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_node_info *node = args->node;
  arguments a = {.x = args->inputs[0], .y = args->outputs[0]};
  const graft_tensor_desc *const operands[N_OPERANDS] = {[TO] = node->outputs[0], [FROM] = node->inputs[0]};
  graft_loops_init(&a.loops, operands, N_OPERANDS, GRAFT_LOOPS_LAST_DIMENSION);
  const int64_t bytes = (int64_t)graft_tensor_desc_bytes(node->outputs[0]);
  a.streams = a.loops.row_length <= STREAMED_MOST &&
              vec_should_stream(a.y, a.x, bytes, a.loops.row_length * (int64_t)sizeof(float));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(softmax_f32_rows),
    .op = "graft.softmax.v1",
    .backend = "cpu",
    .requires = GRAFT_TARGET_REQUIRES,
    .supports = supports,
    .in_place_inputs = 1u << 0,
    .encode = encode,
}};

extern const graft_extension GRAFT_TARGETED(graft_extension_softmax);
const graft_extension GRAFT_TARGETED(graft_extension_softmax) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(softmax),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
