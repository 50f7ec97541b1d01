#include <string.h>

#include "graft/extension.h"
#include "ops/common/cpu/loops.h"
#include "ops/common/cpu/strided_copy.h"
#include "ops/common/cpu/target.h"
#include "ops/common/cpu/transpose.h"
#include "ops/fused/concat_permute/concat_permute.h"

enum { Y, X, N_OPERANDS };
enum { LINE_BYTES = 64, ITEM_BYTES = 32768, TURNED_MIN = 4 };

// One input on its way to its part of the result: as rows, or where what lies side by side in one lies apart in the
// other, in tiles that use whole cache lines of both.
typedef struct arguments {
  graft_loops loops;
  const char *x;
  char *y;
  graft_dtype_code from, to;
  bool has_factor;
  float factor;
  int32_t turned;      // the walk's dimension along which x is dense
  int64_t n_tiles[2];  // along that, and along the row
  int64_t tiles_per_item, n_items;
} arguments;

static int64_t size_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_F32 ? 4 : 2;
}

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

ALWAYS_INLINE vec change(const arguments *a, vec v) {
  return a->has_factor ? vec_madd(v, vec_all(a->factor), vec_all(0)) : v;
}

// ---- rows ----

ALWAYS_INLINE void convert(const arguments *a, const graft_dtype_code from, const graft_dtype_code to, const char *x,
                           char *y, int64_t n) {
  const int64_t in = size_of(from), out = size_of(to);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) vec_store_typed(y + i * out, to, change(a, vec_load_typed(x + i * in, from)));
  if (i < n) vec_store_typed_n(y + i * out, to, change(a, vec_load_typed_n(x + i * in, from, n - i)), n - i);
}

static void convert_row(const arguments *a, const char *x, char *y, int64_t n) {
  if (a->from == GRAFT_DTYPE_F32 && a->to == GRAFT_DTYPE_F16) {
    convert(a, GRAFT_DTYPE_F32, GRAFT_DTYPE_F16, x, y, n);
  } else if (a->from == GRAFT_DTYPE_F32 && a->to == GRAFT_DTYPE_BF16) {
    convert(a, GRAFT_DTYPE_F32, GRAFT_DTYPE_BF16, x, y, n);
  } else {
    convert(a, a->from, a->to, x, y, n);
  }
}

// Elements that do not lie side by side are collected first, or handed out afterwards.
static void convert_strided_row(const arguments *a, const char *x, char *y, int64_t n) {
  const int64_t in = size_of(a->from), out = size_of(a->to), from = a->loops.steps[X], to = a->loops.steps[Y];
  char gathered[4 * LANES], made[4 * LANES];
  for (int64_t i = 0; i < n; i += LANES) {
    const int64_t count = n - i < LANES ? n - i : LANES;
    for (int64_t k = 0; k < count; ++k) memcpy(gathered + k * in, x + (i + k) * from, (size_t)in);
    convert_row(a, gathered, made, count);
    for (int64_t k = 0; k < count; ++k) memcpy(y + (i + k) * to, made + k * out, (size_t)out);
  }
}

static void run_rows(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const graft_loops_item part = graft_loops_find_item(&a->loops, item);
  const bool is_dense = a->loops.steps[X] == size_of(a->from) && a->loops.steps[Y] == size_of(a->to);
  for (int64_t row = part.first_row; row < part.end_row; ++row) {
    int64_t offsets[N_OPERANDS];
    graft_loops_find_row(&a->loops, row, offsets);
    const char *x = a->x + offsets[X] + part.begin * a->loops.steps[X];
    char *y = a->y + offsets[Y] + part.begin * a->loops.steps[Y];
    (is_dense ? convert_row : convert_strided_row)(a, x, y, part.end - part.begin);
  }
}

// ---- tiles: LANES elements along x's dense dimension, a cache line of y along the other ----

typedef struct tile {
  const char *x;
  char *y;
  int64_t x_step, y_step;  // bytes from column to column of x, and from row to row of y
  int64_t rows, columns;
} tile;

