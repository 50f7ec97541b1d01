#include <stdio.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"
#include "ops/fused/linear_rms_norm_rotary/linear_rms_norm_rotary.h"
#include "ops/rotary_embedding/rotary_heads.h"

enum { X, WEIGHT, BIAS };
enum { GATE = 3, RESIDUAL };  // of graft.linear_epilogue.v1
enum { NORM = 3, TABLE };     // of graft.linear_rms_norm_rotary.v1

typedef struct arguments {
  graft_gemm gemm;
  char *scratch;  // one part for each worker
  size_t scratch_bytes;
} arguments;

static void run(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const arguments *a = args;
  graft_gemm_run(&a->gemm, item, a->scratch + (size_t)worker->index * a->scratch_bytes);
}

// A constant weight is packed, so that panels of it are read in one go.
static bool is_packed(const graft_node_info *node) {
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  return (node->constant_inputs & 1u << WEIGHT) && graft_tensor_desc_elements(weight) > 0;
}

static bool is_f8(const graft_tensor_desc *desc) {
  return desc->dtype == GRAFT_F8_E4M3 || desc->dtype == GRAFT_F8_E5M2;
}

// The product without addresses and output; false where x is no matrix.
static bool describe_operands(const graft_node_info *node, const graft_gemm_core *core, graft_gemm *out_gemm) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT];
  graft_gemm gemm = {.core = core, .n = weight->shape[0], .k = weight->shape[1]};
  if (!graft_gemm_flatten(x, &gemm.m, &gemm.a)) return false;
  const graft_gemm_matrix transposed = graft_gemm_matrix_of(weight, 0);
  gemm.b = transposed;
  gemm.b.row_stride = transposed.column_stride;
  gemm.b.column_stride = transposed.row_stride;
  gemm.b_is_packed = is_packed(node);
  // float8 is packed as bf16, which holds all of its values.
  if (is_f8(weight)) gemm.b.type = GRAFT_DTYPE_BF16;
  *out_gemm = gemm;
  return true;
}

// The same with an output, and false also where y is no matrix.
static bool describe(const graft_node_info *node, const graft_gemm_core *core, graft_gemm *out_gemm) {
  graft_gemm_matrix out;
  if (!describe_operands(node, core, out_gemm) || !graft_gemm_flatten(node->outputs[0], &out_gemm->m, &out)) {
    return false;
  }
  out_gemm->out = (graft_gemm_output){.type = out.type, .row_stride = out.row_stride};
  return true;
}

static bool takes_operands(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *bias = node->inputs[BIAS];
  const graft_tensor_desc *weight = node->inputs[WEIGHT];
  const bool is_expanded = is_f8(weight) && is_packed(node) && graft_gemm_has_dense_rows(weight);
  const graft_dtype dtypes[] = {node->inputs[X]->dtype, is_expanded ? GRAFT_BF16 : weight->dtype,
                                node->outputs[0]->dtype, bias ? bias->dtype : GRAFT_F32};
  for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; ++i) {
    if (!graft_gemm_takes(dtypes[i])) {
      return graft_refuse(why, "an operand is %s, not f32, f16 or bf16", dtypes[i]->name);
    }
  }
  return !bias || graft_gemm_has_dense_rows(bias) || graft_refuse(why, "the bias is not contiguous");
}

static bool supports(const graft_node_info *node, graft_reason *why) {
  graft_gemm gemm;
  if (!takes_operands(node, why)) return false;
  if (!describe(node, &GRAFT_TARGETED(graft_gemm_core), &gemm))
    return graft_refuse(why, "rows of x or y are not equally far apart");
  return graft_gemm_has_dense_rows(node->outputs[0]) || graft_refuse(why, "rows of y are not contiguous");
}

static void prepare_product(const graft_node_info *node, const graft_gemm *gemm, graft_prepared *out_prepared) {
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * graft_gemm_scratch_bytes(gemm);
  if (!gemm->b_is_packed) return;
  graft_packed_input *packed = &out_prepared->packed[out_prepared->n_packed++];
  packed->input = WEIGHT;
  packed->bytes = graft_gemm_packed_bytes(gemm->core, gemm->b.type, gemm->n, gemm->k);
  packed->alignment = 64;
  snprintf(packed->layout, sizeof packed->layout, "panels of %d rows by %d", gemm->core->panel, gemm->core->group);
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  graft_gemm gemm;
  describe(node, &GRAFT_TARGETED(graft_gemm_core), &gemm);
  prepare_product(node, &gemm, out_prepared);
  return GRAFT_OK;
}

