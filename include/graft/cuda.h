// cuda.h — for authors of CUDA kernels: facts about a device, functions of embedded device code, and how launches and
// library calls are recorded. graft's own kernels use nothing else.
//
//   static const graft_cuda_module module = {.struct_size = sizeof module, .name = "acme", .image = acme_fatbin};
//   GRAFT_TRY(graft_cuda_function_load(node->device, &module, "acme_scale", 0, error, &function));  // in prepare
//   graft_cuda_launch launch = {.struct_size = sizeof launch, .function = function, .grid = {n_blocks, 1, 1},
//                               .block = {256, 1, 1}, .params = &params, .params_bytes = sizeof params};
//   return graft_cuda_encode(encoder, &launch, args->error);                                        // in encode
//
// The parameters of a kernel are one struct, given by value: `__global__ void acme_scale(acme_scale_params p)`.
//
// Everything that is recorded runs in order on the stream of its device. A launch with fixed parameters can always be
// captured into a CUDA graph and is; a library call says whether it can.
//
// The entry "cuda" of graft_context_options.devices takes the words "library=PATH" (a driver library instead of the
// system's libcuda.so.1), "virtual=N" (so many devices on each card, for tests of several devices), "replay=off"
// (no CUDA graphs) and "mapping=off" (weights go through pinned memory, never straight from where they lie), as in
// "cuda virtual=2 replay=off".
#ifndef GRAFT_CUDA_H
#define GRAFT_CUDA_H

#include "graft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_cuda_function graft_cuda_function;

// Facts about a device of the "cuda" backend. Handles are those of the driver interface (CUcontext, CUstream, CUdevice)
// as plain pointers and integers, so that this header needs no toolkit; the runtime interface takes the same stream.
typedef struct graft_cuda_info {
  uint32_t struct_size;
  int32_t ordinal;                       // of the card among those that the driver counts; virtual devices share one
  int32_t compute_major, compute_minor;  // 9, 0
  int32_t n_multiprocessors;
  int32_t warp_size;
  int32_t max_threads_per_block;
  size_t shared_bytes_per_block;  // the most that a launch may ask for
  size_t l2_bytes;
  void *context;  // CUcontext
  void *stream;   // CUstream on which all work of this device runs
} graft_cuda_info;

// Services (graft_device_service). The first two give the facts above: "context" the stream, on which work is ordered
// with graft's own, and "device" the card's ordinal. The names that begin with "gpu" are the same for every backend of
// this kind; a GPU's runtime is `runtime`.
#define GRAFT_CUDA_CONTEXT_SERVICE "cuda.context.v1"
#define GRAFT_CUDA_DEVICE_SERVICE "cuda.device.v1"
#define GRAFT_CUDA_BLAS_SERVICE "cuda.blas.v1"
#define GRAFT_GPU_CONTEXT_SERVICE "gpu.context.v1"
#define GRAFT_GPU_DEVICE_SERVICE "gpu.device.v1"
#define GRAFT_GPU_BLAS_SERVICE "gpu.blas.v1"

typedef struct graft_cuda_context_service {
  uint32_t struct_size;
  const char *runtime;  // "cuda"
  const graft_cuda_info *(*describe)(const graft_device *device);
} graft_cuda_context_service;

// Facts about |device|; NULL for other backends. Borrowed. Thread-safe.
GRAFT_API const graft_cuda_info *graft_cuda_describe(const graft_device *device);

// Which of the cards that the driver counts "cuda:|index|" is, also before it is open: virtual devices share one.
// Errors: GRAFT_E_NOT_FOUND with the reason, in the context's error.
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_find_ordinal(graft_context *context, uint32_t index,
                                                               int32_t *out_ordinal);

// Device code: a fat binary, cubin or PTX text, as `nvcc -fatbin` writes it. Constant, with static storage.
typedef struct graft_cuda_module {
  uint32_t struct_size;
  const char *name;
  const void *image;
} graft_cuda_module;

// The function |name| of |module|, which is loaded once per device and kept until the device is closed. |shared_bytes|
// is the most dynamic shared memory that a launch will ask for. For `prepare`; thread-safe.
// Errors: GRAFT_E_DEVICE (no code for this card, no such function, the driver's reason), GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_function_load(const graft_device *device,
                                                                const graft_cuda_module *module, const char *name,
                                                                size_t shared_bytes, graft_error *error,
                                                                graft_cuda_function **out_function);

// One launch. An empty grid (a 0 in it) is nothing to do. A launch should take less than 10 ms, because a run can only
// be cancelled between two.
typedef struct graft_cuda_launch {
  uint32_t struct_size;
  graft_cuda_function *function;
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  const void *params;  // copied
  size_t params_bytes;
} graft_cuda_launch;

// Adds a launch to the step being recorded. Errors: GRAFT_E_NO_MEMORY, GRAFT_E_INVALID (a size the card cannot launch).
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_encode(graft_encoder *encoder, const graft_cuda_launch *launch,
                                                         graft_error *error);

// What the copy engine of compute capability 9.0 and up knows of a tensor whose boxes a kernel fetches into shared
// memory (cp.async.bulk.tensor): the driver's CUtensorMap. A member of a kernel's parameters, which are then declared
// `const __grid_constant__`. Frozen.
typedef struct graft_cuda_tensor_map {
  uint64_t words[16];
} __attribute__((aligned(64))) graft_cuda_tensor_map;

