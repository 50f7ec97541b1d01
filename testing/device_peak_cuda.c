// Products of CUDA devices by cublasLt, and the clock right behind them.
#include <stdlib.h>
#include <string.h>

#include "graft/cuda.h"
#include "ops/common/cuda/lt.h"
#include "testing/device_peak_internal.h"

enum { N_PRODUCTS = 10, N_ROUNDS = 4 };

extern const unsigned char graft_cuda_image_clock[];
static const graft_cuda_module clock_module = {
    .struct_size = sizeof clock_module, .name = "clock", .image = graft_cuda_image_clock};

// A dtype, its products' result, and the bits of a random word that are kept and set, so that numbers are neither
// infinite nor tiny: between 0.5 and 2 in size, any byte for int8.
typedef struct product_type {
  graft_dtype_code operands, result;
  size_t operand_bytes, result_bytes;
  uint32_t kept, set;
} product_type;

static const product_type types[GRAFT_N_PRODUCTS] = {
    [GRAFT_PRODUCT_F32] = {GRAFT_DTYPE_F32, GRAFT_DTYPE_F32, 4, 4, 0x80ffffffu, 0x3f000000u},
    [GRAFT_PRODUCT_BF16] = {GRAFT_DTYPE_BF16, GRAFT_DTYPE_BF16, 2, 2, 0x80ff80ffu, 0x3f003f00u},
    [GRAFT_PRODUCT_F16] = {GRAFT_DTYPE_F16, GRAFT_DTYPE_F16, 2, 2, 0x87ff87ffu, 0x38003800u},
    [GRAFT_PRODUCT_F8] = {GRAFT_DTYPE_F8_E4M3, GRAFT_DTYPE_BF16, 1, 2, 0x8f8f8f8fu, 0x30303030u},
    [GRAFT_PRODUCT_I8] = {GRAFT_DTYPE_I8, GRAFT_DTYPE_I32, 1, 4, 0xffffffffu, 0},
};

typedef struct products {
  graft_device *device;
  const graft_backend_def *backend;
  void *state;
  int64_t side;
  char *operands, *result, *workspace, *counts;
  size_t operand_bytes, result_bytes, workspace_bytes, counts_bytes;
  uint32_t *numbers;  // on the host
} products;

static graft_status allocate(products *p, graft_error *error) {
  const size_t n = (size_t)p->side * (size_t)p->side;
  p->operand_bytes = 2 * n * sizeof(float);
  p->result_bytes = n * sizeof(float);
  p->workspace_bytes = (size_t)32 << 20;
  p->counts_bytes = 2 * sizeof(int64_t);
  void *memory[4] = {NULL};
  const size_t bytes[4] = {p->operand_bytes, p->result_bytes, p->workspace_bytes, p->counts_bytes};
  char **const places[4] = {&p->operands, &p->result, &p->workspace, &p->counts};
  for (int i = 0; i < 4; ++i) {
    GRAFT_TRY(p->backend->allocate(p->state, bytes[i], error, &memory[i]));
    *places[i] = memory[i];
  }
  p->numbers = malloc(p->operand_bytes);
  return p->numbers != NULL ? GRAFT_OK : GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory for random matrices");
}

static void release(const products *p) {
  if (p->operands != NULL) p->backend->release(p->state, p->operands, p->operand_bytes);
  if (p->result != NULL) p->backend->release(p->state, p->result, p->result_bytes);
  if (p->workspace != NULL) p->backend->release(p->state, p->workspace, p->workspace_bytes);
  if (p->counts != NULL) p->backend->release(p->state, p->counts, p->counts_bytes);
  free(p->numbers);
}

static graft_status write_numbers(const products *p, const product_type *type, graft_error *error) {
  const size_t bytes = 2 * (size_t)p->side * (size_t)p->side * type->operand_bytes;
  uint32_t random = 2463534242u;
  for (size_t i = 0; i < bytes / sizeof *p->numbers; ++i) {
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    p->numbers[i] = (random & type->kept) | type->set;
  }
  return p->backend->upload(p->state, p->operands, p->numbers, bytes, error);
}

static graft_status encode_clock(const products *p, graft_encoder *encoder, graft_error *error) {
  graft_cuda_function *function = NULL;
  GRAFT_TRY(graft_cuda_function_load(p->device, &clock_module, "graft_clock", 0, error, &function));
  void *counts = p->counts;
  const graft_cuda_launch launch = {.struct_size = sizeof launch,
                                    .function = function,
                                    .grid = {1, 1, 1},
                                    .block = {1, 1, 1},
                                    .params = &counts,
                                    .params_bytes = sizeof counts};
  return graft_cuda_encode(encoder, &launch, error);
}