// Expands a float8 weight panel by panel.
static graft_status pack_f8(const graft_tensor_desc *weight, const graft_gemm *gemm, const char *source, char *packed) {
  const size_t k = (size_t)gemm->k;
  const int64_t panel = gemm->core->panel, row_stride = graft_gemm_stride(weight, 0);
  float *row = malloc(k * sizeof *row + 1);
  uint16_t *rows = malloc(k * (size_t)panel * sizeof *rows + 1);
  const graft_gemm_matrix from = {.data = rows, .type = GRAFT_DTYPE_BF16, .row_stride = 1, .column_stride = gemm->k};
  for (int64_t j = 0; row && rows && j < gemm->n; j += panel) {
    const int64_t n = gemm->n - j < panel ? gemm->n - j : panel;
    const graft_gemm_block block = {.rows = gemm->k, .columns = n};
    for (int64_t i = 0; i < n; ++i) {
      weight->dtype->to_f32(source + (j + i) * row_stride, row, k);
      GRAFT_BF16->from_f32(row, rows + (size_t)i * k, k);
    }
    gemm->core->pack_panels(&from, &block, packed + (size_t)j * k * sizeof *rows);
  }
  const bool has_memory = row && rows;
  free(rows);
  free(row);
  return has_memory ? GRAFT_OK : GRAFT_E_NO_MEMORY;
}

static graft_status pack(const graft_node_info *node, void *state, uint32_t input, const void *source, void *packed) {
  (void)state, (void)input;
  graft_gemm gemm;
  describe_operands(node, &GRAFT_TARGETED(graft_gemm_core), &gemm);
  if (is_f8(node->inputs[WEIGHT])) return pack_f8(node->inputs[WEIGHT], &gemm, source, packed);
  gemm.b.data = source;
  graft_gemm_pack(gemm.core, &gemm.b, gemm.n, gemm.k, packed);
  return GRAFT_OK;
}

// Points the product at its operands.
static void place_product(const graft_encode_args *args, arguments *a) {
  a->scratch = args->workspace;
  a->scratch_bytes = graft_gemm_scratch_bytes(&a->gemm);
  a->gemm.a.data = args->inputs[X];
  a->gemm.b.data = args->inputs[WEIGHT];
  a->gemm.out.data = args->outputs[0];
  if (args->node->inputs[BIAS]) a->gemm.out.bias = graft_gemm_row_of(args->node->inputs[BIAS], args->inputs[BIAS]);
}

static graft_status encode_product(graft_encoder *encoder, const graft_encode_args *args, arguments *a) {
  place_product(args, a);
  const graft_cpu_task task = {.run = run, .args = a, .args_bytes = sizeof *a, .n_items = graft_gemm_items(&a->gemm)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {0};
  describe(args->node, &GRAFT_TARGETED(graft_gemm_core), &a.gemm);
  return encode_product(encoder, args, &a);
}

// What gate or residual |input| has for every element of y; nothing where it is left out.
static bool find_addend(const graft_node_info *node, uint32_t input, const void *data, graft_gemm_matrix *out_matrix) {
  const graft_tensor_desc *desc = node->inputs[input];
  return !desc || graft_gemm_addend(desc, node->outputs[0], data, out_matrix);
}

static bool supports_epilogue(const graft_node_info *node, graft_reason *why) {
  if (!supports(node, why)) return false;
  for (uint32_t i = GATE; i <= RESIDUAL; ++i) {
    graft_gemm_matrix matrix;
    if (node->inputs[i] && !graft_gemm_takes(node->inputs[i]->dtype)) {
      return graft_refuse(why, "gate or residual is %s, not f32, f16 or bf16", node->inputs[i]->dtype->name);
    }
    if (!find_addend(node, i, NULL, &matrix)) {
      return graft_refuse(why, "rows of gate or residual are not equally far apart, or not contiguous");
    }
  }
  return true;
}

static graft_status encode_epilogue_for(graft_encoder *encoder, const graft_encode_args *args,
                                        const graft_gemm_core *core) {
  const graft_linear_epilogue_attrs *attrs = args->node->attrs;
  arguments a = {0};
  describe(args->node, core, &a.gemm);
  a.gemm.out.activation = graft_gemm_activation_of(attrs->activation);
  find_addend(args->node, GATE, args->inputs[GATE], &a.gemm.out.gate);
  find_addend(args->node, RESIDUAL, args->inputs[RESIDUAL], &a.gemm.out.residual);
  return encode_product(encoder, args, &a);
}

static graft_status encode_epilogue(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_epilogue_for(encoder, args, &GRAFT_TARGETED(graft_gemm_core));
}

// A product whose sums are normalised and rotated, head by head, before they are stored.
typedef struct heads_arguments {
  arguments product;
  rotary_heads heads;
} heads_arguments;

static void add_bias(const graft_gemm_matrix *bias, int64_t column, float *sums, int64_t n) {
  const char *from = graft_gemm_matrix_at(*bias, 0, column).data;
  const int64_t element = graft_gemm_element_bytes(bias->type);
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    vec_store(sums + j, vec_load(sums + j) + vec_load_typed(from + j * element, bias->type));
  }
  if (j < n) {
    const vec sum = vec_load_n(sums + j, n - j) + vec_load_typed_n(from + j * element, bias->type, n - j);
    vec_store_n(sums + j, sum, n - j);
  }
}