// A tensor as the copy engine takes it, the innermost dimension first; elements of that lie behind each other. Boxes
// may reach over its edges: there they are filled with zeros.
typedef struct graft_cuda_tiled_tensor {
  uint32_t struct_size;
  const void *data;       // a multiple of 16
  int32_t element_bytes;  // 1, 2 or 4
  int32_t rank;           // 1 … 5
  uint64_t shape[5];      // 1 … 2^32
  uint64_t strides[5];    // bytes, multiples of 16 below 2^40; the first one is not used
  uint32_t box[5];        // 1 … 256 elements; the first of them multiples of 16 bytes, and swizzled no more than that
  int32_t swizzle_bytes;  // 0, 32, 64 or 128: how pieces of 16 bytes are exchanged in shared memory
} graft_cuda_tiled_tensor;

// Makes |*out_map| of |tensor|, for `encode`; thread-safe. Errors: GRAFT_E_INVALID (no CUDA device, or a member is not
// as above), GRAFT_E_DEVICE (the driver refuses it).
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_tensor_map_encode(const graft_device *device,
                                                                    const graft_cuda_tiled_tensor *tensor,
                                                                    graft_error *error, graft_cuda_tensor_map *out_map);

// Work that a library puts on the stream. |run| is called at every run that is not a replay, with the device's context
// current, and must only enqueue. What it enqueues is decided by the first |key_bytes| of |args| alone.
typedef struct graft_cuda_call {
  uint32_t struct_size;
  graft_status (*run)(const void *args, void *stream, graft_error *error);
  const void *args;  // copied, aligned to 16 bytes
  size_t args_bytes, key_bytes;
  bool is_capture_safe;  // no effects on the host that each run needs, no decision on contents of tensors
  // What was captured needs the plan: it is not kept for one that is made anew. In a word that older callers lack.
  bool is_bound __attribute__((aligned(8)));
} graft_cuda_call;

GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_encode_call(graft_encoder *encoder, const graft_cuda_call *call,
                                                              graft_error *error);

// Fills |bytes| bytes of device memory with |value|.
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_encode_fill(graft_encoder *encoder, void *target, uint8_t value,
                                                              size_t bytes, graft_error *error);

// What a kernel says of data that it cannot work with; the first one to set |code| from 0 is heard. Frozen.
typedef struct graft_cuda_fault {
  int32_t code;
  int32_t reserved;
  int64_t values[2];
} graft_cuda_fault;

// A fault record for the step being recorded: device code writes it, and after the run |report| turns a record whose
// code is not 0 into the error with which the run fails. |*out_address| is its address on the device.
// Errors: GRAFT_E_NO_MEMORY, GRAFT_E_UNSUPPORTED (more than 64 in one recording).
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_encode_fault(graft_encoder *encoder,
                                                               graft_status (*report)(const graft_cuda_fault *fault,
                                                                                      graft_error *error),
                                                               graft_error *error, void **out_address);

// NVIDIA's matrix libraries, loaded when first asked for. |cublas| is a cublasHandle_t on the device's stream with host
// pointer mode: borrowed, never kept or destroyed, and left with stream, pointer mode, math mode and workspace as they
// are. Its only user at a time is the recording that runs. |lt| is a cublasLtHandle_t. NULL where not asked for.
typedef struct graft_cuda_blas {
  uint32_t struct_size;
  void *cublas;
  void *lt;
  void *(*find_symbol)(const char *name);  // of these libraries; NULL where there is none. Thread-safe.
} graft_cuda_blas;

// Gives cublasLt, and with |has_cublas| also cublas. Thread-safe.
// Errors: GRAFT_E_NOT_FOUND (the libraries are not installed), GRAFT_E_DEVICE (they do not work; the sentence says
// which and why).
GRAFT_API GRAFT_NODISCARD graft_status graft_cuda_blas_open(const graft_device *device, bool has_cublas,
                                                            graft_error *error, graft_cuda_blas *out_blas);

// The same as a service, "cuda.blas.v1".
typedef struct graft_cuda_blas_service {
  uint32_t struct_size;
  bool has_int8;  // integer matrix products on this device
  graft_status (*open)(const graft_device *device, bool has_cublas, graft_error *error, graft_cuda_blas *out_blas);
} graft_cuda_blas_service;

// How the device's plans have run so far, whole runs counted. For measuring.
typedef struct graft_cuda_run_counts {
  uint32_t struct_size;
  uint64_t n_dispatched, n_captured, n_replayed;
  double wait_seconds;  // that the host waited for the device in these runs: all else of a run is the host's own time
  uint64_t pinned_bytes, peak_pinned_bytes;  // of host memory, for the device: staging, and weights where they lie
  uint64_t n_failed_captures;                // of plans that are dispatched since then
  char capture_failure[128];                 // why the last one failed; "": none has
} graft_cuda_run_counts;

#define GRAFT_CUDA_RUNS_SERVICE "cuda.runs.v1"
typedef struct graft_cuda_runs_service {
  uint32_t struct_size;
  // |out_counts| has its struct_size set. Thread-safe, but not from within a run.
  void (*count)(const graft_device *device, graft_cuda_run_counts *out_counts);
} graft_cuda_runs_service;

#ifdef __cplusplus
}
#endif

#endif
