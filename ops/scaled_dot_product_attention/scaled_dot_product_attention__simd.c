#include <math.h>

#include "graft/extension.h"
#include "ops/common/cpu/attention.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/quantize_target.h"
#include "ops/fused/attention_convrot_i8/attention_convrot_i8.h"
#include "ops/fused/matmul_attention/matmul_attention.h"
#include "ops/scaled_dot_product_attention/scaled_dot_product_attention.h"

enum { Q, K, V, MASK };
enum { BATCH, TOKEN, HEAD, WIDTH };

typedef struct arguments {
  graft_attention attention;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_attention_run(&a->attention, item, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

static graft_attention_tensor describe_tensor(const graft_tensor_desc *desc) {
  return (graft_attention_tensor){.type = desc->dtype->code,
                                  .batch_stride = graft_gemm_stride(desc, BATCH),
                                  .token_stride = graft_gemm_stride(desc, TOKEN),
                                  .head_stride = graft_gemm_stride(desc, HEAD)};
}

// All but the output.
static graft_attention describe_inputs(const graft_node_info *node, const graft_attention_core *core,
                                       const graft_attention_attrs *attrs) {
  const graft_tensor_desc *q = node->inputs[Q], *k = node->inputs[K], *v = node->inputs[V], *mask = node->inputs[MASK];
  const double scale = attrs->scale != 0 ? attrs->scale : 1 / sqrt((double)q->shape[WIDTH]);
  return (graft_attention){
      .core = core,
      .batches = q->shape[BATCH],
      .heads = q->shape[HEAD],
      .key_heads = k->shape[HEAD],
      .queries = q->shape[TOKEN],
      .keys = k->shape[TOKEN],
      .width = q->shape[WIDTH],
      .value_width = v->shape[WIDTH],
      .scale = (float)scale,
      .is_causal = attrs->is_causal,
      .key_mask_stride = mask && mask->shape[BATCH] > 1 ? mask->strides[BATCH] : 0,
      .q = describe_tensor(q),
      .k = describe_tensor(k),
      .k_width_stride = 1,
      .v = describe_tensor(v),
  };
}

static graft_attention describe(const graft_node_info *node, const graft_attention_core *core) {
  graft_attention attention = describe_inputs(node, core, node->attrs);
  attention.out = describe_tensor(node->outputs[0]);
  return attention;
}

static bool supports_inputs(const graft_node_info *node, graft_reason *why) {
  static const char *const names[] = {"q", "k", "v"};
  for (uint32_t i = Q; i <= V; ++i) {
    if (!graft_gemm_takes(node->inputs[i]->dtype)) {
      return graft_refuse(why, "%s is %s, not f32, f16 or bf16", names[i], node->inputs[i]->dtype->name);
    }
    if (!graft_gemm_has_dense_rows(node->inputs[i]))
      return graft_refuse(why, "rows of %s are not contiguous", names[i]);
  }
  const graft_tensor_desc *mask = node->inputs[MASK];
  if (mask && !graft_gemm_has_dense_rows(mask)) return graft_refuse(why, "rows of the key mask are not contiguous");
  return true;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  if (!supports_inputs(node, why)) return false;
  return graft_gemm_has_dense_rows(node->outputs[0]) || graft_refuse(why, "rows of the output are not contiguous");
}

static graft_status reserve(const graft_node_info *node, const graft_attention *attention,
                            graft_prepared *out_prepared) {
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * graft_attention_scratch_bytes(attention);
  return GRAFT_OK;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_attention attention = describe(node, &GRAFT_TARGETED(graft_attention_core));
  return reserve(node, &attention, out_prepared);
}

static graft_status encode_attention(graft_encoder *encoder, const graft_encode_args *args, arguments *a) {
  a->scratch = args->workspace;
  a->scratch_bytes = graft_attention_scratch_bytes(&a->attention);
  a->attention.q.data = args->inputs[Q];
  a->attention.k.data = args->inputs[K];
  a->attention.v.data = args->inputs[V];
  a->attention.out_data = args->outputs[0];
  const graft_cpu_task task = {
      .run = run, .args = a, .args_bytes = sizeof *a, .n_items = graft_attention_items(&a->attention)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.attention = describe(args->node, &GRAFT_TARGETED(graft_attention_core))};
  a.attention.key_mask = args->inputs[MASK];
  return encode_attention(encoder, args, &a);
}

#if defined(__AVX512F__)
// Products of bf16 as such, for queries, keys and values that are bf16 already.
static bool takes_bf16(const graft_node_info *node, graft_reason *why) {
  for (uint32_t i = Q; i <= V; ++i) {
    if (node->inputs[i]->dtype != GRAFT_BF16) return graft_refuse(why, "q, k and v are not all bf16");
  }
  return true;
}

static bool supports_bf16(const graft_node_info *node, graft_reason *why) {
  return takes_bf16(node, why) && supports(node, why);
}

static graft_status prepare_bf16(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_attention attention = describe(node, &graft_attention_core__avx512_bf16);
  return reserve(node, &attention, out_prepared);
}

static graft_status encode_bf16(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.attention = describe(args->node, &graft_attention_core__avx512_bf16)};
  a.attention.key_mask = args->inputs[MASK];
  return encode_attention(encoder, args, &a);
}
#endif

// ---- graft.attention_convrot_i8.v1: an item is a block of queries, all heads of them ----

enum { SMALL_FLOPS = 1 << 20 };  // of a whole node, which threads would hardly share

typedef struct row_arguments {
  quantize_target to;
  graft_attention attention;
  bool has_factor;
  float factor;
  char *scratch;  // one part for each worker: for the attention, then rows
  size_t attention_bytes, scratch_bytes;
} row_arguments;

// Every item lays out all keys and values anew, so that blocks should be long; but they should be enough for some
// threads. Even numbers suit most of them.
static int64_t count_blocks(int64_t queries) {
  const int64_t wanted = 4, queries_least = 112, queries_most = 640;
  int64_t n = 1;
  while (n < wanted ? queries / (2 * n) >= queries_least : queries / n > queries_most) n *= 2;
  return n;
}

// Whole vectors with room for the last panel, a multiple of 64 bytes but not of 4096: rows in cache sets of their own.
static int64_t row_stride_of(const graft_attention *attention) {
  const int64_t floats = attention->heads * attention->value_width + attention->core->gemm->panel;
  const int64_t stride = (floats + 15) / 16 * 16;
  return stride % 1024 == 0 ? stride + 16 : stride;
}

// All but addresses.
static row_arguments describe_rows(const graft_node_info *node, const graft_attention_core *core) {
  const graft_attention_convrot_i8_attrs *attrs = node->attrs;
  graft_attention attention = describe_inputs(node, core, &attrs->attention);
  const int64_t n_blocks = count_blocks(attention.queries), n_rows = (attention.queries + n_blocks - 1) / n_blocks;
  attention.query_parts = n_blocks;
  attention.row_stride = row_stride_of(&attention);
  row_arguments a = {
      .to = {.m = attention.batches * attention.queries,
             .k = attention.heads * attention.value_width,
             .group = attrs->quantize.group,
             .has_bf16_grid = attrs->quantize.grid == GRAFT_QUANTIZE_BF16},
      .attention = attention,
      .has_factor = attrs->factor != 0,
      .factor = (float)attrs->factor,
      .attention_bytes = graft_attention_scratch_bytes(&attention),
  };
  a.scratch_bytes = a.attention_bytes + (size_t)(n_rows * attention.row_stride) * sizeof(float);
  return a;
}

// What the operators apart would have done to a row on its way: rounded it to the dtype of q, scaled it, rounded again.
static void pass_on(const row_arguments *a, float *row, int64_t n) {
  const graft_dtype_code type = a->attention.q.type;
  if (type == GRAFT_DTYPE_F32 && !a->has_factor) return;
  for (int64_t i = 0; i < n; i += LANES) {
    char rounded[LANES * sizeof(float)];
    vec_store_typed(rounded, type, vec_load(row + i));
    if (a->has_factor) vec_store_typed(rounded, type, vec_load_typed(rounded, type) * a->factor);
    vec_store(row + i, vec_load_typed(rounded, type));
  }
}

static void quantize_rows(const row_arguments *a, float *rows, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; ++i, rows += a->attention.row_stride) {
    graft_quantize_row row = quantize_target_row(&a->to, first + i, rows, GRAFT_DTYPE_F32, rows);
    pass_on(a, rows, row.n);
    if (i + 1 < n) row.ahead = rows + a->attention.row_stride;
    GRAFT_TARGETED(graft_quantize_core).row(&row);
  }
}

