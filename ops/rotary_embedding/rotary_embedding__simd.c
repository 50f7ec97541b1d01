#include "graft/extension.h"
#include "ops/common/cpu/rms.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/linear_i8_rms_norm_rotary/linear_i8_rms_norm_rotary.h"
#include "ops/fused/rms_norm_rotary/rms_norm_rotary.h"
#include "ops/linear_i8/linear_i8_rows_target.h"
#include "ops/rotary_embedding/rotary_embedding.h"

// The inputs of graft.rms_norm_rotary.v1 have a weight between them.
enum { X, TABLE, NORM_WEIGHT = 1, NORM_TABLE = 2, ITEM_BYTES = 32768, MAX_HEADS = 4 };
enum { WEIGHT = 1, PRODUCT_NORM = 3, PRODUCT_TABLE };  // of graft.linear_i8_rms_norm_rotary.v1

typedef uint64_t vec_pairs __attribute__((vector_size(4 * LANES)));  // two neighbouring floats in each lane

typedef struct arguments {
  const char *x, *table;
  char *y;
  graft_dtype_code type;
  int64_t shape[4], x_strides[4], y_strides[4];  // bytes
  int64_t item_stride, position_stride;          // of the table, bytes
  int64_t n_pairs;
  bool is_half;
  bool has_norm;       // each head is brought to a root mean square of 1 and weighted first
  const char *weight;  // NULL: none
  graft_dtype_code weight_type;
  double eps;
  int64_t positions_per_item;  // counted over all items of the batch
} arguments;

// Some heads of one position of one batch item: all are turned by the same row of the table. They are few, because
// heads often lie 512 bytes apart: more of them would fall on the same lines of the L1 cache, and loads wait for stores
// that end in the same twelve bits of address.
typedef struct position {
  const arguments *a;
  const char *x;
  char *y;
  const float *table;
  int64_t n_heads;
  float factors[MAX_HEADS];  // of the norm
} position;

static int64_t size_of(graft_dtype_code type) {
  return type == GRAFT_DTYPE_F32 ? 4 : 2;
}

static vec load(const char *p, graft_dtype_code type, int64_t n) {
  return n == LANES ? vec_load_typed(p, type) : vec_load_typed_n(p, type, n);
}

static void store(char *p, graft_dtype_code type, vec v, int64_t n) {
  if (n == LANES) {
    vec_store_typed(p, type, v);
  } else {
    vec_store_typed_n(p, type, v, n);
  }
}

// Both floats of every pair become its first (cosine) or second (sine). Pairs lie in memory order, first float lowest.
static vec both_first(vec v) {
  const vec_pairs first = (vec_pairs)v & 0xffffffffu;
  return (vec)(first | first << 32);
}

static vec both_second(vec v) {
  const vec_pairs second = (vec_pairs)v >> 32;
  return (vec)(second | second << 32);
}

static vec exchanged(vec v) {
  return (vec)((vec_pairs)v << 32 | (vec_pairs)v >> 32);
}

// Weights of channels |channel| and following.
static inline vec weights_at(const arguments *a, int64_t channel, int64_t n) {
  return a->weight ? load(a->weight + channel * size_of(a->weight_type), a->weight_type, n) : vec_all(1);
}

static inline __attribute__((always_inline)) void rotate_interleaved(const position *p, graft_dtype_code type,
                                                                     bool has_norm) {
  const arguments *a = p->a;
  const int64_t size = size_of(type);
  for (int64_t i = 0; i < 2 * a->n_pairs; i += LANES) {
    const int64_t n = 2 * a->n_pairs - i < LANES ? 2 * a->n_pairs - i : LANES;
    const vec row = load((const char *)(p->table + i), GRAFT_DTYPE_F32, n);
    const vec cosine = both_first(row);
    const vec sine = (vec)((vec_pairs)both_second(row) ^ 0x80000000u);  // of the first float of a pair: negative
    const vec weights = has_norm ? weights_at(a, i, n) : (vec){0};
    for (int64_t h = 0; h < p->n_heads; ++h) {
      vec x = load(p->x + h * a->x_strides[2] + i * size, type, n);
      if (has_norm) x = x * p->factors[h] * weights;
      store(p->y + h * a->y_strides[2] + i * size, type, vec_madd(x, cosine, exchanged(x) * sine), n);
    }
  }
}

