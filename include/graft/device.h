// device.h — what a backend provides: devices, memory, and a way to record and run work. A backend is a table; copy
// backends/null to begin a new one.
#ifndef GRAFT_DEVICE_H
#define GRAFT_DEVICE_H

#include "graft/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum graft_device_flags {
  GRAFT_DEVICE_HOST_MEMORY = 1u << 0,    // addresses are ordinary host pointers: constants need no upload
  GRAFT_DEVICE_ASYNC = 1u << 1,          // copies in streams go on beside runs
  GRAFT_DEVICE_EVENTS = 1u << 2,         // points in streams that may be waited for
  GRAFT_DEVICE_HOST_POINTERS = 1u << 3,  // can make memory of its own of host memory that is there
  GRAFT_DEVICE_MAPPING = 1u << 4,        // its kernels can use host memory that is allocated for it
} graft_device_flags;

enum { GRAFT_DEVICE_ALIGNMENT = 64 };  // the least that a device may give its allocations, in bytes

typedef struct graft_device_info {
  uint32_t struct_size;
  uint32_t flags;             // graft_device_flags
  char name[96];              // what a person calls it: "AMD EPYC (2 threads, AVX-512)"
  uint64_t features;          // backend's own bits, matched against graft_kernel_def.required_features
  uint64_t memory_bytes;      // total
  uint64_t free_bytes;        // at the time of asking
  size_t alignment;           // of every allocation, in bytes; at least GRAFT_DEVICE_ALIGNMENT
  uint64_t allocated_bytes;   // by graft on this device: now …
  uint64_t peak_bytes;        // … and the most so far
  uint64_t max_buffer_bytes;  // the largest single allocation; 0: no limit but the memory
} graft_device_info;

// Configuration read once by the context and handed to backends, so that they read no environment themselves.
typedef struct graft_backend_config {
  uint32_t struct_size;
  int32_t n_threads;       // 0: one per core that this process may use
  const char *cpu_target;  // "baseline", "avx2", "avx512"; NULL: the best that the CPU has
  // What single devices are told, as "private:0 lacks=acme.hardswish.v1+softmax; cuda replay=off": entries between
  // semicolons, each the name of a device, or of a backend for all of its devices, and words that the backend's header
  // explains. NULL: nothing.
  const char *devices;
  // Whose operators words may name, and to whose log backends write; NULL where a caller makes its own configuration.
  // Borrowed.
  graft_context *context;
} graft_backend_config;

// Asked now and then while work runs, from any thread; true stops the work soon. Must not block.
typedef bool (*graft_abort_fn)(void *user);

// Observes steps of a run; called on the thread that runs the plan, before and after each step. With it set, steps are
// not overlapped. Must not run a plan of the same device.
typedef void (*graft_step_fn)(void *user, uint32_t step, bool is_end);

// The same, and told what the step is: operator, node, device, kernel. |info| is borrowed for the call.
typedef struct graft_step_info graft_step_info;
typedef void (*graft_node_fn)(void *user, uint32_t step, const graft_step_info *info, bool is_end);

typedef enum graft_run_flags {
  // Every step is put on the device anew: one that otherwise replays whole runs, as CUDA does, replays none of this.
  GRAFT_RUN_DISPATCH = 1u << 0,
} graft_run_flags;

typedef struct graft_run_control {
  uint32_t struct_size;
  graft_abort_fn abort;
  void *abort_user;
  graft_step_fn on_step;
  void *on_step_user;     // of on_step and on_node
  uint32_t *out_step;     // may be NULL; where a run that failed or was cancelled stopped
  graft_node_fn on_node;  // backends never see it
  uint32_t flags;         // graft_run_flags
} graft_run_control;

// Work of the host's that may be done while a device runs. |work| does a little of it, a few milliseconds at most, and
// says whether there is more; it is called on the thread that runs the plan, and asks nothing of the device but copies
// in streams. Frozen.
typedef struct graft_beside {
  bool (*work)(void *user);
  void *user;
} graft_beside;

// Recorded work of one plan on one device. Made by the backend; every backend defines its own.
typedef struct graft_recording graft_recording;

// A queue of asynchronous copies, and a point in one. Made by the backend, as recordings are.
typedef struct graft_stream graft_stream;
typedef struct graft_event graft_event;

