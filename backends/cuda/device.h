// device.h — one open CUDA device and the parts of its backend table.
#ifndef GRAFT_BACKENDS_CUDA_DEVICE_H
#define GRAFT_BACKENDS_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/cuda/driver.h"
#include "backends/cuda/options.h"
#include "graft/cuda.h"

enum { GRAFT_CUDA_ALIGNMENT = 256, GRAFT_CUDA_N_STAGING = 2, GRAFT_CUDA_MAX_RETIRED = 16 };

typedef struct graft_cuda_loaded graft_cuda_loaded;    // a module on the device, module.c
typedef struct graft_cuda_retired graft_cuda_retired;  // a graph whose plan is gone, replay.c
typedef struct graft_cuda_range graft_cuda_range;      // of registered host memory, mapped.c

// Pinned memory on its way to the device; |is_free| follows when its last copy is done.
typedef struct graft_cuda_staging {
  void *memory;
  CUevent is_free;
} graft_cuda_staging;

typedef struct graft_cuda_device {
  graft_context *log;  // NULL: nobody listens
  graft_cuda_driver driver;
  graft_cuda_options options;
  graft_cuda_info info;
  char name[96];
  CUdevice card;
  CUcontext context;
  CUstream stream;
  graft_stream *copies;  // streams of copies beside it; guarded by |copying|
  pthread_mutex_t copying;
  graft_cuda_staging staging[GRAFT_CUDA_N_STAGING];
  uint32_t next_staging;
  CUevent progress[2];      // how far a run has come, for cancelling
  pthread_mutex_t turn;     // held while something is put on the stream
  pthread_mutex_t loading;  // held while modules and libraries are loaded
  graft_cuda_loaded *modules;
  void *cublas, *lt;
  pthread_t lt_loader;  // to be joined if |is_loading_lt|
  bool is_loading_lt;
  graft_cuda_retired *retired;
  uint32_t n_retired;
  graft_cuda_run_counts runs;  // guarded by |turn|
  _Atomic uint64_t allocated_bytes, peak_bytes;
  pthread_mutex_t pinning;  // guards the next two
  graft_cuda_range *ranges;
  uint64_t most_pinned_bytes;                        // with what is registered; 0: not known yet
  _Atomic uint64_t pinned_bytes, peak_pinned_bytes;  // of host memory
  _Atomic bool is_lost;                              // a launch has failed for good; only closing is left
} graft_cuda_device;

// Makes the device's context current in this thread; every success needs a leave.
graft_status graft_cuda_enter(graft_cuda_device *device, graft_error *error);
void graft_cuda_leave(graft_cuda_device *device);

// enter and leave with the device's turn.
graft_status graft_cuda_begin_turn(graft_cuda_device *device, graft_error *error);
void graft_cuda_end_turn(graft_cuda_device *device);
// Who waits for the stream or the context must not do so while another thread captures a plan, which that would break.
// False within a callback of a run, whose thread has the turn already and captures nothing meanwhile.
bool graft_cuda_hold_runs(graft_cuda_device *device);
void graft_cuda_resume_runs(graft_cuda_device *device, bool is_held);

// GRAFT_OK for CUDA_SUCCESS; else the error, and whether the device is lost is remembered.
graft_status graft_cuda_check(graft_cuda_device *device, CUresult result, const char *what, graft_error *error);

// Whether somebody captures the stream into a graph of their own: then work is only put on it, and nothing is waited
// for. With the device's turn, so that it is not graft's own capture of a plan.
bool graft_cuda_is_captured(graft_cuda_device *device);
// GRAFT_E_UNSUPPORTED then, with a sentence that begins with |what|.
graft_status graft_cuda_refuse_captured(graft_cuda_device *device, const char *what, graft_error *error);

// Waits for all work on the stream.
graft_status graft_cuda_wait(graft_cuda_device *device, graft_error *error);

// Members of the backend table; see graft/device.h. memory.c:
graft_status graft_cuda_allocate(void *state, size_t bytes, graft_error *error, void **out_memory);
void graft_cuda_release(void *state, void *memory, size_t bytes);
graft_status graft_cuda_upload(void *state, void *target, const void *source, size_t bytes, graft_error *error);
graft_status graft_cuda_download(void *state, void *target, const void *source, size_t bytes, graft_error *error);
graft_status graft_cuda_allocate_host(void *state, size_t bytes, graft_error *error, void **out_memory);
void graft_cuda_release_host(void *state, void *memory, size_t bytes);
graft_status graft_cuda_staging_create(graft_cuda_device *device, graft_error *error);
void graft_cuda_staging_destroy(graft_cuda_device *device);

// mapped.c:
graft_status graft_cuda_register_host(void *state, const void *memory, size_t bytes, graft_error *error);
void graft_cuda_unregister_host(void *state, const void *memory, size_t bytes);
// Gives back what a lost device kept; with the context current.
void graft_cuda_ranges_clear(graft_cuda_device *device);
void graft_cuda_count_pinned(graft_cuda_device *device, size_t bytes);
void graft_cuda_uncount_pinned(graft_cuda_device *device, size_t bytes);

// recording.c:
graft_status graft_cuda_record_begin(void *state, uint32_t n_steps, graft_error *error,
                                     graft_recording **out_recording);
graft_encoder *graft_cuda_step_begin(graft_recording *recording, uint32_t step);
graft_status graft_cuda_record_end(graft_recording *recording, graft_error *error);
void graft_cuda_record_destroy(graft_recording *recording);

// run.c:
graft_status graft_cuda_record_run(graft_recording *recording, uint32_t first, uint32_t end,
                                   const graft_run_control *control, graft_error *error);
graft_status graft_cuda_run_beside(graft_recording *recording, uint32_t first, uint32_t end,
                                   const graft_run_control *control, const graft_beside *beside, graft_error *error);

// service.c:
const void *graft_cuda_service(void *state, const char *name);

// blas.c: begins to load what products need beside everything else; nothing is lost where that fails. Joined before
// the device is gone.
void graft_cuda_blas_prefetch(graft_cuda_device *device);
void graft_cuda_blas_join(graft_cuda_device *device);

// module.c and blas.c; called with the context current when the device is closed.
void graft_cuda_modules_unload(graft_cuda_device *device);
void graft_cuda_blas_close(graft_cuda_device *device);

// The device behind |device|, or NULL when it belongs to another backend.
graft_cuda_device *graft_cuda_device_of(const graft_device *device);

#endif
