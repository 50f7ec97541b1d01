#include "fake_libcuda.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fake_queue.h"

void fake_cuda_reset(int64_t fail_at, int result);
fake_cuda_counts fake_cuda_get_counts(void);
void fake_cuda_set_memory(int64_t bytes);
void fake_cuda_on_capture(void (*call_back)(void));
void fake_cuda_lack(int attribute);
void fake_cuda_limit_pinning(int64_t bytes);
void fake_cuda_share(int bytes);

static fake_cuda_counts counts;
static int64_t failing_call;
static CUresult failure;
static fake_stream *capturing;  // the stream that is captured, and what of it
static fake_list captured;
static bool is_capture_broken;
static void (*on_capture)(void);
static int64_t card_bytes = (int64_t)1 << 30, most_pinned_bytes = INT64_MAX;
static int lacking = -1;                                  // an attribute
enum { SHARED_BYTES = 227 << 10, OWN_SHARED_BYTES = 1 };  // of a block; of that a function's own
static int shared_bytes_of_block = SHARED_BYTES;
static int64_t n_wrong;  // calls that a real driver answers with something undefined

// Freed device memory is handed out again, the last first, so that a plan made anew has the addresses it had.
typedef struct block {
  struct block *next, *next_of_all;
  size_t bytes;
  _Alignas(256) char data[];
} block;
static block *free_blocks, *all_blocks;

void fake_cuda_reset(int64_t fail_at, int result) {
  counts = (fake_cuda_counts){
      .live_objects = counts.live_objects, .live_bytes = counts.live_bytes, .pinned_bytes = counts.pinned_bytes};
  failing_call = fail_at;
  failure = (CUresult)result;
  capturing = NULL;
  is_capture_broken = false;
  on_capture = NULL;
  lacking = -1;
  most_pinned_bytes = INT64_MAX;
  shared_bytes_of_block = SHARED_BYTES;
  n_wrong = 0;
  fake_list_clear(&captured);
  fake_queue_reset();
}

void fake_cuda_on_capture(void (*call_back)(void)) {
  on_capture = call_back;
}

fake_cuda_counts fake_cuda_get_counts(void) {
  counts.hazards = fake_n_hazards() + n_wrong;
  return counts;
}

void fake_cuda_lack(int attribute) {
  lacking = attribute;
}

void fake_cuda_limit_pinning(int64_t bytes) {
  most_pinned_bytes = bytes;
}

void fake_cuda_share(int bytes) {
  shared_bytes_of_block = bytes;
}

void fake_cuda_set_memory(int64_t bytes) {
  card_bytes = bytes;
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
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = shared_bytes_of_block; break;
    default: *value = 16; break;
  }
  if ((int)attribute == lacking) *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = (size_t)card_bytes;
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

static _Thread_local int n_contexts;  // that were made current in this thread

CUresult cuCtxPushCurrent(CUcontext context) {
  (void)context;
  CALL();
  ++n_contexts;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
  --n_contexts;
  *context = NULL;
  return CUDA_SUCCESS;
}

