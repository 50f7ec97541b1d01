#include "fake_libcuda.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void fake_cuda_reset(int64_t fail_at, int result);
fake_cuda_counts fake_cuda_get_counts(void);

static fake_cuda_counts counts;
static int64_t failing_call;
static CUresult failure;
static bool is_capturing;

// Freed device memory is handed out again, the last first, so that a plan made anew has the addresses it had.
typedef struct block {
  struct block *next, *next_of_all;
  size_t bytes;
  _Alignas(256) char data[];
} block;
static block *free_blocks, *all_blocks;

void fake_cuda_reset(int64_t fail_at, int result) {
  const fake_cuda_counts live = {.live_objects = counts.live_objects, .live_bytes = counts.live_bytes};
  counts = live;
  failing_call = fail_at;
  failure = (CUresult)result;
  is_capturing = false;
}

fake_cuda_counts fake_cuda_get_counts(void) {
  return counts;
}

// Counts a call; whether it may go on.
static CUresult call(void) {
  return ++counts.calls == failing_call ? failure : CUDA_SUCCESS;
}

#define CALL()                                   \
  do {                                           \
    const CUresult result_ = call();             \
    if (result_ != CUDA_SUCCESS) return result_; \
  } while (0)

static char anything;
static void *make_object(void) {
  ++counts.live_objects;
  return &anything;
}

CUresult cuInit(unsigned int flags) {
  (void)flags;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  (void)error;
  *text = "made to fail";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  CALL();
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CALL();
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
  (void)device;
  strncpy(name, "Fake GPU", (size_t)bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  (void)device;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    default: *value = 16; break;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = (size_t)1 << 30;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  (void)device;
  CALL();
  *context = make_object();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  (void)context;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
  *context = NULL;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  CALL();
  *total_bytes = (size_t)1 << 30;
  *free_bytes = *total_bytes - (size_t)counts.live_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  CALL();
  block **link = &free_blocks;
  while (*link != NULL && (*link)->bytes != bytes) link = &(*link)->next;
  block *found = *link;
  if (found != NULL) {
    *link = found->next;
  } else {
    found = aligned_alloc(256, (sizeof *found + bytes + 255) / 256 * 256);
    if (found == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    found->bytes = bytes;
    found->next_of_all = all_blocks;
    all_blocks = found;
  }
  ++counts.live_objects;
  counts.live_bytes += (int64_t)bytes;
  *address = (CUdeviceptr)(uintptr_t)found->data;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  block *freed = (block *)(void *)((char *)(uintptr_t)address - offsetof(block, data));
  --counts.live_objects;
  counts.live_bytes -= (int64_t)freed->bytes;
  freed->next = free_blocks;
  free_blocks = freed;
  return CUDA_SUCCESS;
}

// What a lost device held is never given back. Tests look at live_objects; leak checkers at the memory of others.
__attribute__((destructor)) static void free_all(void) {
  while (all_blocks != NULL) {
    block *freed = all_blocks;
    all_blocks = freed->next_of_all;
    free(freed);
  }
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
  (void)flags;
  CALL();
  *memory = malloc(bytes);
  if (*memory == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  ++counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory) {
  --counts.live_objects;
  free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned int flags) {
  (void)flags;
  CALL();
  *address = (CUdeviceptr)(uintptr_t)memory;
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  (void)stream;
  CALL();
  memcpy((void *)(uintptr_t)target, source, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  (void)stream;
  CALL();
  memcpy(target, (const void *)(uintptr_t)source, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  (void)stream;
  CALL();
  memcpy((void *)(uintptr_t)target, (const void *)(uintptr_t)source, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, CUstream stream) {
  (void)stream;
  CALL();
  memset((void *)(uintptr_t)target, value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  (void)flags;
  CALL();
  *stream = make_object();
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  (void)stream;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  (void)stream;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  (void)stream, (void)event, (void)flags;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  (void)stream, (void)mode;
  CALL();
  is_capturing = true;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  (void)stream;
  is_capturing = false;
  CALL();
  *graph = make_object();
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  (void)stream;
  CALL();
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  (void)flags;
  CALL();
  *event = make_object();
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  (void)event;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  (void)event, (void)stream;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  (void)event;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  (void)event;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  (void)image;
  CALL();
  *module = make_object();
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  (void)module;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  (void)module, (void)name;
  CALL();
  *function = (CUfunction)(void *)&anything;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  (void)function, (void)attribute, (void)value;
  CALL();
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **params, void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
  (void)shared_bytes, (void)stream, (void)params, (void)extra;
  CALL();
  ++*(is_capturing ? &counts.captured : &counts.launches);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  (void)graph;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  (void)graph, (void)flags;
  CALL();
  *exec = make_object();
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  (void)exec;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  (void)exec, (void)stream;
  CALL();
  ++counts.graph_launches;
  return CUDA_SUCCESS;
}
