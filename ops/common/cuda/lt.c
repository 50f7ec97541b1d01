#include "ops/common/cuda/lt.h"

#include <string.h>

// clang-format off
#define LT_FUNCTIONS(X) \
  X(cublasLtMatmul) X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) \
  X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy) \
  X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)
// clang-format on

#define MEMBER(name) __typeof__(name) *name;
typedef struct lt_functions {
  LT_FUNCTIONS(MEMBER)
} lt_functions;

static graft_status find_functions(void *(*find_symbol)(const char *), graft_error *error, lt_functions *out) {
#define FIND(name)                           \
  *(void **)&out->name = find_symbol(#name); \
  if (out->name == NULL) return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublasLt has no %s", #name);
  LT_FUNCTIONS(FIND)
  return GRAFT_OK;
}

static graft_status check(cublasStatus_t result, const char *what, graft_error *error) {
  if (result == CUBLAS_STATUS_SUCCESS) return GRAFT_OK;
  if (result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_ARCH_MISMATCH) {
    return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "cublasLt does not have this product on this device");
  }
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublasLt fails when %s: status %d", what, (int)result);
}

static cudaDataType_t data_type(graft_dtype_code code) {
  switch (code) {
    case GRAFT_DTYPE_BF16: return CUDA_R_16BF;
    case GRAFT_DTYPE_F16: return CUDA_R_16F;
    case GRAFT_DTYPE_I8: return CUDA_R_8I;
    case GRAFT_DTYPE_I32: return CUDA_R_32I;
    case GRAFT_DTYPE_F8_E4M3: return CUDA_R_8F_E4M3;
    default: return CUDA_R_32F;
  }
}

// The library counts in column-major order, in which yᵀ = bᵀ · aᵀ: its first operand is b, its second a.
static graft_status describe_operation(const lt_functions *f, graft_lt *lt, graft_error *error) {
  const graft_lt_shape *shape = &lt->shape;
  const bool is_i8 = shape->operands == GRAFT_DTYPE_I8;
  GRAFT_TRY(check(f->cublasLtMatmulDescCreate(&lt->operation, is_i8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                                              is_i8 ? CUDA_R_32I : CUDA_R_32F),
                  "describing", error));
  const cublasOperation_t b = shape->is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t a = shape->is_a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  GRAFT_TRY(check(f->cublasLtMatmulDescSetAttribute(lt->operation, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b),
                  "describing", error));
  GRAFT_TRY(check(f->cublasLtMatmulDescSetAttribute(lt->operation, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a),
                  "describing", error));
  if (shape->operands == GRAFT_DTYPE_F8_E4M3) {
    const int8_t is_fast = 1;  // sums stay on tensor cores
    GRAFT_TRY(check(
        f->cublasLtMatmulDescSetAttribute(lt->operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &is_fast, sizeof is_fast),
        "describing", error));
  }
  if (!shape->has_bias) return GRAFT_OK;
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const cudaDataType_t type = data_type(shape->result);
  GRAFT_TRY(
      check(f->cublasLtMatmulDescSetAttribute(lt->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
            "describing", error));
  return check(
      f->cublasLtMatmulDescSetAttribute(lt->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type),
      "describing", error);
}

typedef struct matrix {
  graft_dtype_code type;
  int64_t rows, columns, step, batch;  // column-major
} matrix;

static graft_status describe_matrix(const lt_functions *f, const graft_lt *lt, const matrix *m, graft_error *error,
                                    cublasLtMatrixLayout_t *out_layout) {
  const int32_t count = (int32_t)lt->shape.batch;
  GRAFT_TRY(check(
      f->cublasLtMatrixLayoutCreate(out_layout, data_type(m->type), (uint64_t)m->rows, (uint64_t)m->columns, m->step),
      "describing a matrix", error));
  if (count == 1) return GRAFT_OK;
  GRAFT_TRY(
      check(f->cublasLtMatrixLayoutSetAttribute(*out_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
            "describing a matrix", error));
  return check(f->cublasLtMatrixLayoutSetAttribute(*out_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch,
                                                   sizeof m->batch),
               "describing a matrix", error);
}

static graft_status describe_matrices(const lt_functions *f, graft_lt *lt, graft_error *error) {
  const graft_lt_shape *s = &lt->shape;
  const matrix b = {s->operands, s->is_b_transposed ? s->k : s->n, s->is_b_transposed ? s->n : s->k, s->b_step,
                    s->b_batch};
  const matrix a = {s->operands, s->is_a_transposed ? s->m : s->k, s->is_a_transposed ? s->k : s->m, s->a_step,
                    s->a_batch};
  const matrix y = {s->result, s->n, s->m, s->y_step, s->y_batch};
  GRAFT_TRY(describe_matrix(f, lt, &b, error, &lt->b));
  GRAFT_TRY(describe_matrix(f, lt, &a, error, &lt->a));
  return describe_matrix(f, lt, &y, error, &lt->y);
}

static graft_status ask_heuristic(const lt_functions *f, const graft_lt *lt, cublasLtMatmulPreference_t preference,
                                  uint32_t alignment, graft_error *error, cublasLtMatmulAlgo_t *out_algorithm) {
  static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (int i = 0; i < 4; ++i) {
    GRAFT_TRY(check(f->cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &alignment, sizeof alignment),
                    "choosing an algorithm", error));
  }
  // Parts of a sum are never added in less than float32.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  GRAFT_TRY(check(f->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                          &reductions, sizeof reductions),
                  "choosing an algorithm", error));
  const size_t bytes = lt->workspace_bytes;
  GRAFT_TRY(check(f->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                          sizeof bytes),
                  "choosing an algorithm", error));
  cublasLtMatmulHeuristicResult_t found;
  int n = 0;
  const cublasStatus_t result = f->cublasLtMatmulAlgoGetHeuristic(lt->handle, lt->operation, lt->b, lt->a, lt->y, lt->y,
                                                                  preference, 1, &found, &n);
  GRAFT_TRY(check(result, "choosing an algorithm", error));
  if (n < 1) return GRAFT_FAIL(error, GRAFT_E_UNSUPPORTED, "cublasLt has no algorithm for this product");
  *out_algorithm = found.algo;
  return GRAFT_OK;
}

