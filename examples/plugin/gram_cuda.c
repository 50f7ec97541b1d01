// "acme.gram.v1": y[i, j] = Σ x[i, k] · x[j, k], f32 of rank 2. Its kernel is a function of cublas, called on the
// device's stream with the handle that graft lends through a service.
#include <cublas_v2.h>
#include <limits.h>
#include <stdlib.h>

#include "acme_cuda.h"

static graft_status infer(graft_infer_args *args) {
  const graft_tensor_desc *x = args->inputs[0];
  if (x->dtype != GRAFT_F32 || x->rank != 2)
    return GRAFT_FAIL(args->error, GRAFT_E_SHAPE, "gram takes f32 of rank 2, not %s of rank %d", x->dtype->name,
                      (int)x->rank);
  const int64_t shape[2] = {x->shape[0], x->shape[0]};
  return graft_tensor_desc_init(GRAFT_F32, 2, shape, args->error, &args->outputs[0]);
}

static double load(const graft_view *x, int64_t row, int64_t column) {
  return graft_dtype_load(x->desc.dtype, graft_view_at(x, (int64_t[GRAFT_MAX_RANK]){row, column}));
}

static graft_status reference(const graft_reference_args *args) {
  const graft_view *x = &args->inputs[0], *y = &args->outputs[0];
  int64_t at[GRAFT_MAX_RANK] = {0};
  if (graft_tensor_desc_elements(&y->desc) == 0) return GRAFT_OK;
  do {
    double sum = 0;
    for (int64_t k = 0; k < x->desc.shape[1]; ++k) sum += load(x, at[0], k) * load(x, at[1], k);
    graft_dtype_store(y->desc.dtype, graft_view_at(y, at), sum);
  } while (graft_index_next(&y->desc, at));
  return GRAFT_OK;
}

static double count_flops(const void *attrs, const graft_tensor_desc *const *inputs, uint32_t n_inputs,
                          const graft_tensor_desc *outputs) {
  (void)attrs, (void)n_inputs;
  return 2.0 * (double)graft_tensor_desc_elements(outputs) * (double)inputs[0]->shape[1];
}

static const graft_op_case cases[] = {
    {.name = "odd", .n_inputs = 1, .inputs = {{.dtype = GRAFT_F32, .rank = 2, .shape = {5, 37}}}, .reduction = 37},
    {.name = "long",
     .n_inputs = 1,
     .inputs = {{.dtype = GRAFT_F32, .rank = 2, .shape = {33, 2049}}},
     .reduction = 2049},
    {.name = "style",
     .n_inputs = 1,
     .inputs = {{.dtype = GRAFT_F32, .rank = 2, .shape = {512, 4096}}},
     .reduction = 4096,
     .flags = GRAFT_CASE_BENCH},
};

static const graft_op_def ops[] = {{.struct_size = sizeof ops[0],
                                    .traits = GRAFT_OP_PURE,
                                    .name = "acme.gram.v1",
                                    .min_inputs = 1,
                                    .max_inputs = 1,
                                    .n_outputs = 1,
                                    .infer = infer,
                                    .reference = reference,
                                    .flops = count_flops,
                                    .cases = cases,
                                    .n_cases = 3}};

static bool supports(const graft_node_info *node, graft_reason *why) {
  const graft_tensor_desc *x = node->inputs[0];
  if (graft_device_service(node->device, GRAFT_CUDA_BLAS_SERVICE) == NULL)
    return graft_refuse(why, "the device has no " GRAFT_CUDA_BLAS_SERVICE);
  if (!graft_tensor_desc_is_contiguous(x)) return graft_refuse(why, "rows do not follow each other");
  if (graft_tensor_desc_elements(x) == 0) return graft_refuse(why, "x is empty");
  return (x->shape[0] <= INT_MAX && x->shape[1] <= INT_MAX) || graft_refuse(why, "x is too large for the library");
}

typedef struct product {
  __typeof__(cublasSgemm_v2) *multiply;
  cublasHandle_t handle;
  const float *x;
  float *y;
  int n_rows, n_columns;
} product;

// What of a product is known before addresses are. The handle is only borrowed, and nothing of it is changed.
static graft_status prepare(const graft_node_info *node, graft_error *error, graft_prepared *out_prepared) {
  const graft_cuda_blas_service *service = graft_device_service(node->device, GRAFT_CUDA_BLAS_SERVICE);
  graft_cuda_blas blas = {.struct_size = sizeof blas};
  GRAFT_TRY(service->open(node->device, true, error, &blas));
  product *p = calloc(1, sizeof *p);
  if (p == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to prepare a product");
  *p = (product){
      .handle = blas.cublas, .n_rows = (int)node->inputs[0]->shape[0], .n_columns = (int)node->inputs[0]->shape[1]};
  *(void **)&p->multiply = blas.find_symbol("cublasSgemm_v2");
  out_prepared->state = p;
  if (p->multiply != NULL) return GRAFT_OK;
  free(p);
  out_prepared->state = NULL;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublas has no cublasSgemm_v2");
}

// The library counts columns first, so that x is its own transpose to it.
static graft_status run(const void *args, void *stream, graft_error *error) {
  const product *p = args;
  const float one = 1, zero = 0;
  (void)stream;  // the handle's already
  const cublasStatus_t result = p->multiply(p->handle, CUBLAS_OP_T, CUBLAS_OP_N, p->n_rows, p->n_rows, p->n_columns,
                                            &one, p->x, p->n_columns, p->x, p->n_columns, &zero, p->y, p->n_rows);
  if (result == CUBLAS_STATUS_SUCCESS) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublasSgemm_v2 fails: status %d", (int)result);
}

static graft_status encode(graft_encoder *encoder, const graft_encode_args *args) {
  product p = *(const product *)args->state;
  p.x = args->inputs[0];
  p.y = args->outputs[0];
  const graft_cuda_call call = {.struct_size = sizeof call,
                                .run = run,
                                .args = &p,
                                .args_bytes = sizeof p,
                                .key_bytes = sizeof p,
                                .is_capture_safe = true};
  return graft_cuda_encode_call(encoder, &call, args->error);
}

static const graft_kernel_def kernels[] = {{.struct_size = sizeof kernels[0],
                                            .name = "acme_gram_f32__cublas",
                                            .op = "acme.gram.v1",
                                            .backend = "cuda",
                                            .supports = supports,
                                            .prepare = prepare,
                                            .encode = encode,
                                            .destroy = free}};

const graft_extension acme_gram_extension = {.struct_size = sizeof acme_gram_extension,
                                             .abi_version = GRAFT_ABI_VERSION,
                                             .name = "acme.gram",
                                             .vendor = "acme",
                                             .ops = ops,
                                             .n_ops = 1,
                                             .kernels = kernels,
                                             .n_kernels = 1};
