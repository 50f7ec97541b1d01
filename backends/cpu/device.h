// device.h — one open CPU device and the parts of its backend table.
#ifndef GRAFT_BACKENDS_CPU_DEVICE_H
#define GRAFT_BACKENDS_CPU_DEVICE_H

#include "backends/cpu/pool.h"
#include "backends/cpu/stream.h"

typedef struct graft_cpu_device {
  graft_cpu_info info;
  char name[96];
  graft_cpu_pool *pool;
  pthread_mutex_t turn;  // held while the pool works for one thread
  _Atomic uint64_t allocated_bytes, peak_bytes;
  graft_cpu_streams streams;
} graft_cpu_device;

// Everything of a device but its place in memory, for backends that begin with one.
GRAFT_NODISCARD graft_status graft_cpu_device_init(const graft_backend_config *config, graft_error *error,
                                                   graft_cpu_device *device);
void graft_cpu_device_release(graft_cpu_device *device);

// Takes the pool; false when the calling thread holds it already, or is one of its workers.
bool graft_cpu_device_lock(graft_cpu_device *device);
void graft_cpu_device_unlock(graft_cpu_device *device);

// Members of the backend table; see graft/device.h. cpu_backend.c:
void graft_cpu_device_describe(void *state, graft_device_info *out_info);
void graft_cpu_parallel(void *state, void (*fn)(void *arg, int64_t i), void *arg, int64_t n);

// service.c:
const void *graft_cpu_service(void *state, const char *name);

// memory.c:
void graft_cpu_count_allocation(graft_cpu_device *device, size_t bytes);
graft_status graft_cpu_allocate(void *state, size_t bytes, graft_error *error, void **out_memory);
void graft_cpu_release(void *state, void *memory, size_t bytes);
graft_status graft_cpu_copy(void *state, void *target, const void *source, size_t bytes, graft_error *error);

// recording.c:
graft_status graft_cpu_record_begin(void *state, uint32_t n_steps, graft_error *error, graft_recording **out_recording);
graft_encoder *graft_cpu_step_begin(graft_recording *recording, uint32_t step);
graft_status graft_cpu_record_end(graft_recording *recording, graft_error *error);
void graft_cpu_record_destroy(graft_recording *recording);
graft_status graft_cpu_record_run(graft_recording *recording, uint32_t first, uint32_t end,
                                  const graft_run_control *control, graft_error *error);

// The device that |recording| was begun for.
graft_cpu_device *graft_cpu_recording_device(const graft_recording *recording);

// reference.c: the kernel of last resort.
extern const graft_kernel_def graft_cpu_reference_kernel;

#endif