static inline __attribute__((always_inline)) void rotate_halves(const position *p, graft_dtype_code type,
                                                                bool has_norm) {
  const arguments *a = p->a;
  const int64_t size = size_of(type), distance = a->n_pairs * size;
  for (int64_t i = 0; i < a->n_pairs; i += LANES) {
    const int64_t n = a->n_pairs - i < LANES ? a->n_pairs - i : LANES;
    float cosines[LANES] = {0}, sines[LANES] = {0};
    for (int64_t k = 0; k < n; ++k) {
      cosines[k] = p->table[2 * (i + k)];
      sines[k] = p->table[2 * (i + k) + 1];
    }
    const vec cosine = vec_load(cosines), sine = vec_load(sines);
    const vec first_weights = has_norm ? weights_at(a, i, n) : (vec){0};
    const vec second_weights = has_norm ? weights_at(a, i + a->n_pairs, n) : (vec){0};
    for (int64_t h = 0; h < p->n_heads; ++h) {
      const char *x = p->x + h * a->x_strides[2] + i * size;
      char *y = p->y + h * a->y_strides[2] + i * size;
      vec first = load(x, type, n), second = load(x + distance, type, n);
      if (has_norm) {
        first = first * p->factors[h] * first_weights;
        second = second * p->factors[h] * second_weights;
      }
      store(y, type, vec_madd(first, cosine, -second * sine), n);
      store(y + distance, type, vec_madd(first, sine, second * cosine), n);
    }
  }
}

static void copy_rest(const position *p) {
  const arguments *a = p->a;
  const int64_t size = size_of(a->type), done = 2 * a->n_pairs * size;
  if (p->x == p->y) return;
  for (int64_t h = 0; h < p->n_heads; ++h) {
    memcpy(p->y + h * a->y_strides[2] + done, p->x + h * a->x_strides[2] + done, (size_t)(a->shape[3] * size - done));
  }
}

static void normalise_rest(const position *p) {
  const arguments *a = p->a;
  for (int64_t i = 2 * a->n_pairs; i < a->shape[3]; i += LANES) {
    const int64_t n = a->shape[3] - i < LANES ? a->shape[3] - i : LANES;
    const vec weights = weights_at(a, i, n);
    for (int64_t h = 0; h < p->n_heads; ++h) {
      const vec x = load(p->x + h * a->x_strides[2] + i * 4, GRAFT_DTYPE_F32, n);
      store(p->y + h * a->y_strides[2] + i * 4, GRAFT_DTYPE_F32, x * p->factors[h] * weights, n);
    }
  }
}

static void normalise_and_rotate(position *p) {
  const arguments *a = p->a;
  for (int64_t h = 0; h < p->n_heads; ++h) {
    p->factors[h] = rms_factor((const float *)(const void *)(p->x + h * a->x_strides[2]), a->shape[3], a->eps);
  }
  if (a->is_half) {
    rotate_halves(p, GRAFT_DTYPE_F32, true);
  } else {
    rotate_interleaved(p, GRAFT_DTYPE_F32, true);
  }
  normalise_rest(p);
}

static void rotate(const position *p) {
  const bool is_f32 = p->a->type == GRAFT_DTYPE_F32;
  if (p->a->is_half && is_f32) {
    rotate_halves(p, GRAFT_DTYPE_F32, false);
  } else if (p->a->is_half) {
    rotate_halves(p, p->a->type, false);
  } else if (is_f32) {
    rotate_interleaved(p, GRAFT_DTYPE_F32, false);
  } else {
    rotate_interleaved(p, p->a->type, false);
  }
  copy_rest(p);
}