static void run_rows(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const row_arguments *a = args;
  graft_attention attention = a->attention;
  const int64_t parts = attention.query_parts, batch = item / parts, part = item % parts;
  const int64_t begin = attention.queries * part / parts, end = attention.queries * (part + 1) / parts;
  const int64_t first = batch * attention.queries + begin, after = batch * attention.queries + end;
  char *scratch = a->scratch + (size_t)worker->index * a->scratch_bytes;
  attention.rows = (float *)(void *)(scratch + a->attention_bytes);
  for (int64_t head = 0; head < attention.heads; ++head) {
    graft_attention_run(&attention, (batch * attention.heads + head) * parts + part, scratch);
  }
  quantize_rows(a, attention.rows, first, after - first);
  quantize_target_finish_rows(&a->to, first, after == a->to.m ? a->to.n_rows : after);
}

static bool supports_rows(const graft_node_info *node, graft_reason *why) {
  if (!graft_tensor_desc_is_contiguous(node->outputs[0])) return graft_refuse(why, "the result is not contiguous");
  return supports_inputs(node, why);
}

// Rows that leave the core's cache before they are whole gain nothing. Where blocks are too few and would keep threads
// waiting, the heads of the operators apart go round better.
static bool prefers_rows(const graft_node_info *node, graft_reason *why) {
  const row_arguments a = describe_rows(node, &GRAFT_TARGETED(graft_attention_core));
  const graft_attention *attention = &a.attention;
  const graft_cpu_info *cpu = graft_cpu_describe(node->device);
  const int64_t n = attention->batches * attention->query_parts, rounds = (n + cpu->n_threads - 1) / cpu->n_threads;
  const double pairs = (double)a.to.m * (double)attention->heads * (double)attention->keys;
  const size_t rows_bytes = a.scratch_bytes - a.attention_bytes;
  if (2 * pairs * (double)(attention->width + attention->value_width) <= SMALL_FLOPS) return true;
  if (rows_bytes > cpu->l2_bytes) {
    return graft_refuse(why, "%lld bytes of rows do not fit in a core's cache", (long long)rows_bytes);
  }
  return 16 * n >= 15 * rounds * cpu->n_threads ||
         graft_refuse(why, "%lld block%s of queries would keep some of %d threads waiting", (long long)n,
                      n == 1 ? "" : "s", cpu->n_threads);
}