ALWAYS_INLINE void turn(const arguments *a, const graft_dtype_code from, const graft_dtype_code to, const tile *t) {
  const int64_t out = size_of(to);
  char lines[LANES][LINE_BYTES];
  for (int64_t first = 0; first < t->columns; first += LANES) {
    vec_u32 square[LANES];
    VEC_UNROLL
    for (int j = 0; j < LANES; ++j) {
      // Columns beyond the last are the last once more, and not kept.
      const int64_t column = first + j < t->columns ? first + j : t->columns - 1;
      const char *x = t->x + column * t->x_step;
      const vec v = t->rows == LANES ? vec_load_typed(x, from) : vec_load_typed_n(x, from, t->rows);
      square[j] = (vec_u32)change(a, v);
    }
    vec_transpose(square);
    VEC_UNROLL
    for (int i = 0; i < LANES; ++i) vec_store_typed(lines[i] + first * out, to, (vec)square[i]);
  }
  for (int64_t i = 0; i < t->rows; ++i) {
    if (t->columns * out == LINE_BYTES) {
      memcpy(t->y + i * t->y_step, lines[i], LINE_BYTES);
    } else {
      memcpy(t->y + i * t->y_step, lines[i], (size_t)(t->columns * out));
    }
  }
}

static void turn_tile(const arguments *a, const tile *t) {
  if (a->from == GRAFT_DTYPE_F32 && a->to == GRAFT_DTYPE_F16) {
    turn(a, GRAFT_DTYPE_F32, GRAFT_DTYPE_F16, t);
  } else if (a->from == GRAFT_DTYPE_F32 && a->to == GRAFT_DTYPE_BF16) {
    turn(a, GRAFT_DTYPE_F32, GRAFT_DTYPE_BF16, t);
  } else {
    turn(a, a->from, a->to, t);
  }
}

// Where tile |index| lies: the rows of the walk but for the dimension |turned|, then along that, then along the row.
static tile find_tile(const arguments *a, int64_t index) {
  const graft_loops *loops = &a->loops;
  const int64_t columns = LINE_BYTES / size_of(a->to), column = index % a->n_tiles[1] * columns;
  const int64_t row = index / a->n_tiles[1] % a->n_tiles[0] * LANES, n_rows = loops->shape[a->turned];
  int64_t outer = index / a->n_tiles[1] / a->n_tiles[0], offsets[N_OPERANDS] = {0};
  for (int32_t d = loops->rank - 1; d >= 0; --d) {
    int64_t position = row;
    if (d != a->turned) {
      position = outer % loops->shape[d];
      outer /= loops->shape[d];
    }
    for (int32_t k = 0; k < N_OPERANDS; ++k) offsets[k] += position * loops->strides[k][d];
  }
  return (tile){.x = a->x + offsets[X] + column * loops->steps[X],
                .y = a->y + offsets[Y] + column * loops->steps[Y],
                .x_step = loops->steps[X],
                .y_step = loops->strides[Y][a->turned],
                .rows = n_rows - row < LANES ? n_rows - row : LANES,
                .columns = loops->row_length - column < columns ? loops->row_length - column : columns};
}

static void run_tiles(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  const int64_t n_rows = a->loops.n_rows / a->loops.shape[a->turned], n = n_rows * a->n_tiles[0] * a->n_tiles[1];
  const int64_t first = item * a->tiles_per_item;
  for (int64_t i = first; i < n && i < first + a->tiles_per_item; ++i) {
    const tile t = find_tile(a, i);
    turn_tile(a, &t);
  }
}

// Whether tiles pay: y is dense along its rows, x along another dimension that is long enough.
static bool is_turned(arguments *a) {
  const graft_loops *loops = &a->loops;
  if (loops->steps[Y] != size_of(a->to) || loops->steps[X] == size_of(a->from)) return false;
  if (loops->row_length < TURNED_MIN) return false;
  for (a->turned = loops->rank - 1; a->turned >= 0; --a->turned) {
    if (loops->strides[X][a->turned] == size_of(a->from) && loops->shape[a->turned] >= TURNED_MIN) return true;
  }
  return false;
}

static void share_tiles(arguments *a) {
  const int64_t columns = LINE_BYTES / size_of(a->to), n_rows = a->loops.shape[a->turned];
  a->n_tiles[0] = divide_up(n_rows, LANES);
  a->n_tiles[1] = divide_up(a->loops.row_length, columns);
  a->tiles_per_item = divide_up(ITEM_BYTES, LANES * LINE_BYTES);
  a->n_items = divide_up(a->loops.n_rows / n_rows * a->n_tiles[0] * a->n_tiles[1], a->tiles_per_item);
}

// ---- the node ----

// Input |input| with its dimensions in the result's order, and the part of the result that it becomes.
static int64_t describe_part(const graft_node_info *node, uint32_t input, graft_tensor_desc *x, graft_tensor_desc *y) {
  const graft_concat_permute_attrs *attrs = node->attrs;
  const graft_tensor_desc *source = node->inputs[input];
  int64_t before = 0, offset = 0;
  *x = *source;
  *y = *node->outputs[0];
  for (uint32_t i = 0; i < input; ++i) before += node->inputs[i]->shape[attrs->axis];
  for (int32_t d = 0; d < attrs->rank; ++d) {
    x->shape[d] = y->shape[d] = source->shape[attrs->order[d]];
    x->strides[d] = source->strides[attrs->order[d]];
    if (attrs->order[d] == attrs->axis) offset = before * y->strides[d];
  }
  return offset;
}

