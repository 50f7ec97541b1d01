#include <stdio.h>
#include <stdlib.h>

#include "graft/extension.h"
#include "ops/common/cpu/gemm_operand.h"
#include "ops/common/cpu/target.h"
#include "ops/fused/linear_epilogue/linear_epilogue.h"

enum { X, WEIGHT, BIAS, GATE, RESIDUAL };  // the last two of graft.linear_epilogue.v1 only

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

// The product without addresses; false where x or y is no matrix.
static bool describe(const graft_node_info *node, const graft_gemm_core *core, graft_gemm *out_gemm) {
  const graft_tensor_desc *x = node->inputs[X], *weight = node->inputs[WEIGHT], *y = node->outputs[0];
  graft_gemm gemm = {.core = core, .n = weight->shape[0], .k = weight->shape[1]};
  graft_gemm_matrix out;
  if (!graft_gemm_flatten(x, &gemm.m, &gemm.a) || !graft_gemm_flatten(y, &gemm.m, &out)) return false;
  const graft_gemm_matrix transposed = graft_gemm_matrix_of(weight, 0);
  gemm.b = transposed;
  gemm.b.row_stride = transposed.column_stride;
  gemm.b.column_stride = transposed.row_stride;
  gemm.b_is_packed = is_packed(node);
  // float8 is packed as bf16, which holds all of its values.
  if (is_f8(weight)) gemm.b.type = GRAFT_DTYPE_BF16;
  gemm.out.type = out.type;
  gemm.out.row_stride = out.row_stride;
  *out_gemm = gemm;
  return true;
}

static bool supports(const graft_node_info *node, graft_reason *why) {
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
  graft_gemm gemm;
  if (!describe(node, &GRAFT_TARGETED(graft_gemm_core), &gemm))
    return graft_refuse(why, "rows of x or y are not equally far apart");
  if (!graft_gemm_has_dense_rows(node->outputs[0])) return graft_refuse(why, "rows of y are not contiguous");
  if (bias && !graft_gemm_has_dense_rows(bias)) return graft_refuse(why, "the bias is not contiguous");
  return true;
}

static graft_status prepare_for(const graft_node_info *node, const graft_gemm_core *core,
                                graft_prepared *out_prepared) {
  graft_gemm gemm;
  describe(node, core, &gemm);
  const size_t n_workers = (size_t)graft_cpu_describe(node->device)->n_threads;
  out_prepared->workspace_bytes = n_workers * graft_gemm_scratch_bytes(&gemm);
  if (!gemm.b_is_packed) return GRAFT_OK;
  graft_packed_input *packed = &out_prepared->packed[out_prepared->n_packed++];
  packed->input = WEIGHT;
  packed->bytes = graft_gemm_packed_bytes(gemm.core, gemm.b.type, gemm.n, gemm.k);
  packed->alignment = 64;
  snprintf(packed->layout, sizeof packed->layout, "panels of %d rows by %d", core->panel, core->group);
  return GRAFT_OK;
}

static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return prepare_for(node, &GRAFT_TARGETED(graft_gemm_core), out_prepared);
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
  describe(node, &GRAFT_TARGETED(graft_gemm_core), &gemm);
  if (is_f8(node->inputs[WEIGHT])) return pack_f8(node->inputs[WEIGHT], &gemm, source, packed);
  gemm.b.data = source;
  graft_gemm_pack(gemm.core, &gemm.b, gemm.n, gemm.k, packed);
  return GRAFT_OK;
}

static graft_status encode_product(graft_encoder *encoder, const graft_encode_args *args, arguments *a) {
  a->scratch = args->workspace;
  a->scratch_bytes = graft_gemm_scratch_bytes(&a->gemm);
  a->gemm.a.data = args->inputs[X];
  a->gemm.b.data = args->inputs[WEIGHT];
  a->gemm.out.data = args->outputs[0];
  if (args->node->inputs[BIAS]) a->gemm.out.bias = graft_gemm_row_of(args->node->inputs[BIAS], args->inputs[BIAS]);
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

static graft_status prepare_bf16(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  (void)error;
  return prepare_for(node, &graft_gemm_core__avx512_bf16, out_prepared);
}

static graft_status pack_bf16(const graft_node_info *node, void *state, uint32_t input, const void *source,
                              void *packed) {
  (void)state, (void)input;
  graft_gemm gemm;
  describe(node, &graft_gemm_core__avx512_bf16, &gemm);
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

#define BF16_KERNEL(kernel, op_name)                                                                                   \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY + 5, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_CPU_AVX512 | GRAFT_CPU_AVX512_BF16,                      \
  .prepare = prepare_bf16, .pack = pack_bf16
#endif

#define KERNEL(kernel, op_name)                                                                                    \
  .struct_size = sizeof(graft_kernel_def), .priority = GRAFT_TARGET_PRIORITY, .name = GRAFT_TARGETED_NAME(kernel), \
  .op = op_name, .backend = "cpu", .required_features = GRAFT_TARGET_REQUIRES, .prepare = prepare, .pack = pack

static const graft_kernel_def kernels[] = {
    {KERNEL(linear_float_panels, "graft.linear.v1"), .supports = supports, .encode = encode},
    {KERNEL(linear_epilogue_float_panels, "graft.linear_epilogue.v1"), .supports = supports_epilogue,
     .in_place_inputs = 1u << GATE | 1u << RESIDUAL, .encode = encode_epilogue},
#if defined(__AVX512F__)
    {BF16_KERNEL(linear_bf16_products, "graft.linear.v1"), .supports = supports_bf16_linear, .encode = encode_bf16},
    {BF16_KERNEL(linear_epilogue_bf16_products, "graft.linear_epilogue.v1"), .supports = supports_bf16_epilogue,
     .in_place_inputs = 1u << GATE | 1u << RESIDUAL, .encode = encode_bf16_epilogue},
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
