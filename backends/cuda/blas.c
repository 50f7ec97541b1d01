// NVIDIA's matrix libraries. cublasLt, which nearly every model needs, takes a twentieth of a second to load: a thread
// does that while the driver makes the device's context, which takes longer. cublas is loaded when it is asked for.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "graft/versioned.h"

// Looks for the newer version first. What is loaded stays: cublas keeps threads and tables that do not survive being
// unloaded. The loader counts who has it, and takes turns.
static void *open_library(const char *const names[2]) {
  void *handle = NULL;
  for (int i = 0; i < 2 && handle == NULL; ++i) handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return handle;
}

static graft_status fail_to_find(const char *const names[2], const char *name, graft_error *error) {
  void *handle = open_library(names);
  if (handle == NULL) {
    return GRAFT_FAIL(error, GRAFT_E_NOT_FOUND, "neither %s nor %s is installed", names[0], names[1]);
  }
  (void)dlclose(handle);
  return GRAFT_FAIL(error, GRAFT_E_DEVICE, "%s or %s is installed, but has no %s", names[0], names[1], name);
}

static void *find_in(const char *const names[2], const char *name) {
  void *handle = open_library(names);
  if (handle == NULL) return NULL;
  void *symbol = dlsym(handle, name);
  (void)dlclose(handle);
  return symbol;
}

static const char *const lt_names[2] = {"libcublasLt.so.13", "libcublasLt.so.12"};
static const char *const cublas_names[2] = {"libcublas.so.13", "libcublas.so.12"};

static void *find_symbol(const char *name) {
  static const char lt[] = "cublasLt";
  return strncmp(name, lt, sizeof lt - 1) == 0 ? find_in(lt_names, name) : find_in(cublas_names, name);
}

static void *load_lt(void *nothing) {
  (void)nothing;
  void *handle = open_library(lt_names);
  if (handle != NULL) (void)dlclose(handle);
  return NULL;
}

void graft_cuda_blas_prefetch(graft_cuda_device *device) {
  device->is_loading_lt = pthread_create(&device->lt_loader, NULL, load_lt, NULL) == 0;
}

static graft_status open_lt_handle(graft_cuda_device *device, graft_error *error) {
  if (device->lt != NULL) return GRAFT_OK;
  __typeof__(cublasLtCreate) *create = NULL;
  *(void **)&create = find_in(lt_names, "cublasLtCreate");
  if (create == NULL) return fail_to_find(lt_names, "cublasLtCreate", error);
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
  __typeof__(cublasCreate_v2) *create = NULL;
  __typeof__(cublasSetStream_v2) *set_stream = NULL;
  *(void **)&create = find_in(cublas_names, "cublasCreate_v2");
  *(void **)&set_stream = find_in(cublas_names, "cublasSetStream_v2");
  if (create == NULL) return fail_to_find(cublas_names, "cublasCreate_v2", error);
  if (set_stream == NULL) return fail_to_find(cublas_names, "cublasSetStream_v2", error);
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
                                .find_symbol = find_symbol};
  pthread_mutex_unlock(&state->loading);
  graft_cuda_leave(state);
  if (status == GRAFT_OK) graft_versioned_fill(out_blas, &blas, sizeof blas);
  return status;
}

void graft_cuda_blas_join(graft_cuda_device *device) {
  if (device->is_loading_lt) (void)pthread_join(device->lt_loader, NULL);
  device->is_loading_lt = false;
}

void graft_cuda_blas_close(graft_cuda_device *device) {
  __typeof__(cublasLtDestroy) *destroy_lt = NULL;
  if (device->lt != NULL) *(void **)&destroy_lt = find_in(lt_names, "cublasLtDestroy");
  if (destroy_lt != NULL) (void)destroy_lt(device->lt);
  __typeof__(cublasDestroy_v2) *destroy = NULL;
  if (device->cublas != NULL) *(void **)&destroy = find_in(cublas_names, "cublasDestroy_v2");
  if (destroy != NULL) (void)destroy(device->cublas);
  device->lt = device->cublas = NULL;
}