static void swap(int64_t *values, int32_t a, int32_t b) {
  const int64_t value = values[a];
  values[a] = values[b];
  values[b] = value;
}

// Rows that are dense on both sides are taken in the order in which they lie in x: reading ahead of itself is what a
// processor does best, and whole rows are whole lines wherever they go.
static void order_rows(graft_tensor_desc *x, graft_tensor_desc *y) {
  const int32_t last = x->rank - 1;
  if (last < 0 || x->strides[last] != x->dtype->block_bytes || y->strides[last] != y->dtype->block_bytes) return;
  for (int32_t d = 1; d < last; ++d) {
    for (int32_t at = d; at > 0 && x->strides[at - 1] < x->strides[at]; --at) {
      swap(x->shape, at - 1, at);
      swap(x->strides, at - 1, at);
      swap(y->shape, at - 1, at);
      swap(y->strides, at - 1, at);
    }
  }
}

static bool is_float(graft_dtype dtype) {
  return dtype == GRAFT_F32 || dtype == GRAFT_F16 || dtype == GRAFT_BF16;
}

static bool only_moves(const graft_node_info *node) {
  const graft_concat_permute_attrs *attrs = node->attrs;
  return attrs->factor == 1 && node->inputs[0]->dtype == node->outputs[0]->dtype;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_dtype from = node->inputs[0]->dtype, to = node->outputs[0]->dtype;
  if (only_moves(node) || (is_float(from) && is_float(to))) return true;
  return graft_refuse(why, "%s to %s is not between two of f32, f16 and bf16", from->name, to->name);
}

typedef struct move {
  graft_strided_copy copy;
  const void *x;
  void *y;
} move;

static void run_move(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const move *m = args;
  graft_strided_copy_run(&m->copy, m->x, m->y, item);
}

static graft_status encode_move(graft_encoder *encoder, const graft_encode_args *args, uint32_t input) {
  graft_tensor_desc x, y;
  const int64_t offset = describe_part(args->node, input, &x, &y);
  move m = {.x = args->inputs[input], .y = (char *)args->outputs[0] + offset};
  graft_strided_copy_init(&m.copy, &x, &y);
  const graft_cpu_task task = {.run = run_move, .args = &m, .args_bytes = sizeof m, .n_items = m.copy.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode_conversion(graft_encoder *encoder, const graft_encode_args *args, uint32_t input) {
  const graft_concat_permute_attrs *attrs = args->node->attrs;
  graft_tensor_desc x, y;
  const int64_t offset = describe_part(args->node, input, &x, &y);
  if (graft_tensor_desc_elements(&x) == 0) return GRAFT_OK;
  arguments a = {.x = args->inputs[input],
                 .y = (char *)args->outputs[0] + offset,
                 .from = x.dtype->code,
                 .to = y.dtype->code,
                 .has_factor = attrs->factor != 1,
                 .factor = (float)attrs->factor};
  order_rows(&x, &y);
  const graft_tensor_desc *const operands[N_OPERANDS] = {[Y] = &y, [X] = &x};
  graft_loops_init(&a.loops, operands, N_OPERANDS, GRAFT_LOOPS_LONGEST_ROWS);
  a.n_items = a.loops.n_items;
  const bool in_tiles = is_turned(&a);
  if (in_tiles) share_tiles(&a);
  const graft_cpu_task task = {
      .run = in_tiles ? run_tiles : run_rows, .args = &a, .args_bytes = sizeof a, .n_items = a.n_items};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const bool moves = only_moves(args->node);
  for (uint32_t i = 0; i < args->node->n_inputs; ++i) {
    GRAFT_TRY((moves ? encode_move : encode_conversion)(encoder, args, i));
  }
  return GRAFT_OK;
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .priority = GRAFT_TARGET_PRIORITY,
                                            .name = GRAFT_TARGETED_NAME(concat_permute_float_tiles),
                                            .op = "graft.concat_permute.v1",
                                            .backend = "cpu",
                                            .required_features = GRAFT_TARGET_REQUIRES,
                                            .supports = supports,
                                            .encode = encode,
                                            .traits = GRAFT_KERNEL_ANY_OUTPUT}};

extern const graft_extension GRAFT_TARGETED(graft_extension_concat_permute);
const graft_extension GRAFT_TARGETED(graft_extension_concat_permute) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(concat_permute),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