static void finish_heads(const void *context, const graft_gemm_block *block, float *c, size_t c_stride) {
  const heads_arguments *a = context;
  const graft_gemm_matrix *bias = &a->product.gemm.out.bias;
  const int64_t width = a->heads.shape[3];
  for (int64_t i = 0; i < block->rows; ++i, c += c_stride) {
    if (bias->data) add_bias(bias, block->column, c, block->columns);
    rotary_heads_run(&a->heads, block->row + i, (const char *)c, block->column / width, block->columns / width);
  }
}

static void run_heads(const void *args, int64_t item, const graft_cpu_worker *worker) {
  const heads_arguments *a = args;
  graft_gemm gemm = a->product.gemm;
  gemm.finish_context = a;
  graft_gemm_run(&gemm, item, a->product.scratch + (size_t)worker->index * a->product.scratch_bytes);
}

static graft_gemm describe_heads(const graft_node_info *node, const graft_gemm_core *core) {
  const graft_tensor_desc *y = node->outputs[0];
  graft_gemm gemm = {0};
  describe_operands(node, core, &gemm);
  gemm.out = (graft_gemm_output){.type = y->dtype->code, .row_stride = gemm.n};
  gemm.finish = finish_heads;
  gemm.finish_columns = y->shape[3];
  return gemm;
}

static bool supports_heads(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *y = node->outputs[0];
  graft_gemm gemm;
  if (!takes_operands(node, why)) return false;
  if (!describe_operands(node, &GRAFT_TARGETED(graft_gemm_core), &gemm)) {
    return graft_refuse(why, "rows of x are not equally far apart");
  }
  if (!rms_takes_weight(node->inputs[NORM])) {
    return graft_refuse(why, "the norm's weight is not contiguous f32, f16 or bf16");
  }
  if (!graft_tensor_desc_is_contiguous(y)) return graft_refuse(why, "the result is not contiguous");
  if (y->shape[3] == 0 || !graft_gemm_can_finish(gemm.core, gemm.n, y->shape[3])) {
    return graft_refuse(why, "heads of %lld do not fit in blocks of the product", (long long)y->shape[3]);
  }
  return rotary_takes_table(node->inputs[TABLE], why);
}

static graft_status prepare_heads_for(const graft_node_info *node, const graft_gemm_core *core,
                                      graft_prepared *out_prepared) {
  const graft_gemm gemm = describe_heads(node, core);
  prepare_product(node, &gemm, out_prepared);
  return GRAFT_OK;
}

static graft_status prepare_heads(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return prepare_heads_for(node, &GRAFT_TARGETED(graft_gemm_core), out_prepared);
}

static graft_status encode_heads_for(graft_encoder *encoder, const graft_encode_args *args,
                                     const graft_gemm_core *core) {
  const graft_node_info *node = args->node;
  const graft_linear_rms_norm_rotary_attrs *attrs = node->attrs;
  heads_arguments a = {
      .product.gemm = describe_heads(node, core),
      .heads = rotary_heads_describe(node->outputs[0], args->outputs[0], node->inputs[TABLE], args->inputs[TABLE]),
  };
  place_product(args, &a.product);
  rotary_heads_set_norm(&a.heads, &attrs->then, node->inputs[NORM], args->inputs[NORM]);
  a.heads.x_head_stride = a.heads.shape[3] * (int64_t)sizeof(float);
  const graft_cpu_task task = {
      .run = run_heads, .args = &a, .args_bytes = sizeof a, .n_items = graft_gemm_items(&a.product.gemm)};
  return graft_cpu_encode(encoder, &task, args->error);
}