// Waiting for what is captured is refused, and breaks the capture.
static CUresult refuse_wait(void) {
  is_capture_broken = true;
  ++counts.refused_waits;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuCtxSynchronize(void) {
  CALL();
  if (capturing != NULL) return refuse_wait();
  fake_run_all();
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  CALL();
  *total_bytes = (size_t)card_bytes;
  *free_bytes = *total_bytes - (size_t)counts.live_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  CALL();
  if (counts.live_bytes + (int64_t)bytes > card_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
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
  fake_memory_leaves(freed->data, freed->bytes);
  --counts.live_objects;
  counts.live_bytes -= (int64_t)freed->bytes;
  freed->next = free_blocks;
  free_blocks = freed;
  return CUDA_SUCCESS;
}

// Functions are kept by name.
typedef struct named_function {
  struct named_function *next;
  unsigned int shared_bytes;  // that launches may ask for
  char name[];
} named_function;
static named_function *functions;

typedef struct pinned {
  struct pinned *next, *before;
  size_t bytes;
  _Alignas(256) char data[];
} pinned;
static pinned *all_pinned;

// What a lost device held is never given back. Tests look at live_objects; leak checkers at the memory of others.
__attribute__((destructor)) static void free_all(void) {
  while (all_blocks != NULL) {
    block *freed = all_blocks;
    all_blocks = freed->next_of_all;
    free(freed);
  }
  while (all_pinned != NULL) {
    pinned *freed = all_pinned;
    all_pinned = freed->next;
    free(freed);
  }
  fake_list_clear(&captured);
  fake_queue_free();
  while (functions != NULL) {
    named_function *freed = functions;
    functions = freed->next;
    free(freed);
  }
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
  (void)flags;
  CALL();
  pinned *made = aligned_alloc(256, (sizeof *made + bytes + 255) / 256 * 256);
  if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *made = (pinned){.next = all_pinned, .bytes = bytes};
  if (all_pinned != NULL) all_pinned->before = made;
  all_pinned = made;
  ++counts.live_objects;
  *memory = made->data;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *memory) {
  pinned *freed = (pinned *)(void *)((char *)memory - offsetof(pinned, data));
  fake_memory_leaves(freed->data, freed->bytes);
  if (freed->next != NULL) freed->next->before = freed->before;
  *(freed->before != NULL ? &freed->before->next : &all_pinned) = freed->next;
  --counts.live_objects;
  free(freed);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned int flags) {
  (void)flags;
  CALL();
  *address = (CUdeviceptr)(uintptr_t)memory;
  return CUDA_SUCCESS;
}

// Memory of the caller's that is registered.
typedef struct range {
  struct range *next;
  char *memory;
  size_t bytes;
} range;
static range *ranges;

static bool overlaps(const range *r, const char *memory, size_t bytes) {
  return memory < r->memory + r->bytes && r->memory < memory + bytes;
}

// As for pages that can only be read: who does not say so gets none of them.
CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned int flags) {
  CALL();
  if (lacking == CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED && (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0 || (uintptr_t)memory % 4096 != 0 || bytes % 4096 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (const range *r = ranges; r != NULL; r = r->next) {
    if (overlaps(r, memory, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  if (counts.pinned_bytes + (int64_t)bytes > most_pinned_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  range *made = malloc(sizeof *made);
  if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  *made = (range){.next = ranges, .memory = memory, .bytes = bytes};
  ranges = made;
  ++counts.live_objects;
  ++counts.registered;
  counts.pinned_bytes += (int64_t)bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *memory) {
  range **link = &ranges;
  while (*link != NULL && (*link)->memory != (char *)memory) link = &(*link)->next;
  range *freed = *link;
  if (freed == NULL) {
    ++n_wrong;
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  fake_memory_leaves(memory, freed->bytes);
  *link = freed->next;
  --counts.live_objects;
  counts.pinned_bytes -= (int64_t)freed->bytes;
  free(freed);
  return CUDA_SUCCESS;
}

// Counts what is copied from registered memory; a range that lies there only in part is an error of the caller.
static void count_mapped(const char *source, size_t bytes) {
  for (const range *r = ranges; r != NULL; r = r->next) {
    if (!overlaps(r, source, bytes)) continue;
    if (source < r->memory || source + bytes > r->memory + r->bytes) ++n_wrong;
    counts.mapped_bytes += (int64_t)bytes;
  }
}

// Puts |op| on the stream, or into the graph that the stream is captured into.
static CUresult add(CUstream stream, const fake_op *op, const void *params) {
  fake_stream *target = (fake_stream *)(void *)stream;
  fake_list *list = target == capturing ? &captured : fake_stream_list(target);
  return fake_list_add(list, op, params) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult copy(void *target, const void *source, size_t bytes, CUstream stream) {
  return add(stream, &(fake_op){.kind = FAKE_COPY, .target = target, .source = source, .bytes = bytes}, NULL);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  CALL();
  ++counts.uploads;
  counts.overlaps += fake_has_launch_beside((fake_stream *)(void *)stream);
  count_mapped(source, bytes);
  return copy((void *)(uintptr_t)target, source, bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  CALL();
  return copy(target, (const void *)(uintptr_t)source, bytes, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  CALL();
  return copy((void *)(uintptr_t)target, (const void *)(uintptr_t)source, bytes, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, CUstream stream) {
  CALL();
  const fake_op fill = {.kind = FAKE_FILL, .target = (char *)(uintptr_t)target, .value = value, .bytes = bytes};
  return add(stream, &fill, NULL);
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  (void)flags;
  CALL();
  fake_stream *made = fake_stream_make();
  if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  ++counts.live_objects;
  *stream = (CUstream)(void *)made;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  fake_stream_run((fake_stream *)(void *)stream);
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  CALL();
  if (capturing != NULL && capturing == (fake_stream *)(void *)stream) return refuse_wait();
  fake_stream_run((fake_stream *)(void *)stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  (void)flags;
  CALL();
  const bool is_begun = fake_stream_wait((fake_stream *)(void *)stream, (fake_event *)(void *)event);
  return is_begun ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  (void)mode;
  CALL();
  capturing = (fake_stream *)(void *)stream;
  if (on_capture != NULL) on_capture();
  return CUDA_SUCCESS;
}

// A graph is the list of what was captured, and so is what is made of it.
static fake_list *make_graph(const fake_list *from) {
  fake_list *graph = calloc(1, sizeof *graph);
  if (graph == NULL) return NULL;
  ++counts.live_objects;
  for (const fake_op *op = from->first; op != NULL; op = op->next) {
    if (!fake_list_add(graph, op, op->params)) break;
  }
  return graph;
}

static void free_graph(void *graph) {
  fake_list_clear(graph);
  free(graph);
  --counts.live_objects;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  (void)stream;
  capturing = NULL;
  CUresult result = call();
  if (result == CUDA_SUCCESS && is_capture_broken) result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  is_capture_broken = false;
  if (result == CUDA_SUCCESS) *graph = (CUgraph)(void *)make_graph(&captured);
  if (result == CUDA_SUCCESS && *graph == NULL) result = CUDA_ERROR_OUT_OF_MEMORY;
  fake_list_clear(&captured);
  return result;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  CALL();
  const bool is_captured = capturing != NULL && capturing == (fake_stream *)(void *)stream;
  *status = is_captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  (void)flags;
  CALL();
  fake_event *made = fake_event_make();
  if (made == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
  ++counts.live_objects;
  *event = (CUevent)(void *)made;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  (void)event;
  --counts.live_objects;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  CALL();
  const bool is_begun = fake_event_record((fake_event *)(void *)event, (fake_stream *)(void *)stream);
  return is_begun ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventQuery(CUevent event) {
  CALL();
  fake_event_run((fake_event *)(void *)event);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  CALL();
  fake_event_run((fake_event *)(void *)event);
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

CUresult cuModuleGetFunction(CUfunction *out_function, CUmodule module, const char *name) {
  (void)module;
  CALL();
  named_function *found = functions;
  while (found != NULL && strcmp(found->name, name) != 0) found = found->next;
  if (found == NULL) {
    found = malloc(sizeof *found + strlen(name) + 1);
    if (found == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    strcpy(found->name, name);
    found->shared_bytes = (48 << 10) - OWN_SHARED_BYTES;
    found->next = functions;
    functions = found;
  }
  *out_function = (CUfunction)(void *)found;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  CALL();
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (value > shared_bytes_of_block - OWN_SHARED_BYTES) return CUDA_ERROR_INVALID_VALUE;
  ((named_function *)(void *)function)->shared_bytes = (unsigned int)value;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction launched, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **params, void **extra) {
  (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)extra;
  CALL();
  if (shared_bytes > ((named_function *)(void *)launched)->shared_bytes) return CUDA_ERROR_INVALID_VALUE;
  ++*(capturing != NULL ? &counts.captured : &counts.launches);
  fake_op op = {.kind = FAKE_LAUNCH, .function = ((named_function *)(void *)launched)->name};
  if (params == NULL) return add(stream, &op, NULL);
  op.params_bytes = *(const size_t *)params[1];  // which a real driver knows from the function
  return add(stream, &op, params[0]);
}

CUresult cuGraphDestroy(CUgraph graph) {
  free_graph(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  (void)flags;
  CALL();
  *exec = (CUgraphExec)(void *)make_graph((const fake_list *)(const void *)graph);
  return *exec != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  free_graph(exec);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  CALL();
  ++counts.graph_launches;
  const fake_list *graph = (const fake_list *)(const void *)exec;
  for (const fake_op *op = graph->first; op != NULL; op = op->next) {
    if (add(stream, op, op->params) != CUDA_SUCCESS) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  (void)type, (void)interleave, (void)promotion, (void)fill;
  CALL();
  memset(map, 0, sizeof *map);
  if (n_contexts == 0) return CUDA_ERROR_INVALID_CONTEXT;
  bool is_good = rank >= 1 && rank <= 5 && (uintptr_t)address % 16 == 0 && (uintptr_t)map % 64 == 0;
  for (cuuint32_t i = 0; i < rank && is_good; ++i) {
    is_good = shape[i] > 0 && shape[i] <= (cuuint64_t)1 << 32 && box[i] > 0 && box[i] <= 256 && steps[i] == 1;
    if (i > 0) is_good = is_good && strides[i - 1] > 0 && strides[i - 1] % 16 == 0 && strides[i - 1] >> 40 == 0;
  }
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B && type == CU_TENSOR_MAP_DATA_TYPE_UINT16)
    is_good = is_good && box[0] <= 64;
  counts.tensor_maps += is_good;
  return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
