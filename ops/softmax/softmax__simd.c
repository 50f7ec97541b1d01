#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/stream.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/vector_math.h"
#include "ops/softmax/softmax.h"

enum { TO, FROM, N_OPERANDS };
enum { STREAMED_MOST = 8192 };                // elements of a row that is kept in the cache until it is finished
enum { MANY_ITEMS = 512, JOINED_ITEMS = 8 };  // rows overlap the more the longer an item is

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

// What is done to three rows in one go, so that arithmetic hides behind memory.
typedef struct pass {
  const float *x;  // weights e^(x - max) of this row are made
  float max;
  float *weights;
  float *before;  // the row before: |weights| holds its, and they are written here past the caches, times |factor|
  float factor;
  const float *next;  // and the largest of this one is looked for
} pass;

// A vector of a row's |n| elements, from |i| on. |has_before| and |has_next| are known where this is inlined.
static inline __attribute__((always_inline)) vec weigh(pass p, int64_t i, int64_t n, bool has_before, bool has_next,
                                                       vec *max) {
  if (has_before) vec_stream(p.before + i, vec_load(p.weights + i) * p.factor);
  const vec weights = vec_exp(vec_load(p.x + i) - p.max);
  vec_store(p.weights + i, weights);
  if (has_next) {
    *max = vec_max(*max, vec_load(p.next + i));
    vec_fetch_next_row(p.next + i, n);
  }
  return weights;
}

// Returns the sum of the weights; |out_max| is the largest of |next|. Rows before and after are whole vectors.
static inline __attribute__((always_inline)) float weigh_row(pass p, int64_t n, bool has_before, bool has_next,
                                                             float *out_max) {
  const vec start = vec_all(has_next ? vec_load_one(p.next) : 0);
  vec even = {0}, odd = {0}, even_max = start, odd_max = start;
  int64_t i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    even += weigh(p, i, n, has_before, has_next, &even_max);
    odd += weigh(p, i + LANES, n, has_before, has_next, &odd_max);
  }
  for (; i + LANES <= n; i += LANES) even += weigh(p, i, n, has_before, has_next, &even_max);
  if (i < n) {
    vec_store_n(p.weights + i, vec_exp(vec_load_n(p.x + i, n - i) - p.max), n - i);
    even += vec_load_n(p.weights + i, n - i);
  }
  if (has_next) *out_max = vec_reduce_max(vec_max(even_max, odd_max));
  return vec_reduce_sum(even + odd);
}

static void scale(const float *weights, float *y, int64_t n, float factor, bool streams) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store_or_stream(y + i, vec_load(weights + i) * factor, streams);
  if (i < n) vec_store_n(y + i, vec_load_n(weights + i, n - i) * factor, n - i);
}

static void share(const float *x, float *y, int64_t n) {
  const pass p = {.x = x, .max = largest(x, n), .weights = y};
  scale(y, y, n, 1 / weigh_row(p, n, false, false, NULL), false);
}

static void find_row(const arguments *a, int64_t row, const float **out_x, float **out_y) {
  int64_t offsets[N_OPERANDS];
  graft_loops_find_row(&a->loops, row, offsets);
  *out_x = (const float *)(const void *)(a->x + offsets[FROM]);
  *out_y = (float *)(void *)(a->y + offsets[TO]);
}

static void share_streaming(const arguments *a, graft_loops_item part) {
  float weights[STREAMED_MOST], *y;
  const int64_t n = a->loops.row_length;
  pass p = {.weights = weights};
  find_row(a, part.first_row, &p.x, &y);
  p.max = largest(p.x, n);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    float *next_y = NULL, sum, max = 0;
    const bool has_next = row + 1 < part.end_row;
    if (has_next) find_row(a, row + 1, &p.next, &next_y);
    if (!has_next) {
      sum = p.before ? weigh_row(p, n, true, false, NULL) : weigh_row(p, n, false, false, NULL);
    } else {
      sum = p.before ? weigh_row(p, n, true, true, &max) : weigh_row(p, n, false, true, &max);
    }
    p = (pass){.x = p.next, .max = max, .weights = weights, .before = y, .factor = 1 / sum};
    y = next_y;
  }
  scale(weights, p.before, n, p.factor, true);
  vec_stream_end();
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  if (a->streams) {
    share_streaming(a, part);
    return;
  }
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    const float *x;
    float *y;
    find_row(a, row, &x, &y);
    share(x, y, a->loops.row_length);
  }
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
  if (a.loops.n_items >= MANY_ITEMS) {
    a.loops.rows_per_item *= JOINED_ITEMS;
    a.loops.n_items = (a.loops.n_rows + a.loops.rows_per_item - 1) / a.loops.rows_per_item;
  }
  a.streams =
      a.loops.row_length <= STREAMED_MOST && graft_stream_pays(args, a.loops.row_length * (int64_t)sizeof(float));
  const graft_cpu_task task = {.run = run, .args = &a, .args_bytes = sizeof a, .n_items = a.loops.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static const graft_kernel_def kernels[] = {{
    .struct_size = sizeof kernels[0],
    .priority = GRAFT_TARGET_PRIORITY,
    .name = GRAFT_TARGETED_NAME(softmax_f32_rows),
    .op = "graft.softmax.v1",
    .backend = "cpu",
    .required_features = GRAFT_TARGET_REQUIRES,
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
