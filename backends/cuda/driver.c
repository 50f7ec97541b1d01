#include "backends/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

#define QUOTE(text) #text
#define NAME_OF(name) QUOTE(name)

typedef struct symbol {
  const char *name;
  size_t offset;
} symbol;

#define SYMBOL(name) {NAME_OF(name), offsetof(graft_cuda_driver, name)},
static const symbol symbols[] = {GRAFT_CUDA_DRIVER(SYMBOL)};

static bool find_symbols(graft_cuda_driver *driver, graft_reason *why) {
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; ++i) {
    void *address = dlsym(driver->library, symbols[i].name);
    if (address == NULL) return graft_refuse(why, "the CUDA driver is too old: it has no %s", symbols[i].name);
    memcpy((char *)driver + symbols[i].offset, &address, sizeof address);
  }
  return true;
}

static bool start(graft_cuda_driver *driver, graft_reason *why) {
  CUresult result = driver->cuInit(0);
  if (result != CUDA_SUCCESS) {
    const char *text = NULL;
    (void)driver->cuGetErrorString(result, &text);
    return graft_refuse(why, "the CUDA driver does not start: %.80s", text != NULL ? text : "unknown reason");
  }
  (void)driver->cuDriverGetVersion(&driver->version);
  return true;
}

bool graft_cuda_driver_open(const char *path, graft_reason *why, graft_cuda_driver *out_driver) {
  graft_cuda_driver driver = {.library = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (driver.library == NULL) {
    return graft_refuse(why, "no CUDA driver: %.90s", path != NULL ? path : "libcuda.so.1 is not installed");
  }
  if (!find_symbols(&driver, why) || !start(&driver, why)) {
    graft_cuda_driver_close(&driver);
    return false;
  }
  *out_driver = driver;
  return true;
}

void graft_cuda_driver_close(graft_cuda_driver *driver) {
  if (driver->library != NULL) dlclose(driver->library);
  driver->library = NULL;
}

graft_status graft_cuda_driver_fail(const graft_cuda_driver *driver, CUresult result, const char *what,
                                    graft_error *error) {
  const char *name = NULL, *text = NULL;
  (void)driver->cuGetErrorName(result, &name);
  (void)driver->cuGetErrorString(result, &text);
  graft_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? GRAFT_E_NO_MEMORY : GRAFT_E_DEVICE;
  return GRAFT_FAIL(error, status, "%s: %s (%s)", what, text != NULL ? text : "unknown error",
                    name != NULL ? name : "no name");
}
