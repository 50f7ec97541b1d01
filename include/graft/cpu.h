// cpu.h — for authors of CPU kernels: what the processor has, and how work is handed to the thread pool.
//
//   static void run(const void *args, int64_t item, const graft_cpu_worker *worker) { … one row block … }
//   graft_cpu_task task = {.run = run, .args = &args, .args_bytes = sizeof args, .n_items = n_row_blocks};
//   return graft_cpu_encode(encoder, &task, encode_args->error);
//
// Rule: how work is split into items depends on shapes only, and an item's result on nothing that another item of the
// same task does. Then results are the same bytes for any number of threads.
#ifndef GRAFT_CPU_H
#define GRAFT_CPU_H

#include "graft/extension.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bits of graft_device_info.features and graft_kernel_def.required_features on the "cpu" backend.
typedef enum graft_cpu_feature {
  GRAFT_CPU_AVX2 = 1u << 0,    // AVX2, FMA and F16C
  GRAFT_CPU_AVX512 = 1u << 1,  // AVX-512 F, BW, DQ, VL (and all of AVX2 above)
  GRAFT_CPU_AVX512_VNNI = 1u << 2,
  GRAFT_CPU_AVX512_BF16 = 1u << 3,
  GRAFT_CPU_AVX_VNNI = 1u << 4,
  GRAFT_CPU_NEON_DOTPROD = 1u << 8,
  GRAFT_CPU_NEON_I8MM = 1u << 9,
} graft_cpu_feature;

// What a device runs on.
typedef struct graft_cpu_info {
  uint32_t struct_size;
  uint64_t features;
  int32_t n_threads;          // workers are numbered 0 … n_threads - 1
  size_t l1_bytes, l2_bytes;  // of one core's data caches
  size_t l3_bytes;            // shared; 0 where unknown
} graft_cpu_info;

// Facts about a device that runs kernels of the "cpu" backend; NULL for any other. Borrowed. Thread-safe.
GRAFT_API const graft_cpu_info *graft_cpu_describe(const graft_device *device);

// The thread that runs an item: its number, for per-worker parts of a workspace, and the backend's own members. Frozen.
typedef struct graft_cpu_worker {
  int32_t index;
  void *run;
} graft_cpu_worker;

// A unit of recorded work: |run| is called once for each item 0 … n_items - 1, on any worker, in any order. Between two
// items the run may be cancelled, so an item should take less than a few milliseconds or ask graft_cpu_should_abort.
// Frozen.
typedef struct graft_cpu_task {
  void (*run)(const void *args, int64_t item, const graft_cpu_worker *worker);
  const void *args;  // copied into the recording, aligned to 16 bytes
  size_t args_bytes;
  int64_t n_items;  // 0: nothing to do
} graft_cpu_task;

// Whether the run is being cancelled or has failed elsewhere: the item may return at once, its output will not be used.
GRAFT_API bool graft_cpu_should_abort(const graft_cpu_worker *worker);

// Fails the run because of what the data holds, for example an index out of range. The first failure is kept.
GRAFT_API void graft_cpu_fail(const graft_cpu_worker *worker, graft_status status, const char *format, ...)
    GRAFT_PRINTF(3, 4);

// Adds a task to the step being recorded. Tasks of a step run one after another, each finished before the next begins.
// What threads wait for each other there is an item's time, so a task that others follow wants items of a microsecond.
// A device runs one recording at a time; an item must not run a plan of its own device.
// Errors: GRAFT_E_NO_MEMORY.
GRAFT_API GRAFT_NODISCARD graft_status graft_cpu_encode(graft_encoder *encoder, const graft_cpu_task *task,
                                                        graft_error *error);

// Service "cpu.parallel.v1" (graft_device_service): the device's own pool of threads, for work that is no kernel's.
#define GRAFT_CPU_PARALLEL_SERVICE "cpu.parallel.v1"

// A piece of work: |run| is called with |arg| once for each i, 0 ≤ i < n, on any worker, in any order. |abort| (may be
// NULL) is asked before every call, on the thread that makes it; once it says true no more calls are begun.
typedef struct graft_cpu_parallel_work {
  uint32_t struct_size;
  void (*run)(void *arg, int64_t i, int32_t worker);  // |worker|: 0 … n_threads - 1
  void *arg;
  int64_t n;
  graft_abort_fn abort;
  void *abort_user;
} graft_cpu_parallel_work;

typedef struct graft_cpu_parallel_service {
  uint32_t struct_size;
  int32_t (*n_threads)(const graft_device *device);
  // Runs |work| and waits. Callers of one device take turns, plans included.
  // Errors: GRAFT_E_CANCELLED (abort said so), GRAFT_E_BUSY (called from within work of the same device),
  // GRAFT_E_INVALID (struct_size, a NULL run). |error| may be NULL. Thread-safe.
  graft_status (*run)(const graft_device *device, const graft_cpu_parallel_work *work, graft_error *error);
} graft_cpu_parallel_service;

// Service "cpu.info.v1": what graft_cpu_describe gives.
#define GRAFT_CPU_INFO_SERVICE "cpu.info.v1"
typedef struct graft_cpu_info_service {
  uint32_t struct_size;
  const graft_cpu_info *(*describe)(const graft_device *device);
} graft_cpu_info_service;

// Backend "private", not built in: two devices, "private:0" and "private:1", that run the kernels of "cpu" on pools of
// their own, but whose memory nobody can touch while they neither run nor copy: a step that is given another device's
// memory ends the process on the spot. For tests, and for finding wrong devices. graft_context_options.devices takes
// operators away from them, by name or by the part between vendor and version: "private:0 lacks=acme.norm.v1+softmax";
// several lacks= add up. Opening one that is to lack what no registered operator is called fails: GRAFT_E_NOT_FOUND.
// "memory=BYTES" lets a device have no more than that.
GRAFT_API extern const graft_extension graft_extension_private_backend;

#ifdef __cplusplus
}
#endif

#endif