static graft_status reserve_rows(const graft_node_info *node, const graft_attention_core *core,
                                 graft_prepared *out_prepared) {
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * describe_rows(node, core).scratch_bytes;
  return GRAFT_OK;
}

static graft_status encode_rows_of(graft_encoder *encoder, const graft_encode_args *args,
                                   const graft_attention_core *core) {
  row_arguments a = describe_rows(args->node, core);
  a.attention.q.data = args->inputs[Q];
  a.attention.k.data = args->inputs[K];
  a.attention.v.data = args->inputs[V];
  a.attention.key_mask = args->inputs[MASK];
  a.scratch = args->workspace;
  quantize_target_place(&a.to, args, GRAFT_DTYPE_F32);
  const graft_cpu_task task = {
      .run = run_rows, .args = &a, .args_bytes = sizeof a, .n_items = a.attention.batches * a.attention.query_parts};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status prepare_rows(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return reserve_rows(node, &GRAFT_TARGETED(graft_attention_core), out_prepared);
}

static graft_status encode_rows(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_rows_of(encoder, args, &GRAFT_TARGETED(graft_attention_core));
}

#if defined(__AVX512F__)
static bool supports_bf16_rows(const graft_node_info *node, graft_reason *why) {
  return takes_bf16(node, why) && supports_rows(node, why);
}

static graft_status prepare_bf16_rows(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return reserve_rows(node, &graft_attention_core__avx512_bf16, out_prepared);
}

static graft_status encode_bf16_rows(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_rows_of(encoder, args, &graft_attention_core__avx512_bf16);
}
#endif

// ---- graft.matmul_attention.v1 ----
//
// [batch, head, token, width], or without a batch, and k with its last two exchanged.

static int64_t matrix_stride(const graft_tensor_desc *desc, int32_t from_end) {
  return from_end <= desc->rank ? graft_gemm_stride(desc, desc->rank - from_end) : 0;
}

static int64_t matrix_size(const graft_tensor_desc *desc, int32_t from_end) {
  return from_end <= desc->rank ? desc->shape[desc->rank - from_end] : 1;
}

static graft_attention_tensor describe_matrices(const graft_tensor_desc *desc, int32_t token) {
  return (graft_attention_tensor){.type = desc->dtype->code,
                                  .batch_stride = matrix_stride(desc, 4),
                                  .head_stride = matrix_stride(desc, 3),
                                  .token_stride = matrix_stride(desc, token)};
}

static graft_attention describe_products(const graft_node_info *node) {
  const graft_tensor_desc *q = node->inputs[Q], *k = node->inputs[K], *v = node->inputs[V], *mask = node->inputs[MASK];
  graft_attention attention = {
      .core = &GRAFT_TARGETED(graft_attention_core),
      .batches = matrix_size(q, 4),
      .heads = matrix_size(q, 3),
      .key_heads = matrix_size(q, 3),
      .queries = matrix_size(q, 2),
      .keys = matrix_size(v, 2),
      .width = matrix_size(q, 1),
      .value_width = matrix_size(v, 1),
      .scale = (float)((const graft_matmul_attention_attrs *)node->attrs)->scale,
      .q = describe_matrices(q, 2),
      .k = describe_matrices(k, 1),
      .k_width_stride = matrix_size(k, 2) > 1 ? matrix_stride(k, 2) : 1,
      .v = describe_matrices(v, 2),
      .out = describe_matrices(node->outputs[0], 2),
  };
  if (mask) {
    attention.added_batch_stride = matrix_stride(mask, 4);
    attention.added_head_stride = matrix_stride(mask, 3);
    attention.added_query_stride = matrix_stride(mask, 2);
  }
  return attention;
}

static bool supports_products(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *const tensors[] = {node->inputs[Q], node->inputs[V], node->outputs[0], node->inputs[K]};
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; ++i) {
    if (!graft_gemm_takes(tensors[i]->dtype)) {
      return graft_refuse(why, "a tensor is %s, not f32, f16 or bf16", tensors[i]->dtype->name);
    }
    if (i < 3 && !graft_gemm_has_dense_rows(tensors[i])) {
      return graft_refuse(why, "rows of q, v or the output are not contiguous");
    }
  }
  const graft_tensor_desc *mask = node->inputs[MASK];
  if (mask && (mask->dtype != GRAFT_F32 || matrix_size(mask, 1) != matrix_size(node->inputs[V], 2) ||
               !graft_gemm_has_dense_rows(mask))) {
    return graft_refuse(why, "the mask is not f32 with contiguous rows, an element for every key");
  }
  return true;
}