// A backend. Constant, with static storage; must outlive the context it is registered in. |state| is the backend's own
// object for one open device. Functions up to |describe| and those that make and end recordings are called by one
// thread at a time per device. Plans may run from several threads: |allocate|, |release|, |upload|, |download|, |run|
// and |parallel| take turns where the device needs it; nothing is run twice at once.
typedef struct graft_backend_def {
  uint32_t struct_size;
  const char *name;  // "cpu", "cuda"

  // Number of devices, and when there are none why: a sentence in |why|.
  uint32_t (*count)(const graft_backend_config *config, graft_reason *why);
  graft_status (*open)(const graft_backend_config *config, uint32_t index, graft_error *error, void **out_state);
  void (*close)(void *state);
  // Thread-safe. |out_info| is zero but for its struct_size; graft_versioned_fill keeps to it.
  void (*describe)(void *state, graft_device_info *out_info);

  // Memory, aligned to the device's alignment. 0 bytes are never asked for. Contents are undefined.
  graft_status (*allocate)(void *state, size_t bytes, graft_error *error, void **out_memory);
  void (*release)(void *state, void *memory, size_t bytes);
  // Blocking copies between host memory and device memory; ranges are valid and do not overlap.
  graft_status (*upload)(void *state, void *target, const void *source, size_t bytes, graft_error *error);
  graft_status (*download)(void *state, void *target, const void *source, size_t bytes, graft_error *error);

  // Recording: begin; then for each step in order step_begin, the kernel's encode calls with the encoder, and at the
  // end record_end. A failed recording is destroyed. Steps are numbered from 0.
  graft_status (*record_begin)(void *state, uint32_t n_steps, graft_error *error, graft_recording **out_recording);
  graft_encoder *(*step_begin)(graft_recording *recording, uint32_t step);
  graft_status (*record_end)(graft_recording *recording, graft_error *error);
  void (*record_destroy)(graft_recording *recording);

  // Runs the steps from |first| up to, not including, |end| and waits. Allocates nothing. |control| may be NULL. After
  // a cancelled (GRAFT_E_CANCELLED) or failed run the recording can be run again.
  graft_status (*run)(graft_recording *recording, uint32_t first, uint32_t end, const graft_run_control *control,
                      graft_error *error);

  // Calls |fn(arg, i)| for 0 ≤ i < n on host threads, in any order, and waits. NULL: the caller does it in sequence.
  void (*parallel)(void *state, void (*fn)(void *arg, int64_t i), void *arg, int64_t n);

  // Everything below may be NULL.

  // Another backend, whose kernels this one runs, too: its steps take what is encoded for that one. Own kernels and
  // those are asked in one order of choice.
  const char *kernels_of;

  // Whether the device as a whole takes |node|, before any kernel is asked; false with a reason.
  bool (*accepts)(void *state, const graft_node_info *node, graft_reason *why);

  // A constant table that the device offers under a versioned name, or NULL (graft_device_service).
  const void *(*service)(void *state, const char *name);

  // Waits until everything that was ever begun on the device is over and nothing of it is held any more.
  graft_status (*synchronize)(void *state, graft_error *error);

  // Streams: copies that are begun in order and return at once. All of the following are there or none. Memory on both
  // sides stays valid until the device was synchronised; that an event is over does not suffice to release it. Errors
  // of what was begun are reported by event_wait and synchronize.
  graft_status (*stream_create)(void *state, graft_error *error, graft_stream **out_stream);
  void (*stream_destroy)(graft_stream *stream);  // waits for what is in it
  graft_status (*upload_async)(graft_stream *stream, void *target, const void *source, size_t bytes,
                               graft_error *error);
  graft_status (*download_async)(graft_stream *stream, void *target, const void *source, size_t bytes,
                                 graft_error *error);
  graft_status (*copy_async)(graft_stream *stream, void *target, const void *source, size_t bytes,
                             graft_error *error);  // both on the device
  graft_status (*event_create)(void *state, graft_error *error, graft_event **out_event);
  void (*event_destroy)(graft_event *event);
  // The event is over when everything begun in |stream| before is.
  graft_status (*event_record)(graft_stream *stream, graft_event *event, graft_error *error);
  graft_status (*event_wait)(graft_event *event, graft_error *error);  // on the host; at once for one never recorded
  graft_status (*stream_wait)(graft_stream *stream, graft_event *event, graft_error *error);

  // Host memory from which copies in streams go to the device at full speed and without the host. With |run_beside|, or
  // neither.
  graft_status (*allocate_host)(void *state, size_t bytes, graft_error *error, void **out_memory);
  void (*release_host)(void *state, void *memory, size_t bytes);

  // |run|, and while the device works, |beside->work| until there is no more of it. What is left of it when the device
  // is done the caller does.
  graft_status (*run_beside)(graft_recording *recording, uint32_t first, uint32_t end, const graft_run_control *control,
                             const graft_beside *beside, graft_error *error);

  // Host memory of others that is only read, such as a mapped file: until it is unregistered, copies in streams go from
  // it to the device at full speed and without the host. Whole pages. It may be registered several times, and is
  // unregistered as often, with the same |memory| and |bytes|, when copies from it are over. A device that cannot do
  // it, with so much (GRAFT_E_NO_MEMORY: less may go), with this memory or at all, fails, which is nothing to worry
  // about. Both or neither, with streams. Thread-safe.
  graft_status (*register_host)(void *state, const void *memory, size_t bytes, graft_error *error);
  void (*unregister_host)(void *state, const void *memory, size_t bytes);
} graft_backend_def;

// The context's device with a name such as "cpu" or "cpu:0" (opened on first use, closed with the context).
// Errors: GRAFT_E_NOT_FOUND with the names that exist, GRAFT_E_DEVICE. Borrowed.
GRAFT_API GRAFT_NODISCARD graft_status graft_device_open(graft_context *context, const char *name,
                                                         graft_device **out_device);
GRAFT_API void graft_device_describe(const graft_device *device, graft_device_info *out_info);  // thread-safe
GRAFT_API const char *graft_device_name(const graft_device *device);                            // "cpu:0"
GRAFT_API const graft_backend_def *graft_device_backend(const graft_device *device);
GRAFT_API void *graft_device_state(const graft_device *device);  // the backend's own; for backends and their services

// What |device| offers beyond the table of its backend, found by a versioned name such as "cpu.parallel.v1": a constant
// table whose type the backend's header gives (cpu.h), valid while the device is open. NULL where it has no such
// service. Thread-safe.
GRAFT_API const void *graft_device_service(const graft_device *device, const char *name);

// Whether a registered kernel of its operator, an application's included, or one for any operator can run |node| on
// |device| (node->device is not read). With |native_only| only kernels of the vendor that provides the backend count.
// Fusion rules and decompositions do not. When none can, |why| (may be NULL) has the reason of the last one asked.
// A kernel's own callbacks may ask about other operators; about their own they are refused, with a reason. Thread-safe
// as long as nothing is registered meanwhile.
GRAFT_API bool graft_device_supports(const graft_device *device, const graft_node_info *node, bool native_only,
                                     graft_reason *why);

#ifdef __cplusplus
}
#endif

#endif
