// A double of cublasLt: every product has an algorithm, and multiplying does nothing. Loaded before the backend looks
// for the library, whose name it has.
#include <cublasLt.h>
#include <string.h>

void fake_cublaslt_fail(int type, int status);

static char anything;
static char layouts[256];  // by type
static int failing_type = -1, failure;

// Products of |type| (cudaDataType) have no algorithm, with |status|; of type -1: the library does not start. 0: all
// goes well again.
void fake_cublaslt_fail(int type, int status) {
  failing_type = type;
  failure = status;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (failing_type < 0 && failure != 0) return (cublasStatus_t)failure;
  *handle = (cublasLtHandle_t)(void *)&anything;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  (void)handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale) {
  (void)compute, (void)scale;
  *desc = (cublasLtMatmulDesc_t)(void *)&anything;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  (void)desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  (void)desc, (void)attribute, (void)value, (void)bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t step) {
  (void)rows, (void)columns, (void)step;
  *layout = (cublasLtMatrixLayout_t)(void *)&layouts[type];
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  (void)layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  (void)layout, (void)attribute, (void)value, (void)bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  *preference = (cublasLtMatmulPreference_t)(void *)&anything;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  (void)preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  (void)preference, (void)attribute, (void)value, (void)bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t found[], int *n_found) {
  (void)handle, (void)operation, (void)b, (void)c, (void)d, (void)preference;
  if (failing_type >= 0 && (const char *)(const void *)a == &layouts[failing_type]) return (cublasStatus_t)failure;
  *n_found = n_wanted > 0;
  if (n_wanted > 0) memset(found, 0, sizeof *found);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t bytes, cudaStream_t stream) {
  (void)handle, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
  (void)c_layout, (void)d, (void)d_layout, (void)algorithm, (void)workspace, (void)bytes, (void)stream;
  return CUBLAS_STATUS_SUCCESS;
}