static graft_status prepare_products(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  const graft_attention attention = describe_products(node);
  return reserve(node, &attention, out_prepared);
}

static graft_status encode_products(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {.attention = describe_products(args->node)};
  a.attention.added = args->inputs[MASK];
  return encode_attention(encoder, args, &a);
}

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES

static const graft_kernel_def kernels[] = {
    {KERNEL(scaled_dot_product_attention_float_blocks, "graft.scaled_dot_product_attention.v1"), .supports = supports,
     .prepare = prepare, .encode = encode},
    {KERNEL(matmul_attention_float_blocks, "graft.matmul_attention.v1"), .supports = supports_products,
     .prepare = prepare_products, .encode = encode_products},
    {KERNEL(attention_convrot_i8_float_rows, "graft.attention_convrot_i8.v1"), .supports = supports_rows,
     .preferred = prefers_rows, .prepare = prepare_rows, .encode = encode_rows},
#if defined(__AVX512F__)
    {
        .struct_size = sizeof(graft_kernel_def),
        .priority = GRAFT_TARGET_PRIORITY + 5,
        .name = GRAFT_TARGETED_NAME(scaled_dot_product_attention_bf16_products),
        .op = "graft.scaled_dot_product_attention.v1",
        .backend = "cpu",
        .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16,
        .supports = supports_bf16,
        .prepare = prepare_bf16,
        .encode = encode_bf16,
    },
    {
        .struct_size = sizeof(graft_kernel_def),
        .priority = GRAFT_TARGET_PRIORITY + 5,
        .name = GRAFT_TARGETED_NAME(attention_convrot_i8_bf16_products),
        .op = "graft.attention_convrot_i8.v1",
        .backend = "cpu",
        .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16,
        .supports = supports_bf16_rows,
        .preferred = prefers_rows,
        .prepare = prepare_bf16_rows,
        .encode = encode_bf16_rows,
    },
#endif
};

extern const graft_extension GRAFT_TARGETED(graft_extension_scaled_dot_product_attention);
const graft_extension GRAFT_TARGETED(graft_extension_scaled_dot_product_attention) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(scaled_dot_product_attention),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
