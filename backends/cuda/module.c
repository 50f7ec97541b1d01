// Device code on one device: modules are loaded when a kernel is prepared, once, and stay until the device is closed.
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/device.h"
#include "backends/cuda/function.h"
#include "graft/versioned.h"

struct graft_cuda_loaded {
  graft_cuda_loaded *next;
  const graft_cuda_module *source;
  const char *name;
  CUmodule module;
  graft_cuda_function *functions;
};

static graft_status load_module(graft_cuda_device *device, const graft_cuda_module *source, graft_error *error,
                                graft_cuda_loaded **out_loaded) {
  for (graft_cuda_loaded *loaded = device->modules; loaded != NULL; loaded = loaded->next) {
    if (loaded->source != source) continue;
    *out_loaded = loaded;
    return GRAFT_OK;
  }
  graft_cuda_module module;
  GRAFT_TRY(graft_versioned_copy(&module, sizeof module, source, "a graft_cuda_module", error));
  if (module.name == NULL || module.image == NULL)
    return GRAFT_FAIL(error, GRAFT_E_INVALID, "a graft_cuda_module has no name or no image");
  graft_cuda_loaded *loaded = calloc(1, sizeof *loaded);
  if (loaded == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to load device code");
  const CUresult result = device->driver.cuModuleLoadData(&loaded->module, module.image);
  graft_status status = graft_cuda_check(device, result, "loading device code", error);
  if (status != GRAFT_OK) {
    graft_error_note(error, "module %s for sm_%d%d", module.name, device->info.compute_major,
                     device->info.compute_minor);
    free(loaded);
    return status;
  }
  loaded->source = source;
  loaded->name = module.name;
  loaded->next = device->modules;
  device->modules = loaded;
  *out_loaded = loaded;
  return GRAFT_OK;
}

// Functions with different shared memory share one handle, so the limit only grows. What a launch may have unasked, 48
// KiB, counts what device code declares itself, so that it is always asked for.
static graft_status allow_shared(graft_cuda_device *device, graft_cuda_function *function, size_t shared_bytes,
                                 graft_error *error) {
  if (shared_bytes <= function->shared_bytes) return GRAFT_OK;
  if (shared_bytes > device->info.shared_bytes_per_block) {
    return GRAFT_FAIL(error, GRAFT_E_DEVICE, "%zu bytes of shared memory; the card has %zu for a block", shared_bytes,
                      device->info.shared_bytes_per_block);
  }
  const CUresult result = device->driver.cuFuncSetAttribute(
      function->handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
  GRAFT_TRY(graft_cuda_check(device, result, "asking for shared memory", error));
  function->shared_bytes = shared_bytes;
  return GRAFT_OK;
}

static graft_status add_function(graft_cuda_device *device, graft_cuda_loaded *loaded, const char *name,
                                 graft_error *error, graft_cuda_function **out_function) {
  for (graft_cuda_function *function = loaded->functions; function != NULL; function = function->next) {
    if (strcmp(function->name, name) != 0) continue;
    *out_function = function;
    return GRAFT_OK;
  }
  const size_t name_bytes = strlen(name) + 1;
  graft_cuda_function *function = calloc(1, sizeof *function + name_bytes);
  if (function == NULL) return GRAFT_FAIL(error, GRAFT_E_NO_MEMORY, "no memory to load device code");
  memcpy(function->name, name, name_bytes);
  const CUresult result = device->driver.cuModuleGetFunction(&function->handle, loaded->module, name);
  graft_status status = graft_cuda_check(device, result, "finding a function of device code", error);
  if (status != GRAFT_OK) {
    graft_error_note(error, "%s in module %s", name, loaded->name);
    free(function);
    return status;
  }
  function->next = loaded->functions;
  loaded->functions = function;
  *out_function = function;
  return GRAFT_OK;
}

graft_status graft_cuda_function_load(const graft_device *device, const graft_cuda_module *module, const char *name,
                                      size_t shared_bytes, graft_error *error, graft_cuda_function **out_function) {
  graft_cuda_device *state = graft_cuda_device_of(device);
  if (state == NULL) return GRAFT_FAIL(error, GRAFT_E_INVALID, "%s is no CUDA device", graft_device_name(device));
  GRAFT_TRY(graft_cuda_enter(state, error));
  pthread_mutex_lock(&state->loading);
  graft_cuda_loaded *loaded = NULL;
  graft_cuda_function *function = NULL;
  graft_status status = load_module(state, module, error, &loaded);
  if (status == GRAFT_OK) status = add_function(state, loaded, name, error, &function);
  if (status == GRAFT_OK) status = allow_shared(state, function, shared_bytes, error);
  pthread_mutex_unlock(&state->loading);
  graft_cuda_leave(state);
  if (status == GRAFT_OK) *out_function = function;
  return status;
}

void graft_cuda_modules_unload(graft_cuda_device *device) {
  while (device->modules != NULL) {
    graft_cuda_loaded *loaded = device->modules;
    device->modules = loaded->next;
    while (loaded->functions != NULL) {
      graft_cuda_function *function = loaded->functions;
      loaded->functions = function->next;
      free(function);
    }
    (void)device->driver.cuModuleUnload(loaded->module);
    free(loaded);
  }
}