static graft_status choose(const lt_functions *f, const graft_lt *lt, uint32_t alignment, graft_error *error,
                           cublasLtMatmulAlgo_t *out_algorithm) {
  cublasLtMatmulPreference_t preference = NULL;
  GRAFT_TRY(check(f->cublasLtMatmulPreferenceCreate(&preference), "choosing an algorithm", error));
  graft_status status = ask_heuristic(f, lt, preference, alignment, error, out_algorithm);
  (void)f->cublasLtMatmulPreferenceDestroy(preference);
  return status;
}

static size_t workspace_for(const graft_lt_shape *shape) {
  static const double large = 1e9;
  const double products = (double)shape->m * (double)shape->n * (double)shape->k * (double)shape->batch;
  return products > large ? (size_t)32 << 20 : (size_t)1 << 20;
}

graft_status graft_lt_init(const graft_device *device, const graft_lt_shape *shape, graft_error *error,
                           graft_lt *out_lt) {
  graft_cuda_blas blas = {.struct_size = sizeof blas};
  lt_functions f;
  GRAFT_TRY(graft_cuda_blas_open(device, false, error, &blas));
  GRAFT_TRY(find_functions(blas.find_symbol, error, &f));
  graft_lt lt = {
      .shape = *shape, .handle = blas.lt, .find_symbol = blas.find_symbol, .workspace_bytes = workspace_for(shape)};
  graft_status status = describe_operation(&f, &lt, error);
  if (status == GRAFT_OK) status = describe_matrices(&f, &lt, error);
  if (status == GRAFT_OK) status = choose(&f, &lt, 16, error, &lt.algorithm);
  if (status != GRAFT_OK) {
    graft_lt_release(&lt);
    return status;
  }
  *out_lt = lt;
  return GRAFT_OK;
}

void graft_lt_release(graft_lt *lt) {
  lt_functions f;
  if (lt->find_symbol == NULL || find_functions(lt->find_symbol, NULL, &f) != GRAFT_OK) return;
  if (lt->operation != NULL) (void)f.cublasLtMatmulDescDestroy(lt->operation);
  if (lt->a != NULL) (void)f.cublasLtMatrixLayoutDestroy(lt->a);
  if (lt->b != NULL) (void)f.cublasLtMatrixLayoutDestroy(lt->b);
  if (lt->y != NULL) (void)f.cublasLtMatrixLayoutDestroy(lt->y);
  *lt = (graft_lt){0};
}

// What decides the work stands first; the rest says how to ask for it.
typedef struct product {
  graft_lt_shape shape;
  graft_lt_addresses at;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;
  const graft_lt *lt;
  __typeof__(cublasLtMatmul) *multiply;
  __typeof__(cublasLtMatmulDescSetAttribute) *set;
} product;

static graft_status run(const void *args, void *stream, graft_error *error) {
  const product *p = args;
  const graft_lt *lt = p->lt;
  const float one = 1, zero = 0;
  const int32_t one_i8 = 1, zero_i8 = 0;
  const bool is_i8 = p->shape.operands == GRAFT_DTYPE_I8;
  if (p->shape.has_bias) {
    GRAFT_TRY(check(p->set(lt->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->at.bias, sizeof p->at.bias),
                    "giving it a bias", error));
  }
  const cublasStatus_t result =
      p->multiply(lt->handle, lt->operation, is_i8 ? (const void *)&one_i8 : &one, p->at.b, lt->b, p->at.a, lt->a,
                  is_i8 ? (const void *)&zero_i8 : &zero, p->at.y, lt->y, p->at.y, lt->y, &p->algorithm,
                  p->at.workspace, p->workspace_bytes, stream);
  return check(result, "multiplying", error);
}

static bool is_aligned(const graft_lt_addresses *at) {
  const uintptr_t all = (uintptr_t)at->a | (uintptr_t)at->b | (uintptr_t)at->y | (uintptr_t)at->bias;
  return all % 16 == 0;
}

graft_status graft_lt_encode(graft_encoder *encoder, graft_lt *lt, const graft_lt_addresses *addresses,
                             graft_error *error) {
  lt_functions f;
  GRAFT_TRY(find_functions(lt->find_symbol, error, &f));
  product p;
  memset(&p, 0, sizeof p);  // padding too: it is compared
  memcpy(&p.shape, &lt->shape, sizeof p.shape);
  p.at = *addresses;
  p.algorithm = lt->algorithm;
  p.workspace_bytes = lt->workspace_bytes;
  p.lt = lt;
  p.multiply = f.cublasLtMatmul;
  p.set = f.cublasLtMatmulDescSetAttribute;
  if (!is_aligned(addresses)) {
    const uint32_t bytes = lt->shape.operands == GRAFT_DTYPE_F32 || lt->shape.operands == GRAFT_DTYPE_I8 ? 4 : 2;
    GRAFT_TRY(choose(&f, lt, bytes, error, &p.algorithm));
  }
  const graft_cuda_call call = {.struct_size = sizeof call,
                                .run = run,
                                .args = &p,
                                .args_bytes = sizeof p,
                                .key_bytes = offsetof(product, lt),
                                .is_capture_safe = true};
  return graft_cuda_encode_call(encoder, &call, error);
}
