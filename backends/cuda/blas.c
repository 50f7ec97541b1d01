// NVIDIA's matrix libraries, loaded when the first kernel asks for them. They are large, so a program that needs none
// of them does not pay for them, and one library serves all devices of the process.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>

#include "backends/cuda/device.h"

typedef struct library {
  pthread_mutex_t lock;
  void *handle;
} library;

// Stay loaded: cublas keeps threads and tables that do not survive being unloaded.
static library lt_library = {.lock = PTHREAD_MUTEX_INITIALIZER}, cublas_library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *open_library(library *l, const char *const names[2]) {
  pthread_mutex_lock(&l->lock);
  for (int i = 0; i < 2 && l->handle == NULL; ++i) l->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  void *handle = l->handle;
  pthread_mutex_unlock(&l->lock);
  return handle;
}

static void *open_lt(void) {
  static const char *const names[2] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  return open_library(&lt_library, names);
}

static void *open_cublas(void) {
  static const char *const names[2] = {"libcublas.so.13", "libcublas.so.12"};
  return open_library(&cublas_library, names);
}

static void *find_lt_symbol(const char *name) {
  void *handle = open_lt();
  return handle != NULL ? dlsym(handle, name) : NULL;
}

static graft_status open_lt_handle(graft_cuda_device *device, graft_error *error) {
  if (device->lt != NULL) return GRAFT_OK;
  __typeof__(cublasLtCreate) *create = NULL;
  *(void **)&create = find_lt_symbol("cublasLtCreate");
  if (create == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublasLt is not installed: neither libcublasLt.so.13 nor .12 is found");
  }
  cublasLtHandle_t handle = NULL;
  const cublasStatus_t result = create(&handle);
  if (result != CUBLAS_STATUS_SUCCESS) {
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublasLt does not start on this device: status %d", (int)result);
  }
  device->lt = handle;
  return GRAFT_OK;
}

static graft_status open_cublas_handle(graft_cuda_device *device, graft_error *error) {
  if (device->cublas != NULL) return GRAFT_OK;
  void *opened = open_cublas();
  __typeof__(cublasCreate_v2) *create = NULL;
  __typeof__(cublasSetStream_v2) *set_stream = NULL;
  if (opened != NULL) *(void **)&create = dlsym(opened, "cublasCreate_v2");
  if (opened != NULL) *(void **)&set_stream = dlsym(opened, "cublasSetStream_v2");
  if (create == NULL || set_stream == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublas is not installed: neither libcublas.so.13 nor .12 is found");
  }
  cublasHandle_t handle = NULL;
  cublasStatus_t result = create(&handle);
  if (result == CUBLAS_STATUS_SUCCESS) result = set_stream(handle, device->stream);
  if (handle != NULL) device->cublas = handle;
  if (result == CUBLAS_STATUS_SUCCESS) return GRAFT_OK;
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "cublas does not start on this device: status %d", (int)result);
}

graft_status graft_cuda_blas_open(const graft_device *device, bool has_cublas, graft_error *error,
                                  graft_cuda_blas *out_blas) {
  graft_cuda_device *state = graft_cuda_device_of(device);
  if (state == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is no CUDA device", graft_device_name(device));
  GRAFT_TRY(graft_cuda_enter(state, error));
  pthread_mutex_lock(&state->loading);
  graft_status status = open_lt_handle(state, error);
  if (status == GRAFT_OK && has_cublas) status = open_cublas_handle(state, error);
  const graft_cuda_blas blas = {.struct_size = sizeof blas,
                                .cublas = has_cublas ? state->cublas : NULL,
                                .lt = state->lt,
                                .find_symbol = find_lt_symbol};
  pthread_mutex_unlock(&state->loading);
  graft_cuda_leave(state);
  if (status == GRAFT_OK) *out_blas = blas;
  return status;
}

void graft_cuda_blas_close(graft_cuda_device *device) {
  __typeof__(cublasLtDestroy) *destroy_lt = NULL;
  if (device->lt != NULL) *(void **)&destroy_lt = find_lt_symbol("cublasLtDestroy");
  if (destroy_lt != NULL) (void)destroy_lt(device->lt);
  __typeof__(cublasDestroy_v2) *destroy = NULL;
  if (device->cublas != NULL) *(void **)&destroy = dlsym(open_cublas(), "cublasDestroy_v2");
  if (destroy != NULL) (void)destroy(device->cublas);
  device->lt = device->cublas = NULL;
}
