// driver.h — the CUDA driver's functions, looked up at run time, so that one program runs with and without a GPU.
#ifndef GRAFT_BACKENDS_CUDA_DRIVER_H
#define GRAFT_BACKENDS_CUDA_DRIVER_H

#include <cuda.h>

#include "graft/kernel.h"

// Every function that is used. cuda.h renames some of them to the version that it describes, in both places alike.
// clang-format off
#define GRAFT_CUDA_DRIVER(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) \
  X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxPushCurrent) X(cuCtxPopCurrent) \
  X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) \
  X(cuMemHostGetDevicePointer) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemsetD8Async) \
  X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamBeginCapture) \
  X(cuStreamEndCapture) X(cuStreamIsCapturing) X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) \
  X(cuEventQuery) X(cuEventSynchronize) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) \
  X(cuFuncSetAttribute) X(cuLaunchKernel) X(cuGraphDestroy) X(cuGraphInstantiateWithFlags) \
  X(cuGraphExecDestroy) X(cuGraphLaunch) X(cuMemcpyDtoDAsync) X(cuStreamWaitEvent) \
  X(cuTensorMapEncodeTiled) X(cuMemHostRegister) X(cuMemHostUnregister)
// clang-format on

#define GRAFT_CUDA_MEMBER(name) __typeof__(name) *name;
typedef struct graft_cuda_driver {
  void *library;
  int version;  // 13000: CUDA 13.0
  GRAFT_CUDA_DRIVER(GRAFT_CUDA_MEMBER)
} graft_cuda_driver;
#undef GRAFT_CUDA_MEMBER

// Loads |path| (NULL: the system's libcuda.so.1) and starts the driver. On failure |why| has a sentence and nothing is
// left open.
bool graft_cuda_driver_open(const char *path, graft_reason *why, graft_cuda_driver *out_driver);
void graft_cuda_driver_close(graft_cuda_driver *driver);

// Fills |error| with what was tried and the driver's name and text of |result|.
graft_status graft_cuda_driver_fail(const graft_cuda_driver *driver, CUresult result, const char *what,
                                    graft_error *error);

#endif