static graft_status encode_heads(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_heads_for(encoder, args, &GRAFT_TARGETED(graft_gemm_core));
}

#if defined(__AVX512F__)
// Products of bf16 as such, for activations that are bf16 already.
static bool supports_bf16(const graft_node_info *node, graft_reason *why) {
  if (node->inputs[X]->dtype != GRAFT_BF16 || node->inputs[WEIGHT]->dtype != GRAFT_BF16) {
    return graft_refuse(why, "x and the weight are not both bf16");
  }
  if (!is_packed(node)) return graft_refuse(why, "the weight is not constant");
  return true;
}

static bool supports_bf16_linear(const graft_node_info *node, graft_reason *why) {
  return supports_bf16(node, why) && supports(node, why);
}

static bool supports_bf16_epilogue(const graft_node_info *node, graft_reason *why) {
  return supports_bf16(node, why) && supports_epilogue(node, why);
}

static bool supports_bf16_heads(const graft_node_info *node, graft_reason *why) {
  return supports_bf16(node, why) && supports_heads(node, why);
}

static graft_status prepare_bf16(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  graft_gemm gemm;
  describe(node, &graft_gemm_core__avx512_bf16, &gemm);
  prepare_product(node, &gemm, out_prepared);
  return GRAFT_OK;
}

static graft_status prepare_bf16_heads(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return prepare_heads_for(node, &graft_gemm_core__avx512_bf16, out_prepared);
}

static graft_status pack_bf16(const graft_node_info *node, void *state, uint32_t input, const void *source,
                              void *packed) {
  (void)state, (void)input;
  graft_gemm gemm;
  describe_operands(node, &graft_gemm_core__avx512_bf16, &gemm);
  gemm.b.data = source;
  graft_gemm_pack(gemm.core, &gemm.b, gemm.n, gemm.k, packed);
  return GRAFT_OK;
}

static graft_status encode_bf16(graft_encoder *encoder, const graft_encode_args *args) {
  arguments a = {0};
  describe(args->node, &graft_gemm_core__avx512_bf16, &a.gemm);
  return encode_product(encoder, args, &a);
}

static graft_status encode_bf16_epilogue(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_epilogue_for(encoder, args, &graft_gemm_core__avx512_bf16);
}

static graft_status encode_bf16_heads(graft_encoder *encoder, const graft_encode_args *args) {
  return encode_heads_for(encoder, args, &graft_gemm_core__avx512_bf16);
}

#define BF16_KERNEL(kernel, op_name)                                                                                   \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY + 5, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16, .pack = pack_bf16
#endif

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES, .pack = pack

static const graft_kernel_def kernels[] = {
    {KERNEL(linear_float_panels, "graft.linear.v1"), .supports = supports, .prepare = prepare, .encode = encode},
    {KERNEL(linear_epilogue_float_panels, "graft.linear_epilogue.v1"), .supports = supports_epilogue,
     .in_place_inputs = 1u << GATE | 1u << RESIDUAL, .prepare = prepare, .encode = encode_epilogue},
    {KERNEL(linear_rms_norm_rotary_float_panels, "graft.linear_rms_norm_rotary.v1"), .supports = supports_heads,
     .prepare = prepare_heads, .encode = encode_heads},
#if defined(__AVX512F__)
    {BF16_KERNEL(linear_bf16_products, "graft.linear.v1"), .supports = supports_bf16_linear, .prepare = prepare_bf16,
     .encode = encode_bf16},
    {BF16_KERNEL(linear_epilogue_bf16_products, "graft.linear_epilogue.v1"), .supports = supports_bf16_epilogue,
     .in_place_inputs = 1u << GATE | 1u << RESIDUAL, .prepare = prepare_bf16, .encode = encode_bf16_epilogue},
    {BF16_KERNEL(linear_rms_norm_rotary_bf16_products, "graft.linear_rms_norm_rotary.v1"),
     .supports = supports_bf16_heads, .prepare = prepare_bf16_heads, .encode = encode_bf16_heads},
#endif
};

extern const graft_extension GRAFT_TARGETED(graft_extension_linear);
const graft_extension GRAFT_TARGETED(graft_extension_linear) = {
    .struct_size = sizeof(graft_extension),
    .abi_version = GRAFT_ABI_VERSION,
    .name = "graft." GRAFT_TARGETED_NAME(linear),
    .vendor = "graft",
    .kernels = kernels,
    .n_kernels = sizeof kernels / sizeof kernels[0],
};