static void rotate_heads(const arguments *a, int64_t batch, int64_t at) {
  const char *table = a->table + batch * a->item_stride + at * a->position_stride;
  position p = {.a = a, .table = (const float *)(const void *)table};
  for (int64_t h = 0; h < a->shape[2]; h += MAX_HEADS) {
    p.n_heads = a->shape[2] - h < MAX_HEADS ? a->shape[2] - h : MAX_HEADS;
    p.x = a->x + batch * a->x_strides[0] + at * a->x_strides[1] + h * a->x_strides[2];
    p.y = a->y + batch * a->y_strides[0] + at * a->y_strides[1] + h * a->y_strides[2];
    if (a->has_norm) {
      normalise_and_rotate(&p);
    } else {
      rotate(&p);
    }
  }
}

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  (void)worker;
  const arguments *a = args;
  int64_t end = (item + 1) * a->positions_per_item;
  if (end > a->shape[0] * a->shape[1]) end = a->shape[0] * a->shape[1];
  for (int64_t i = item * a->positions_per_item; i < end; ++i) rotate_heads(a, i / a->shape[1], i % a->shape[1]);
}

static bool can_rotate(const graft_tensor_desc *x, const graft_tensor_desc *table, graft_reason *why) {
  if (!graft_tensor_desc_is_dense_from(x, 3)) return graft_refuse(why, "channels of a head are not contiguous");
  return graft_tensor_desc_is_dense_from(table, table->rank - 2) ||
         graft_refuse(why, "rows of the table are not contiguous");
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X];
  if (x->dtype != GRAFT_F32 && x->dtype != GRAFT_F16 && x->dtype != GRAFT_BF16) {
    return graft_refuse(why, "x is %s, not f32, f16 or bf16", x->dtype->name);
  }
  return can_rotate(x, node->inputs[TABLE], why);
}

static bool supports_norm(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[NORM_WEIGHT];
  if (x->dtype != GRAFT_F32) return graft_refuse(why, "x is %s, not f32", x->dtype->name);
  if (!rms_takes_weight(weight)) return graft_refuse(why, "the weight is not contiguous f32, f16 or bf16");
  return can_rotate(x, node->inputs[NORM_TABLE], why);
}

typedef struct operand {
  void *data;
  const graft_tensor_desc *desc;
} operand;

static void describe_heads(arguments *a, operand x, operand y, const graft_tensor_desc *table) {
  a->x = x.data;
  a->y = y.data;
  a->type = x.desc->dtype->code;
  a->item_stride = table->rank == 4 ? table->strides[0] : 0;
  a->position_stride = table->strides[table->rank - 3];
  a->n_pairs = table->shape[table->rank - 2];
  for (int d = 0; d < 4; ++d) {
    a->shape[d] = x.desc->shape[d];
    a->x_strides[d] = x.desc->strides[d];
    a->y_strides[d] = y.desc->strides[d];
  }
}

static graft_status encode_heads(graft_encoder *encoder, const graft_encode_args *args, arguments *a,
                                 const graft_tensor_desc *table) {
  const graft_tensor_desc *x = args->node->inputs[X], *y = args->node->outputs[0];
  if (graft_tensor_desc_elements(x) == 0) return GRAFT_OK;
  describe_heads(a, (operand){args->inputs[X], x}, (operand){args->outputs[0], y}, table);
  const int64_t bytes = a->shape[2] * a->shape[3] * size_of(a->type);
  a->positions_per_item = bytes < ITEM_BYTES ? ITEM_BYTES / bytes : 1;
  const int64_t n = a->shape[0] * a->shape[1];
  const graft_cpu_task task = {.run = run,
                               .args = a,
                               .args_bytes = sizeof *a,
                               .n_items = (n + a->positions_per_item - 1) / a->positions_per_item};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_rotary_attrs *attrs = args->node->attrs;
  arguments a = {.table = args->inputs[TABLE], .is_half = attrs->style == GRAFT_ROTARY_HALF};
  return encode_heads(encoder, args, &a, args->node->inputs[TABLE]);
}

static graft_status encode_norm(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_rms_norm_rotary_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *weight = args->node->inputs[NORM_WEIGHT];
  arguments a = {.table = args->inputs[NORM_TABLE],
                 .is_half = attrs->style == GRAFT_ROTARY_HALF,
                 .has_norm = true,
                 .weight = args->inputs[NORM_WEIGHT],
                 .weight_type = weight ? weight->dtype->code : GRAFT_DTYPE_F32,
                 .eps = attrs->eps};
  return encode_heads(encoder, args, &a, args->node->inputs[NORM_TABLE]);
}