// Step 0: the products, step 1: the clock.
static graft_status record(const products *p, graft_lt *lt, size_t operand_bytes, graft_error *error,
                           graft_recording *recording) {
  const graft_lt_addresses addresses = {.a = p->operands,
                                        .b = p->operands + (size_t)p->side * (size_t)p->side * operand_bytes,
                                        .y = p->result,
                                        .workspace = p->workspace};
  graft_encoder *encoder = p->backend->step_begin(recording, 0);
  for (int i = 0; i < N_PRODUCTS; ++i) GRAFT_TRY(graft_lt_encode(encoder, lt, &addresses, error));
  GRAFT_TRY(encode_clock(p, p->backend->step_begin(recording, 1), error));
  return p->backend->record_end(recording, error);
}

static graft_status time_rounds(const products *p, graft_recording *recording, graft_error *error,
                                double *out_seconds) {
  *out_seconds = 1e300;
  for (int i = 0; i < N_ROUNDS; ++i) {
    const double begun = graft_device_peak_now();
    GRAFT_TRY(p->backend->run(recording, 0, 1, NULL, error));
    const double seconds = (graft_device_peak_now() - begun) / N_PRODUCTS;
    if (seconds < *out_seconds) *out_seconds = seconds;
  }
  return p->backend->run(recording, 0, 2, NULL, error);
}

static graft_status measure(const products *p, graft_device_product product, graft_error *error, double *out_seconds) {
  const product_type *type = &types[product];
  const int64_t side = p->side;
  const graft_lt_shape shape = {.m = side,
                                .n = side,
                                .k = side,
                                .batch = 1,
                                .a_step = side,
                                .b_step = side,
                                .y_step = side,
                                .is_b_transposed = true,
                                .operands = type->operands,
                                .result = type->result};
  graft_lt lt = {0};
  graft_recording *recording = NULL;
  GRAFT_TRY(graft_lt_init(p->device, &shape, error, &lt));
  graft_status status = write_numbers(p, type, error);
  if (status == GRAFT_OK) status = p->backend->record_begin(p->state, 2, error, &recording);
  if (status == GRAFT_OK) status = record(p, &lt, type->operand_bytes, error, recording);
  if (status == GRAFT_OK) status = time_rounds(p, recording, error, out_seconds);
  if (recording != NULL) p->backend->record_destroy(recording);
  graft_lt_release(&lt);
  return status;
}

static graft_status read_clock(const products *p, graft_error *error, double *out_ghz) {
  int64_t counts[2] = {0};
  GRAFT_TRY(p->backend->download(p->state, counts, p->counts, sizeof counts, error));
  *out_ghz = counts[1] > 0 ? (double)counts[0] / (double)counts[1] : 0;
  return GRAFT_OK;
}

static graft_status measure_all(products *p, graft_error *error, graft_device_peaks *peaks) {
  const double operations = 2.0 * (double)p->side * (double)p->side * (double)p->side;
  GRAFT_TRY(allocate(p, error));
  for (int i = 0; i < GRAFT_N_PRODUCTS; ++i) {
    double seconds = 0;
    graft_error details = {0};
    graft_status status = measure(p, (graft_device_product)i, &details, &seconds);
    // A library or card that has no such product says so when it is asked for an algorithm.
    if (status != GRAFT_OK && status != GRAFT_E_UNSUPPORTED) {
      if (error != NULL) *error = details;
      return status;
    }
    if (status == GRAFT_OK) peaks->teraops[i] = 1e-12 * operations / seconds;
    if (i == GRAFT_PRODUCT_BF16 && status == GRAFT_OK) GRAFT_TRY(read_clock(p, error, &peaks->clock_ghz));
  }
  return GRAFT_OK;
}

graft_status graft_device_peak_products(graft_device *device, int64_t side, graft_error *error,
                                        graft_device_peaks *peaks) {
  graft_cuda_blas blas = {.struct_size = sizeof blas};
  graft_error details = {0};
  if (graft_cuda_describe(device) == NULL) return GRAFT_OK;
  graft_status status = graft_cuda_blas_open(device, false, &details, &blas);
  if (status == GRAFT_E_NOT_FOUND) return GRAFT_OK;  // without the library there are no products
  if (status != GRAFT_OK) {
    if (error != NULL) *error = details;
    return status;
  }
  products p = {
      .device = device, .backend = graft_device_backend(device), .state = graft_device_state(device), .side = side};
  status = measure_all(&p, error, peaks);
  release(&p);
  return status;
}