// The product's rows become heads where they are, in the result, while they are near.
typedef struct product_arguments {
  arguments heads;
  graft_gemm_i8 product;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
} product_arguments;

static void run_product(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const product_arguments *a = args;
  const graft_gemm_i8 *g = &a->product;
  const int64_t few = graft_gemm_i8_few_rows(g->core), first = item * few;
  const int64_t rows = g->m - first < few ? g->m - first : few, n_positions = a->heads.shape[1];
  const linear_i8_rows_part part = {
      .first = first, .n = rows, .end = g->n, .out = (float *)(void *)a->heads.y + first * g->n, .row_stride = g->n};
  linear_i8_rows_run(g, &part, a->scratch + (size_t)worker->index * a->scratch_bytes);
  for (int64_t i = first; i < first + rows; ++i) rotate_heads(&a->heads, i / n_positions, i % n_positions);
}

static bool supports_product(const graft_node_info *node, graft_reason *why) {
  if (!linear_i8_rows_supports(node, WEIGHT, why)) return false;
  if (!rms_takes_weight(node->inputs[PRODUCT_NORM])) {
    return graft_refuse(why, "the norm's weight is not contiguous f32, f16 or bf16");
  }
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "the result is not contiguous");
  return can_rotate(node->outputs[0], node->inputs[PRODUCT_TABLE], why);
}

static bool prefers_product(const graft_node_info *node, graft_reason *why) {
  return linear_i8_rows_stay_near(node, WEIGHT, why);
}

static graft_status prepare_product(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_gemm_i8 g = linear_i8_rows_describe(node, WEIGHT);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  linear_i8_rows_prepare(node, WEIGHT, out_prepared);
  out_prepared->workspace_bytes = n_workers * graft_gemm_i8_few_scratch_bytes(g.core, g.k);
  return GRAFT_OK;
}

static graft_status encode_product(graft_encoder *encoder, const graft_encode_args *args) {
  const graft_linear_i8_rms_norm_rotary_attrs *attrs = args->node->attrs;
  const graft_tensor_desc *weight = args->node->inputs[PRODUCT_NORM];
  product_arguments a = {.heads = {.table = args->inputs[PRODUCT_TABLE],
                                   .is_half = attrs->then.style == GRAFT_ROTARY_HALF,
                                   .has_norm = true,
                                   .weight = args->inputs[PRODUCT_NORM],
                                   .weight_type = weight ? weight->dtype->code : GRAFT_DTYPE_F32,
                                   .eps = attrs->then.eps},
                         .product = linear_i8_rows_place(args, WEIGHT),
                         .scratch = args->workspace};
  a.scratch_bytes = graft_gemm_i8_few_scratch_bytes(a.product.core, a.product.k);
  const operand y = {args->outputs[0], args->node->outputs[0]};
  describe_heads(&a.heads, y, y, args->node->inputs[PRODUCT_TABLE]);
  const graft_cpu_task task = {
      .run = run_product, .args = &a, .args_bytes = sizeof a, .n_items = linear_i8_rows_items(&a.product)};
  return graft_cpu_encode(encoder, &task, args->error);
}

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES, .in_place_inputs = 1u << X

static const graft_kernel_def kernels[] = {
    {KERNEL(rotary_embedding_float_heads, "graft.rotary_embedding.v1"), .supports = supports, .encode = encode},
    {KERNEL(rms_norm_rotary_f32_heads, "graft.rms_norm_rotary.v1"), .supports = supports_norm, .encode = encode_norm},
    {
        .struct_size = sizeof kernels[0],
        .priority = GRAFT_TARGET_PRIORITY,
        .name = GRAFT_TARGETED_NAME(linear_i8_rms_norm_rotary_rows),
        .op = "graft.linear_i8_rms_norm_rotary.v1",
        .backend = "cpu",
        .required_features = LINEAR_I8_ROWS_REQUIRES,
        .supports = supports_product,
        .preferred = prefers_product,
        .prepare = prepare_product,
        .pack = linear_i8_rows_pack,
        .encode = encode_product,
    },
};

extern const graft_extension GRAFT_TARGETED(graft_extension_rotary_embedding);
const graft_extension GRAFT_TARGETED(graft_extension_rotary_embedding) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(rotary_embedding),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
